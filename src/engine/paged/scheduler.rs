//! Decides what a step computes and whose blocks are given up for it. Pure policy: no clock, no device, no channel.

use std::time::{Duration, Instant};

use super::config::Config;
use super::kv::{BlockTable, Kv};
use super::order::{Rank, class, cost_of_preempting, worth};
use super::sequence::{End, Purpose, Sequence};
use crate::engine::FinishReason;
use crate::telemetry::EngineStats;

/// The sequences of an engine: those that wait and those that hold blocks.
#[derive(Debug)]
pub(super) struct Scheduler {
    waiting: Vec<Sequence>,
    running: Vec<Sequence>,
    step_tokens: usize,
    mixed_step_tokens: usize,
    max_running: usize,
    aging: Duration,
    next_serial: u64,
}

/// What the queue's changes in one step add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moves {
    /// Sequences that left the queue.
    pub(super) admitted: usize,
    /// Sequences that lost their blocks and wait again.
    pub(super) preempted: usize,
}

/// What a plan reads and writes besides the scheduler's own state.
pub(super) struct Planning<'a> {
    pub(super) kv: &'a mut Kv,
    pub(super) stats: &'a EngineStats,
    pub(super) now: Instant,
    pub(super) moves: Moves,
}

impl Scheduler {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            waiting: Vec::new(),
            running: Vec::new(),
            step_tokens: config.step_tokens,
            mixed_step_tokens: config.mixed_step_tokens,
            max_running: config.max_running,
            aging: config.aging(),
            next_serial: 0,
        }
    }

    /// Queues a new sequence.
    pub(super) fn add(&mut self, mut sequence: Sequence) {
        sequence.serial = self.next_serial;
        self.next_serial += 1;
        self.waiting.push(sequence);
    }

    pub(super) fn running(&self) -> &[Sequence] {
        &self.running
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// All sequences, wherever they are.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Sequence> {
        self.waiting.iter_mut().chain(&mut self.running)
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = &Sequence> {
        self.waiting.iter().chain(&self.running)
    }

    /// The sequences of this step's batch, in its order.
    pub(super) fn planned(&self) -> impl Iterator<Item = &Sequence> {
        let running = self.running.iter();
        running.filter(|sequence| sequence.rows > 0)
    }

    /// As [`Scheduler::planned`].
    pub(super) fn planned_mut(&mut self) -> impl Iterator<Item = &mut Sequence> {
        let running = self.running.iter_mut();
        running.filter(|sequence| sequence.rows > 0)
    }

    /// Moves ended sequences into `ended`; returns how many of them waited.
    pub(super) fn take_ended(&mut self, ended: &mut Vec<Sequence>) -> usize {
        let before = ended.len();
        ended.extend(
            self.waiting
                .extract_if(.., |sequence| sequence.end.is_some()),
        );
        let waited = ended.len() - before;
        ended.extend(
            self.running
                .extract_if(.., |sequence| sequence.end.is_some()),
        );
        waited
    }

    /// Sets each running sequence's `rows`: every decode, then prompts in chunks, best rank first, while the step has
    /// room. Admits from the queue strictly in order: what does not fit is not overtaken, so it gets its turn.
    pub(super) fn plan(&mut self, planning: &mut Planning<'_>) {
        for sequence in &mut self.running {
            sequence.rows = 0;
        }
        self.grow_decodes(planning);
        let mut decodes = 0;
        for sequence in self
            .running
            .iter_mut()
            .filter(|sequence| sequence.decodes())
        {
            sequence.rows = 1;
            decodes += 1;
        }
        let budget = match decodes {
            0 => self.step_tokens,
            _ => self.mixed_step_tokens,
        };
        self.fill(budget - decodes.min(budget), planning);
    }

    /// Gives each decoding sequence room for its next token, best rank first, at the cost of the least worthy.
    fn grow_decodes(&mut self, planning: &mut Planning<'_>) {
        let now = planning.now;
        loop {
            let kv = &*planning.kv;
            let needy = self.running.iter_mut().filter(|sequence| {
                let blocks = sequence.table.blocks().len();
                sequence.decodes() && kv.blocks_for(sequence.tokens.len()) > blocks
            });
            let aging = self.aging;
            let Some(first) = needy.min_by_key(|sequence| Rank::new(sequence, now, aging)) else {
                return;
            };
            if planning.kv.reserve(&mut first.table, first.tokens.len()) {
                continue;
            }
            // The needy one itself may be the victim, so there always is one.
            let victims = (0..self.running.len())
                .min_by_key(|index| cost_of_preempting(&self.running[*index], now, aging));
            if let Some(victim) = victims {
                self.preempt(victim, planning);
            }
        }
    }

    /// Spends `budget` tokens on prompts, of running sequences and of those that can be admitted.
    fn fill(&mut self, mut budget: usize, planning: &mut Planning<'_>) {
        let mut blocked = false;
        while budget > 0 {
            let prefill = self.best_prefill(planning.now);
            let queued = self.best_waiting(planning.now).filter(|_| !blocked);
            let admit = match (queued, prefill) {
                (Some((queued, _)), Some((prefill, _))) => queued < prefill,
                (queued, _) => queued.is_some(),
            };
            match (admit, queued, prefill) {
                (true, Some((_, index)), _) => blocked = !self.admit(index, planning),
                (_, _, Some((_, index))) => budget -= self.assign(index, budget, planning),
                _ => return,
            }
        }
    }

    fn best_prefill(&self, now: Instant) -> Option<(Rank, usize)> {
        let indexed = self.running.iter().enumerate();
        let prefills = indexed.filter(|(_, sequence)| {
            sequence.rows == 0 && sequence.end.is_none() && !sequence.decodes()
        });
        prefills
            .map(|(index, sequence)| (Rank::new(sequence, now, self.aging), index))
            .min()
    }

    fn best_waiting(&self, now: Instant) -> Option<(Rank, usize)> {
        let indexed = self.waiting.iter().enumerate();
        indexed
            .filter(|(_, sequence)| !sequence.is_held())
            .map(|(index, sequence)| (Rank::new(sequence, now, self.aging), index))
            .min()
    }

    /// Gives a prefilling sequence up to `budget` rows, after whatever the cache holds by now; returns the rows.
    fn assign(&mut self, index: usize, budget: usize, planning: &mut Planning<'_>) -> usize {
        let sequence = &mut self.running[index];
        let mut table = std::mem::take(&mut sequence.table);
        let found = planning.kv.adopt(&mut table, sequence.shareable());
        sequence.table = table;
        sequence.count_cached(found, planning.stats);
        sequence.rows = sequence.pending().min(budget).min(sequence.most_rows());
        if sequence.pending() == 0 {
            // Only a pin needs no logits: its whole prefix was there.
            sequence.end = Some(End::Finished(FinishReason::Stop));
        }
        sequence.rows
    }

    /// Moves a waiting sequence to the running ones with blocks for its whole context; `false` when it must wait.
    fn admit(&mut self, index: usize, planning: &mut Planning<'_>) -> bool {
        if !self.fits(&self.waiting[index], 0, 0, planning.kv) && !self.make_room(index, planning) {
            return false;
        }
        let mut sequence = self.waiting.remove(index);
        let mut table = BlockTable::new(sequence.key_space().root());
        let found = planning.kv.adopt(&mut table, sequence.shareable());
        let reserved = planning.kv.reserve(&mut table, sequence.tokens.len());
        sequence.table = table;
        debug_assert!(reserved, "fits() counted the blocks");
        if !reserved {
            planning.kv.release(std::mem::take(&mut sequence.table));
            self.waiting.insert(index, sequence);
            return false;
        }
        if sequence.is_new() {
            sequence.start(planning.now, planning.stats);
        }
        sequence.count_cached(found, planning.stats);
        planning.moves.admitted += 1;
        self.running.push(sequence);
        true
    }

    /// Whether a sequence's whole context fits beside the others and one block of growth for each of them, if `slots`
    /// running sequences gave up `blocks` blocks.
    fn fits(&self, sequence: &Sequence, slots: usize, blocks: usize, kv: &Kv) -> bool {
        let left = self.running.len() - slots;
        if left >= self.max_running {
            return false;
        }
        let cached = kv.cached(sequence.key_space(), sequence.shareable());
        let fresh = kv.blocks_for(sequence.tokens.len()) - cached.blocks;
        let growing = self
            .running
            .iter()
            .filter(|other| kv.blocks_for(other.most_tokens()) > other.table.blocks().len());
        let growth = growing.count().min(left);
        fresh + cached.idle + growth <= kv.available() + blocks
    }

    /// Preempts sequences of a lower class than the waiting one at `index`, if that makes it fit.
    fn make_room(&mut self, index: usize, planning: &mut Planning<'_>) -> bool {
        let (now, aging) = (planning.now, self.aging);
        let wanted = class(&self.waiting[index], now, aging);
        let mut victims: Vec<usize> = (0..self.running.len())
            .filter(|victim| worth(&self.running[*victim], now, aging) < wanted)
            .collect();
        victims
            .sort_unstable_by_key(|victim| cost_of_preempting(&self.running[*victim], now, aging));
        let mut freed = 0;
        let enough = victims.iter().enumerate().position(|(before, victim)| {
            freed += planning.kv.private(&self.running[*victim].table);
            self.fits(&self.waiting[index], before + 1, freed, planning.kv)
        });
        let Some(last) = enough else {
            return false;
        };
        victims.truncate(last + 1);
        victims.sort_unstable();
        // From the back, so that the indices before stay valid; the queue grows at its end, so `index` does too.
        for victim in victims.into_iter().rev() {
            self.preempt(victim, planning);
        }
        self.fits(&self.waiting[index], 0, 0, planning.kv)
    }

    /// Takes a running sequence's blocks; it waits again at its old place and is computed anew.
    fn preempt(&mut self, index: usize, planning: &mut Planning<'_>) {
        let mut sequence = self.running.remove(index);
        let table = std::mem::take(&mut sequence.table);
        tracing::debug!(
            serial = sequence.serial,
            tokens_lost = table.stored(),
            running = self.running.len(),
            waiting = self.waiting.len(),
            "preempted"
        );
        planning.kv.release(table);
        sequence.rows = 0;
        sequence.preemptions += 1;
        planning.moves.preempted += 1;
        self.waiting.push(sequence);
    }

    /// Marks the pin's computation as ended with `reason`; `false` when it is not here.
    pub(super) fn end_pin(&mut self, pin: crate::engine::PinId, reason: &str) -> bool {
        let is_pin = |sequence: &&mut Sequence| matches!(sequence.purpose, Purpose::Pin { id, .. } if id == pin);
        let Some(sequence) = self.all_mut().find(is_pin) else {
            return false;
        };
        let ended = End::Finished(FinishReason::Error(reason.to_owned()));
        sequence.end.get_or_insert(ended);
        true
    }
}
