//! Who gets blocks and who loses them.

use super::{Planning, Scheduler};
use crate::engine::paged::batch::BlockId;
use crate::engine::paged::kv::{BlockTable, Kv};
use crate::engine::paged::sequence::{End, Sequence};

impl Scheduler {
    /// Moves a waiting sequence to the running ones with blocks for its whole context; `false` when it must wait.
    pub(super) fn admit(&mut self, serial: u64, planning: &mut Planning<'_>) -> bool {
        let fits = self
            .waiting
            .get(serial)
            .is_some_and(|sequence| self.fits(need(sequence, planning.kv), 0, 0, planning.kv));
        if !fits && !self.make_room(serial, planning) {
            return false;
        }
        let Some(mut sequence) = self.waiting.take(serial) else {
            return false;
        };
        if sequence.is_abandoned() {
            sequence.end = Some(End::Dropped);
            self.late.push(sequence);
            return true;
        }
        let mut table = BlockTable::new(sequence.key_space().root());
        let found = planning.kv.adopt(&mut table, sequence.shareable());
        let reserved = planning.kv.reserve(&mut table, sequence.tokens.len());
        debug_assert!(reserved, "fits() counted the blocks");
        if !reserved {
            planning.kv.release(table);
            self.waiting.insert(sequence, planning.now);
            return false;
        }
        sequence.table = table;
        if sequence.is_new() {
            sequence.start(planning.now, planning.stats);
        }
        if sequence.warms() {
            self.warmed_at = Some(planning.now);
        }
        sequence.count_cached(found, planning.stats);
        planning.moves.admitted += 1;
        self.running.push(sequence);
        true
    }

    /// Whether `need` blocks are there beside one block of growth for each of the others, if `slots` running
    /// sequences gave up `blocks` blocks.
    fn fits(&self, need: usize, slots: usize, blocks: usize, kv: &Kv) -> bool {
        let left = self.running.len() - slots;
        if left >= self.max_running {
            return false;
        }
        let growing = self
            .running
            .iter()
            .filter(|other| kv.blocks_for(other.most_tokens()) > other.table.blocks().len());
        let growth = growing.count().min(left);
        need + growth <= kv.available() + blocks
    }

    /// Preempts sequences of a lower class than the waiting one, if that makes it fit. Warming takes nobody's blocks.
    fn make_room(&mut self, serial: u64, planning: &mut Planning<'_>) -> bool {
        let (now, policy) = (planning.now, self.policy);
        let Some(sequence) = self
            .waiting
            .get(serial)
            .filter(|sequence| !sequence.warms())
        else {
            return false;
        };
        let wanted = policy.class(sequence, now);
        let mut victims: Vec<usize> = (0..self.running.len())
            .filter(|victim| policy.worth(&self.running[*victim], now) < wanted)
            .collect();
        if victims.is_empty() {
            return false;
        }
        victims
            .sort_unstable_by_key(|victim| policy.cost_of_preempting(&self.running[*victim], now));
        let need = need(sequence, planning.kv);
        // What the sequence would find in the cache is no gain when its present user gives it up.
        let found: Vec<BlockId> = planning
            .kv
            .found(sequence.key_space(), sequence.shareable());
        let mut freed = 0;
        let enough = victims.iter().enumerate().position(|(before, victim)| {
            freed += planning.kv.private(&self.running[*victim].table, &found);
            self.fits(need, before + 1, freed, planning.kv)
        });
        let Some(last) = enough else {
            return false;
        };
        victims.truncate(last + 1);
        victims.sort_unstable();
        // From the back, so that the indices before stay valid.
        for victim in victims.into_iter().rev() {
            self.preempt(victim, planning);
        }
        true
    }

    /// Takes a running sequence's blocks; it waits again at its old place and is computed anew.
    pub(super) fn preempt(&mut self, index: usize, planning: &mut Planning<'_>) {
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
        self.waiting.insert(sequence, planning.now);
    }
}

/// Blocks that a sequence's whole context takes from what is available.
fn need(sequence: &Sequence, kv: &Kv) -> usize {
    let cached = kv.cached(sequence.key_space(), sequence.shareable());
    kv.blocks_for(sequence.tokens.len()) - cached.blocks + cached.idle
}
