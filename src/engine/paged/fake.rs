//! A fake model for tests: it computes no model, only what shows whether an engine drives a real one rightly.
//! Its "KV" are the tokens themselves, and all it says it derives from what it reads back through the block tables:
//! a wrong table, a stale block or a prefix shared by mistake changes what it says.

mod bytes;
mod control;
mod script;
#[cfg(test)]
mod tests;

use super::batch::{Batch, BatchSequence, BlockId};
use super::runner::{ModelRunner, RunnerError, RunnerLimits};
use crate::tokenizer::TokenId;

pub use bytes::{END, byte_tokenizer};
pub use control::FakeControl;
pub use script::Script;

/// The fake runner.
#[derive(Debug)]
pub struct FakeRunner {
    limits: RunnerLimits,
    /// `[blocks, block_tokens]`: position and token, where something was written.
    kv: Vec<Option<(usize, TokenId)>>,
    voice: Voice,
    control: FakeControl,
    /// Context of the row at hand.
    context: Vec<TokenId>,
}

#[derive(Debug)]
enum Voice {
    /// Of so many of the latest tokens.
    Hash(usize),
    Script(Script),
}

impl FakeRunner {
    /// Says what a hash of the whole context yields: any other context gives other logits.
    #[must_use]
    pub fn hashing(limits: RunnerLimits) -> Self {
        Self::new(limits, Voice::Hash(usize::MAX))
    }

    /// As [`FakeRunner::hashing`], but of the latest `memory` tokens only, so that it comes to repeat itself.
    #[must_use]
    pub fn forgetful(limits: RunnerLimits, memory: usize) -> Self {
        Self::new(limits, Voice::Hash(memory))
    }

    /// Says what `script` tells it to.
    #[must_use]
    pub fn scripted(limits: RunnerLimits, script: Script) -> Self {
        Self::new(limits, Voice::Script(script))
    }

    fn new(limits: RunnerLimits, voice: Voice) -> Self {
        Self {
            limits,
            kv: vec![None; limits.blocks * limits.block_tokens],
            voice,
            control: FakeControl::default(),
            context: Vec::new(),
        }
    }

    /// A handle that observes and disturbs this runner, also once an engine owns it.
    #[must_use]
    pub fn control(&self) -> FakeControl {
        self.control.clone()
    }

    /// Stores the tokens of all rows and checks the batch as strictly as it is documented.
    fn store(&mut self, batch: &Batch) -> Result<(), RunnerError> {
        let mut written = std::collections::HashSet::new();
        let mut next_row = 0;
        for sequence in &batch.sequences {
            if sequence.row != next_row || sequence.rows == 0 {
                return Err(RunnerError(format!(
                    "rows of {sequence:?} do not follow row {next_row}"
                )));
            }
            next_row += sequence.rows;
            let end = sequence.position + sequence.rows;
            if end > self.limits.max_context || end > sequence.blocks * self.limits.block_tokens {
                return Err(RunnerError(format!(
                    "no room for {end} tokens in {sequence:?}"
                )));
            }
            for offset in 0..sequence.rows {
                let position = sequence.position + offset;
                let slot = self.slot(batch, sequence, position)?;
                if !written.insert(slot) {
                    return Err(RunnerError(format!(
                        "slot {slot} is written twice in one step"
                    )));
                }
                self.kv[slot] = Some((position, batch.tokens[sequence.row + offset]));
            }
        }
        if next_row != batch.tokens.len() {
            return Err(RunnerError(format!(
                "rows after row {next_row} belong to nobody"
            )));
        }
        Ok(())
    }

    fn slot(
        &self,
        batch: &Batch,
        sequence: &BatchSequence,
        position: usize,
    ) -> Result<usize, RunnerError> {
        let table = &batch.blocks[sequence.block..sequence.block + sequence.blocks];
        let BlockId(block) = table[position / self.limits.block_tokens];
        if block as usize >= self.limits.blocks {
            return Err(RunnerError(format!("block {block} is outside the pool")));
        }
        Ok(block as usize * self.limits.block_tokens + position % self.limits.block_tokens)
    }

    /// Reads the context of `row` back; the position that a slot was written for must be the one it is read for.
    fn read_back(&mut self, batch: &Batch, row: usize) -> Result<(), RunnerError> {
        let owner = batch
            .sequences
            .partition_point(|sequence| sequence.row <= row)
            - 1;
        let sequence = &batch.sequences[owner];
        self.context.clear();
        for position in 0..=sequence.position + row - sequence.row {
            let slot = self.slot(batch, sequence, position)?;
            match self.kv[slot] {
                Some((written_for, token)) if written_for == position => self.context.push(token),
                other => {
                    return Err(RunnerError(format!("position {position} reads {other:?}")));
                }
            }
        }
        Ok(())
    }

    fn speak(&self, logits: &mut Vec<f32>) {
        match &self.voice {
            Voice::Hash(memory) => {
                let forgotten = self.context.len().saturating_sub(*memory);
                let state = self.context[forgotten..]
                    .iter()
                    .fold(0, |state, token| mix(state, *token));
                let vocab = u32::try_from(self.limits.vocab).unwrap_or(u32::MAX);
                // Any spread of values will do
                logits.extend((0..vocab).map(|token| (mix(state, token) >> 40) as f32 / 1e6));
            }
            Voice::Script(script) => {
                let start = logits.len();
                logits.resize(start + self.limits.vocab, 0.0);
                logits[start + script.next(&self.context) as usize] = 100.0;
            }
        }
    }
}

impl ModelRunner for FakeRunner {
    fn limits(&self) -> RunnerLimits {
        self.limits
    }

    fn forward(&mut self, batch: &Batch, logits: &mut Vec<f32>) -> Result<(), RunnerError> {
        let fault = self.control.enter(batch)?;
        self.store(batch)?;
        logits.clear();
        for row in &batch.logit_rows {
            self.read_back(batch, *row)?;
            self.speak(logits);
        }
        if fault.poisons() {
            logits.fill(f32::NAN);
        }
        Ok(())
    }
}

/// A well mixed function of both (multiply-xorshift with odd constants).
fn mix(state: u64, token: TokenId) -> u64 {
    let state = (state ^ u64::from(token)).wrapping_mul(0x2545_f491_4f6c_dd1d);
    let state = (state ^ (state >> 29)).wrapping_add(0x1234_5678_9abc_def1);
    let state = state.wrapping_mul(0xd6e8_feb8_6659_fd93);
    state ^ (state >> 32)
}
