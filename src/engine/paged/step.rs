//! The engine's state and its step: everything that happens on the engine thread, without the thread.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use super::batch::{Batch, BatchSequence};
use super::config::Config;
use super::kv::{BlockTable, Kv};
use super::runner::{ModelRunner, RunnerError};
use super::sampler::Sampler;
use super::scheduler::{Moves, Planning, Scheduler};
use super::sequence::{End, Purpose, Sequence};
use super::shared::Shared;
use crate::engine::{FinishReason, PinId};
use crate::telemetry::EngineStats;
use crate::tokenizer::Tokenizer;

/// The engine behind its queue; one thread at a time steps it.
pub(super) struct Core {
    runner: Box<dyn ModelRunner>,
    tokenizer: Arc<Tokenizer>,
    shared: Arc<Shared>,
    arrivals: Receiver<Vec<Sequence>>,
    scheduler: Scheduler,
    kv: Kv,
    /// Pinned prefixes that are computed.
    resident: Vec<Resident>,
    sampler: Sampler,
    batch: Batch,
    logits: Vec<f32>,
    vocab: usize,
    /// Sequences on their way out; empty between steps.
    ended: Vec<Sequence>,
    steps: u64,
}

struct Resident {
    pin: PinId,
    blocks: usize,
    table: BlockTable,
}

impl Core {
    pub(super) fn new(
        runner: Box<dyn ModelRunner>,
        tokenizer: Arc<Tokenizer>,
        shared: Arc<Shared>,
        arrivals: Receiver<Vec<Sequence>>,
        config: &Config,
    ) -> Self {
        let limits = runner.limits();
        shared.stats.kv_blocks.store(limits.blocks as u64, Relaxed);
        Self {
            runner,
            tokenizer,
            shared,
            arrivals,
            scheduler: Scheduler::new(config),
            kv: Kv::new(limits.blocks, limits.block_tokens),
            resident: Vec::new(),
            sampler: Sampler::default(),
            batch: Batch::default(),
            logits: Vec::new(),
            vocab: limits.vocab,
            ended: Vec::new(),
            steps: 0,
        }
    }

    /// Does one round of work; `false` when there is nothing left to do until something arrives.
    pub(super) fn step(&mut self) -> bool {
        let started = self.now();
        self.drain(started);
        self.reap(started);
        self.plan(started);
        match self.forward() {
            Ok(()) => self.sample(),
            Err(error) => self.fail(&error),
        }
        self.deliver();
        self.reclaim();
        self.report(started);
        !self.scheduler.is_empty()
    }

    fn now(&self) -> Instant {
        (self.shared.clock)()
    }

    /// Takes in what arrived: requests, and pins that their callers gave back.
    fn drain(&mut self, now: Instant) {
        self.take_arrivals(now);
        let given_back: Vec<PinId> = self.shared.pins.given_back().collect();
        for pin in given_back {
            if !self.unpin(pin) {
                // A pin that is in neither place is still on its way here; it is looked for again in the next step.
                self.scheduler
                    .end_pin(pin, "unpinned before it was resident");
            }
        }
    }

    /// Queues all choices of each request that came.
    fn take_arrivals(&mut self, now: Instant) {
        while let Ok(choices) = self.arrivals.try_recv() {
            // The first one has the request's place.
            (1..choices.len()).for_each(|_| self.shared.join_queue());
            choices
                .into_iter()
                .for_each(|choice| self.scheduler.add(choice, now));
        }
    }

    /// Gives a resident prefix back to the ordinary cache; `false` when it is not resident.
    fn unpin(&mut self, pin: PinId) -> bool {
        let is_pin = |resident: &Resident| resident.pin == pin;
        let Some(index) = self.resident.iter().position(is_pin) else {
            return false;
        };
        let resident = self.resident.swap_remove(index);
        self.kv.release(resident.table);
        self.shared.pins.free(pin, resident.blocks);
        true
    }

    /// Ends what nobody waits for any more, before anything is spent on it.
    fn reap(&mut self, now: Instant) {
        self.scheduler.expire(now);
        self.reclaim();
    }

