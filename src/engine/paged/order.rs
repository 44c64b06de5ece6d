//! Who goes first and who gives way: pure functions of a sequence and the time.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use super::sequence::Sequence;
use crate::engine::Priority;

/// Classes of service, from warming to high priority.
pub(super) const CLASSES: usize = 4;

/// Class of a prefix that is computed for later use only.
const WARMING: usize = 0;

/// The class that waiting raises to.
const TOP: usize = CLASSES - 1;

/// A sequence preempted this often is spared from then on.
const MOST_PREEMPTIONS: u32 = 3;

/// Worth of what lost its blocks often enough: above every class.
const SPARED: usize = CLASSES;

/// How waiting counts.
///
/// Nobody starves: within `(CLASSES - 1) * aging` a sequence is in the top class, where it is overtaken only by what is
/// due earlier, and what arrives more than `patience` after it never is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// A waiting sequence rises by one class each time this passes.
    pub(super) aging: Duration,
    /// A sequence is ordered by its deadline or by the end of this, whichever is earlier.
    pub(super) patience: Duration,
}

/// Order of service, the smallest first: class, then deadline, then arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) class: Reverse<usize>,
    pub(super) due: Instant,
    pub(super) serial: u64,
}

impl Policy {
    /// Priority, raised by waiting; higher goes first.
    pub(super) fn class(self, sequence: &Sequence, now: Instant) -> usize {
        let risen = self.rises(sequence, now);
        base(sequence).saturating_add(risen as usize).min(TOP)
    }

    /// When a sequence's class changes next; `None` when it is as high as it gets.
    pub(super) fn rises_at(self, sequence: &Sequence, now: Instant) -> Option<Instant> {
        if self.class(sequence, now) == TOP {
            return None;
        }
        Some(sequence.arrived + self.aging * (self.rises(sequence, now) + 1))
    }

    /// What orders a sequence within its class.
    pub(super) fn due(self, sequence: &Sequence) -> Instant {
        let patience = sequence.arrived + self.patience;
        sequence
            .deadline
            .map_or(patience, |deadline| deadline.min(patience))
    }

    /// Order in which the prompts of running sequences are computed. Waiting gets a warmed prefix its blocks, not its
    /// turn: its chunks stay behind everybody else's.
    pub(super) fn rank(self, sequence: &Sequence, now: Instant) -> Rank {
        let class = match sequence.warms() {
            true => WARMING,
            false => self.class(sequence, now),
        };
        Rank {
            class: Reverse(class),
            due: self.due(sequence),
            serial: sequence.serial,
        }
    }

    /// The class that a sequence counts as when blocks are taken from the least worthy.
    pub(super) fn worth(self, sequence: &Sequence, now: Instant) -> usize {
        match (sequence.preemptions >= MOST_PREEMPTIONS, sequence.warms()) {
            (true, _) => SPARED,
            (_, true) => WARMING,
            _ => self.class(sequence, now),
        }
    }

    /// Order of giving way, the smallest first: least worthy, then least computed, then the latest arrival.
    pub(super) fn cost_of_preempting(
        self,
        sequence: &Sequence,
        now: Instant,
    ) -> (usize, usize, Reverse<u64>) {
        let worth = self.worth(sequence, now);
        (worth, sequence.table.stored(), Reverse(sequence.serial))
    }

    /// How often a sequence has risen, as far as it matters.
    fn rises(self, sequence: &Sequence, now: Instant) -> u32 {
        let waited = now.saturating_duration_since(sequence.arrived);
        let risen = waited.as_nanos() / self.aging.as_nanos();
        u32::try_from(risen).map_or(TOP as u32, |risen| risen.min(TOP as u32))
    }
}

fn base(sequence: &Sequence) -> usize {
    match (sequence.warms(), sequence.priority) {
        (true, _) => WARMING,
        (_, Priority::Low) => 1,
        (_, Priority::Normal) => 2,
        (_, Priority::High) => TOP,
    }
}
