//! Decides what a step computes and whose blocks are given up for it. Pure policy: no clock, no device, no channel.

mod admission;

use std::time::{Duration, Instant};

use super::config::Config;
use super::kv::Kv;
use super::order::{Policy, Rank};
use super::pace::Pace;
use super::queue::Queue;
use super::sequence::{End, Purpose, Sequence};
use crate::engine::{FinishReason, PinId};
use crate::telemetry::EngineStats;

/// The sequences of an engine: those that wait and those that hold blocks.
#[derive(Debug)]
pub(super) struct Scheduler {
    waiting: Queue,
    running: Vec<Sequence>,
    /// Sequences that ended while they waited, on their way out.
    late: Vec<Sequence>,
    policy: Policy,
    pace: Pace,
    step_tokens: usize,
    max_running: usize,
    next_serial: u64,
    /// When a warmed prefix last got a chunk or its blocks.
    warmed_at: Option<Instant>,
    /// Steps with streams since one of them computed a part of a warmed prefix.
    unwarmed: usize,
    /// Streams that this step continues.
    decodes: usize,
    /// Most rows of a step that continues streams, of those known and those guessed, as long as there are guesses.
    speculate_rows: usize,
    /// Tokens that this step guesses.
    guesses: usize,
}

/// Of so many steps that continue streams one may compute a part of a warmed prefix: few enough that the streams' P95
/// gap between tokens stays what it is without.
const WARM_EVERY: usize = 32;

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

/// Prompt tokens that a step still has room for.
#[derive(Clone, Copy, Debug)]
struct Room {
    all: usize,
    /// Those of them that may go to warmed prefixes: one chunk, so that what comes next never waits for more.
    warm: usize,
    /// Whether warmed prefixes wait, so that streams run on.
    paused: bool,
}

impl Scheduler {
    pub(super) fn new(config: &Config) -> Self {
        let policy = config.policy();
        Self {
            waiting: Queue::new(policy),
            running: Vec::new(),
            late: Vec::new(),
            policy,
            pace: Pace::new(config),
            step_tokens: config.step_tokens,
            max_running: config.max_running,
            next_serial: 0,
            warmed_at: None,
            unwarmed: 0,
            decodes: 0,
            speculate_rows: config.speculate_rows,
            guesses: 0,
        }
    }

    /// Queues a new sequence.
    pub(super) fn add(&mut self, mut sequence: Sequence, now: Instant) {
        sequence.serial = self.next_serial;
        self.next_serial += 1;
        self.waiting.insert(sequence, now);
    }