    fn plan(&mut self, now: Instant) {
        let mut planning = Planning {
            kv: &mut self.kv,
            stats: &self.shared.stats,
            now,
            moves: Moves::default(),
        };
        self.scheduler.plan(&mut planning);
        let Moves {
            admitted,
            preempted,
        } = planning.moves;
        (0..preempted).for_each(|_| self.shared.return_to_queue());
        (0..admitted).for_each(|_| self.shared.leave_queue());
        self.shared
            .stats
            .preemptions
            .fetch_add(preempted as u64, Relaxed);
        self.set_gauges();
    }

    /// Computes what was planned.
    fn forward(&mut self) -> Result<(), RunnerError> {
        self.batch.clear();
        for sequence in self.scheduler.planned() {
            append(&mut self.batch, sequence, self.kv.block_tokens());
        }
        if self.batch.tokens.is_empty() {
            return Ok(());
        }
        self.steps += 1;
        let batch_size = self.batch.sequences.len();
        self.shared.stats.batch_size.observe(batch_size as f64);
        self.runner.forward(&self.batch, &mut self.logits)?;
        let wanted = self.batch.logit_rows.len() * self.vocab;
        if self.logits.len() != wanted {
            let got = self.logits.len();
            return Err(RunnerError(format!(
                "{got} logits where {wanted} were asked for"
            )));
        }
        Ok(())
    }

    /// Keeps the computed KV and chooses the next tokens.
    fn sample(&mut self) {
        let now = self.now();
        let mut rows = self.logits.chunks_exact_mut(self.vocab);
        for sequence in self.scheduler.planned_mut() {
            let mut stored = sequence.table.stored() + sequence.known_rows();
            let scored = sequence.rows_to_score().len();
            let scored = sequence.score_prompt(rows.by_ref().take(scored));
            let chosen = match sequence.wants_logits() {
                true => 1 + sequence.guess().len(),
                false => 0,
            };
            let logits = rows.by_ref().take(chosen);
            if let Err(error) = scored {
                sequence.end = Some(End::Failed(error.to_string()));
                logits.for_each(drop);
            } else if chosen > 0 {
                let mut chooser = Chooser {
                    sampler: &mut self.sampler,
                    tokenizer: &self.tokenizer,
                    stats: &self.shared.stats,
                    step: self.steps,
                    now,
                };
                stored += chooser.choose(sequence, logits);
            } else if stored == sequence.tokens.len() {
                sequence.end = Some(End::Finished(sequence.reason_when_computed()));
            }
            self.kv
                .commit(&mut sequence.table, &sequence.tokens, stored);
        }
    }

    /// Ends the sequences of a batch that could not be computed.
    fn fail(&mut self, error: &RunnerError) {
        tracing::error!(%error, sequences = self.batch.sequences.len(), "step failed");
        for sequence in self.scheduler.planned_mut() {
            sequence.end = Some(End::Failed(error.to_string()));
        }
    }

    fn deliver(&mut self) {
        for sequence in self.scheduler.planned_mut() {
            sequence.deliver();
        }
    }

    /// Frees what ended sequences held, then tells their readers: who sees the end finds the memory free.
    fn reclaim(&mut self) {
        let waited = self.scheduler.take_ended(&mut self.ended);
        (0..waited).for_each(|_| self.shared.leave_queue());
        if self.ended.is_empty() {
            return;
        }
        for sequence in &mut self.ended {
            let table = std::mem::take(&mut sequence.table);
            if sequence.is_new() && sequence.end == Some(End::Finished(FinishReason::Deadline)) {
                self.shared.stats.expired.fetch_add(1, Relaxed);
            }
            match (&sequence.end, sequence.purpose) {
                (Some(End::Finished(FinishReason::Stop)), Purpose::Pin { id, blocks }) => {
                    self.resident.push(Resident {
                        pin: id,
                        blocks,
                        table,
                    });
                    self.shared.close();
                    continue;
                }
                (Some(End::Failed(_)), _) => self.kv.discard(table),
                _ => self.kv.release(table),
            }
            if let Purpose::Pin { id, blocks } = sequence.purpose {
                self.shared.pins.free(id, blocks);
            }
            self.shared.close();
        }
        self.set_gauges();
        self.announce();
    }

