//! The CPU's [`ModelRunner`]: a decoder, its KV memory and its threads.

use compere_cpu::{AttentionPlan, BLOCK_TOKENS, KvCache, Pool, Work};

use super::decoder::{Decoder, Step};
use crate::engine::paged::batch::Batch;
use crate::engine::paged::runner::{ModelRunner, RunnerError, RunnerLimits};

/// Runs a decoder on this machine's processors.
#[derive(Debug)]
pub struct CpuRunner {
    decoder: Decoder,
    cache: KvCache,
    pool: Pool,
    plan: AttentionPlan,
    limits: RunnerLimits,
}

impl CpuRunner {
    /// Puts the parts together; `max_context` is at most what the decoder was made for.
    pub(crate) fn new(decoder: Decoder, cache: KvCache, pool: Pool, max_context: usize) -> Self {
        Self {
            limits: RunnerLimits {
                vocab: decoder.spec().vocab,
                max_context,
                block_tokens: BLOCK_TOKENS,
                blocks: cache.blocks(),
            },
            decoder,
            cache,
            pool,
            plan: AttentionPlan::default(),
        }
    }

    /// Compute threads, the caller of `forward` included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Builds the plan, which checks blocks and positions, and checks the rest of the batch.
    fn plan(&mut self, batch: &Batch) -> Result<(), RunnerError> {
        let fault = |text: String| Err(RunnerError(text));
        self.plan.clear();
        let mut rows = 0;
        for (index, sequence) in batch.sequences.iter().enumerate() {
            if sequence.row != rows {
                return fault(format!(
                    "sequence {index} starts at row {}, expected {rows}",
                    sequence.row
                ));
            }
            rows = rows.saturating_add(sequence.rows);
            let end = sequence.position.saturating_add(sequence.rows);
            if end > self.limits.max_context {
                let most = self.limits.max_context;
                return fault(format!(
                    "sequence {index} has {end} tokens, the context holds {most}"
                ));
            }
            let table = sequence.block..sequence.block.saturating_add(sequence.blocks);
            let Some(table) = batch.blocks.get(table) else {
                return fault(format!(
                    "the block table of sequence {index} is outside the batch"
                ));
            };
            self.plan.push(
                sequence.position,
                sequence.rows,
                table.iter().map(|block| block.0),
            );
        }
        if rows != batch.tokens.len() {
            return fault(format!("{} tokens for {rows} rows", batch.tokens.len()));
        }
        if let Some(token) = batch
            .tokens
            .iter()
            .find(|&&token| token as usize >= self.limits.vocab)
        {
            return fault(format!(
                "token {token} is outside the vocabulary of {}",
                self.limits.vocab
            ));
        }
        if let Some(row) = batch.logit_rows.iter().find(|&&row| row >= rows) {
            return fault(format!("logits of row {row} in a batch of {rows} rows"));
        }
        if !batch.logit_rows.is_sorted_by(|a, b| a < b) {
            return fault("the rows whose logits are wanted are not ascending".to_owned());
        }
        let spec = self.decoder.spec();
        let work = Work {
            heads: spec.kv_heads,
            group: spec.heads / spec.kv_heads,
            threads: self.pool.threads(),
        };
        self.plan
            .finish(self.cache.blocks(), work)
            .map_err(|error| RunnerError(error.to_string()))?;
        self.plan.want(&batch.logit_rows, work);
        Ok(())
    }
}

impl ModelRunner for CpuRunner {
    fn limits(&self) -> RunnerLimits {
        self.limits
    }

    fn forward(&mut self, batch: &Batch, logits: &mut Vec<f32>) -> Result<(), RunnerError> {
        self.plan(batch)?;
        let step = Step {
            pool: &mut self.pool,
            cache: &mut self.cache,
            plan: &self.plan,
        };
        self.decoder
            .forward(step, &batch.tokens, &batch.logit_rows, logits);
        Ok(())
    }
}