    pub(super) fn running(&self) -> &[Sequence] {
        &self.running
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    #[cfg(test)]
    pub(super) fn waiting(&mut self) -> &mut Queue {
        &mut self.waiting
    }

    /// Panics unless the queue's orders agree with what waits, and nothing ended is left among the waiting.
    #[cfg(test)]
    pub(super) fn check(&self) {
        self.waiting.check();
        assert!(self.late.is_empty(), "an ended sequence is left over");
        assert!(self.running.iter().all(|s| s.end.is_none()));
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

    /// Ends what nobody waits for any more, before anything is spent on it.
    pub(super) fn expire(&mut self, now: Instant) {
        for sequence in &mut self.running {
            sequence.expire(now);
        }
        self.waiting.take_late(now, &mut self.late);
    }

    /// Ends all sequences that did not end by themselves.
    pub(super) fn end_all(&mut self, end: &End) {
        self.waiting.take_all(&mut self.late);
        for sequence in self.late.iter_mut().chain(&mut self.running) {
            sequence.end.get_or_insert_with(|| end.clone());
        }
    }

    /// Moves ended sequences into `ended`; returns how many of them waited.
    pub(super) fn take_ended(&mut self, ended: &mut Vec<Sequence>) -> usize {
        let waited = self.late.len();
        ended.append(&mut self.late);
        ended.extend(
            self.running
                .extract_if(.., |sequence| sequence.end.is_some()),
        );
        waited
    }

    /// Sets each running sequence's `rows`: every decode, then prompts in chunks, best rank first, while the step has
    /// room. Admits from the queue strictly in order: what does not fit is not overtaken, so it gets its turn.
    pub(super) fn plan(&mut self, planning: &mut Planning<'_>) {
        self.running.iter_mut().for_each(Sequence::rest);
        self.waiting.advance(planning.now);
        self.grow_decodes(planning);
        self.plan_decodes(planning.kv.block_tokens());
        let beside = self.pace.prompt_tokens(self.decodes);
        let all = match self.decodes {
            0 => self.step_tokens,
            _ => beside,
        };
        let warm = beside.min(all);
        let paused = self.decodes > 0 && self.unwarmed + 1 < WARM_EVERY;
        self.unwarmed = match self.decodes {
            0 => 0,
            _ => self.unwarmed + 1,
        };
        self.fill(Room { all, warm, paused }, planning);
    }

    /// Continues every stream, with guesses as far as the rows of a step and the blocks that it holds anyway allow.
    fn plan_decodes(&mut self, block_tokens: usize) {
        let decodes = |sequence: &&Sequence| sequence.decodes();
        let streams = self.running.iter().filter(decodes).count();
        let mut left = self.speculate_rows.saturating_sub(streams);
        for sequence in self.running.iter_mut().filter(|s| s.decodes()) {
            let room = sequence.table.blocks().len() * block_tokens - sequence.tokens.len();
            sequence.decode(room.min(left), streams);
            left -= sequence.guess().len();
        }
        self.decodes = streams;
        self.guesses = self.speculate_rows.saturating_sub(streams) - left;
    }

    /// Learns what the step as planned took, which computed `tokens` tokens in all.
    pub(super) fn learn(&mut self, tokens: usize, took: Duration) {
        let prompt = tokens.saturating_sub(self.decodes + self.guesses);
        self.pace.learn(self.decodes, prompt, took);
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
            let policy = self.policy;
            let Some(first) = needy.min_by_key(|sequence| policy.rank(sequence, now)) else {
                return;
            };
            if planning.kv.reserve(&mut first.table, first.tokens.len()) {
                continue;
            }
            // The needy one itself may be the victim, so there always is one.
            let victims = (0..self.running.len())
                .min_by_key(|index| policy.cost_of_preempting(&self.running[*index], now));
            if let Some(victim) = victims {
                self.preempt(victim, planning);
            }
        }
    }

    /// Spends the room on prompts, of running sequences and of those that can be admitted.
    fn fill(&mut self, mut room: Room, planning: &mut Planning<'_>) {
        if let Some(index) = self.starved_warming(planning.now) {
            self.assign(index, &mut room, planning);
        }
        let mut blocked = false;
        while room.all > 0 {
            let prefill = self.best_prefill(room, planning.now);
            let queued = self.waiting.first().filter(|_| !blocked);
            match (queued, prefill) {
                (Some(queued), prefill) if prefill.is_none_or(|(prefill, _)| queued < prefill) => {
                    blocked = !self.admit(queued.serial, planning);
                }
                (_, Some((_, index))) => self.assign(index, &mut room, planning),
                _ => return,
            }
        }
    }

    fn best_prefill(&self, room: Room, now: Instant) -> Option<(Rank, usize)> {
        let may_warm = room.warm > 0 && !room.paused;
        let indexed = self.running.iter().enumerate();
        let prefills = indexed
            .filter(|(_, sequence)| wants_chunk(sequence) && (may_warm || !sequence.warms()));
        prefills
            .map(|(index, sequence)| (self.policy.rank(sequence, now), index))
            .min()
    }

    /// The warmed prefix that is next, if others left no room for any since `aging`.
    fn starved_warming(&self, now: Instant) -> Option<usize> {
        let warmed_at = self.warmed_at?;
        if now.saturating_duration_since(warmed_at) < self.policy.aging {
            return None;
        }
        let indexed = self.running.iter().enumerate();
        let warming = indexed.filter(|(_, sequence)| sequence.warms() && wants_chunk(sequence));
        let ranked = warming.map(|(index, sequence)| (self.policy.rank(sequence, now), index));
        ranked.min().map(|(_, index)| index)
    }

    /// Gives a prefilling sequence as many rows as there is room for, after whatever the cache holds by now.
    fn assign(&mut self, index: usize, room: &mut Room, planning: &mut Planning<'_>) {
        let sequence = &mut self.running[index];
        let mut table = std::mem::take(&mut sequence.table);
        let found = planning.kv.adopt(&mut table, sequence.shareable());
        sequence.table = table;
        sequence.count_cached(found, planning.stats);
        let pending = sequence.pending();
        if pending == 0 {
            // Only a warmed prefix needs no logits: all of it was there.
            sequence.end = Some(End::Finished(FinishReason::Stop));
        }
        sequence.rows = pending.min(room.all).min(sequence.most_rows());
        if sequence.warms() {
            sequence.rows = sequence.rows.min(room.warm);
            room.warm -= sequence.rows;
            self.warmed_at = Some(planning.now);
            self.unwarmed = 0;
        }
        room.all -= sequence.rows;
    }

    /// Ends the pin's computation with `reason`; `false` when it is not here.
    pub(super) fn end_pin(&mut self, pin: PinId, reason: &str) -> bool {
        let is_pin =
            |sequence: &Sequence| matches!(sequence.purpose, Purpose::Pin { id, .. } if id == pin);
        let end = End::Finished(FinishReason::Error(reason.to_owned()));
        if let Some(running) = self.running.iter_mut().find(|sequence| is_pin(sequence)) {
            running.end.get_or_insert(end);
            return true;
        }
        let waiting = self.waiting.iter().find(|sequence| is_pin(sequence));
        let Some(serial) = waiting.map(|sequence| sequence.serial) else {
            return false;
        };
        let taken = self.waiting.take(serial);
        self.late.extend(taken.map(|mut sequence| {
            sequence.end.get_or_insert(end);
            sequence
        }));
        true
    }
}

/// Whether a running sequence is in its prompt and got nothing in this step yet.
fn wants_chunk(sequence: &Sequence) -> bool {
    sequence.rows == 0 && sequence.end.is_none() && !sequence.decodes()
}