    /// Sends the terminal events.
    fn announce(&mut self) {
        let now = self.now();
        for sequence in std::mem::take(&mut self.ended) {
            let purpose = sequence.purpose;
            let heard = match sequence.end.clone() {
                Some(End::Finished(reason)) => sequence.finish(reason, now),
                Some(End::Failed(message)) => sequence.finish(FinishReason::Error(message), now),
                Some(End::Dropped) | None => false,
            };
            // A pin whose ticket was dropped just before it became resident is cancelled all the same.
            if let (false, Purpose::Pin { id, .. }) = (heard, purpose) {
                self.unpin(id);
            }
        }
    }

    fn set_gauges(&self) {
        let stats = &self.shared.stats;
        stats
            .requests_running
            .store(self.scheduler.running().len() as u64, Relaxed);
        stats
            .kv_blocks_used
            .store(self.kv.referenced() as u64, Relaxed);
    }

    fn report(&mut self, started: Instant) {
        if !self.batch.tokens.is_empty() {
            let took = self.now().saturating_duration_since(started);
            self.shared.stats.step.observe_duration(took);
            self.scheduler.learn(self.batch.tokens.len(), took);
        }
        self.set_gauges();
        self.shared.beat();
    }

    /// Ends every sequence with an error, those that did not arrive yet included.
    pub(super) fn end_all(&mut self, message: &str) {
        let now = self.now();
        self.take_arrivals(now);
        self.scheduler.end_all(&End::Failed(message.to_owned()));
        self.reclaim();
    }
}

/// What choosing a sequence's next tokens takes.
struct Chooser<'a> {
    sampler: &'a mut Sampler,
    tokenizer: &'a Tokenizer,
    stats: &'a EngineStats,
    step: u64,
    now: Instant,
}

impl Chooser<'_> {
    /// Chooses a token from the last known row's logits, and from each further row's as long as the token guessed there
    /// is the one that was chosen; returns how many guesses were right.
    fn choose<'a>(
        &mut self,
        sequence: &mut Sequence,
        rows: impl Iterator<Item = &'a mut [f32]>,
    ) -> usize {
        let mut right = 0;
        let mut more = true;
        // All rows are taken, so that the next sequence finds its own.
        for logits in rows {
            if !more {
                continue;
            }
            match sequence.choose(self.sampler, self.tokenizer, logits) {
                Ok(token) => {
                    sequence.count_zombie(self.step, self.stats);
                    sequence.accept(token, self.tokenizer, self.now, self.stats);
                }
                Err(error) => sequence.end = Some(End::Failed(error.to_string())),
            }
            more = sequence.guessed_right(right);
            right += usize::from(more);
        }
        sequence.end_guess(right, self.stats);
        right
    }
}

#[cfg(test)]
impl Core {
    pub(super) fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    pub(super) fn scheduler_mut(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }

    /// Panics unless every block is in exactly one state and referenced as often as tables name it.
    pub(super) fn check(&self) {
        let resident = self.resident.iter().map(|resident| &resident.table);
        let sequences = self.scheduler.all().map(|sequence| &sequence.table);
        self.kv.check(sequences.chain(resident));
        self.scheduler.check();
    }
}

/// Adds a sequence's rows to the batch.
fn append(batch: &mut Batch, sequence: &Sequence, block_tokens: usize) {
    let position = sequence.table.stored();
    let row = batch.tokens.len();
    let block = batch.blocks.len();
    let end = position + sequence.rows;
    let blocks = end.div_ceil(block_tokens);
    let known = position + sequence.known_rows();
    batch
        .tokens
        .extend_from_slice(&sequence.tokens[position..known]);
    batch.tokens.extend_from_slice(sequence.guess());
    batch
        .blocks
        .extend_from_slice(&sequence.table.blocks()[..blocks]);
    batch.sequences.push(BatchSequence {
        row,
        rows: sequence.rows,
        position,
        block,
        blocks,
    });
    let scored = sequence.rows_to_score();
    batch.logit_rows.extend(scored.map(|index| row + index));
    if sequence.wants_logits() {
        let last = row + sequence.known_rows() - 1;
        batch.logit_rows.extend(last..batch.tokens.len());
    }
}
