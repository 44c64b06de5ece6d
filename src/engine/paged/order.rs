//! Who goes first and who gives way: pure functions of a sequence and the time.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use super::sequence::Sequence;
use crate::engine::Priority;

/// A request without a deadline is ordered as if it had this one, so that later deadlines do not starve it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A sequence preempted this often is spared from then on.
const MOST_PREEMPTIONS: u32 = 3;

/// Worth of what lost its blocks often enough: above every class.
const SPARED: u32 = 3;

/// Priority, raised by waiting; higher goes first.
pub(super) fn class(sequence: &Sequence, now: Instant, aging: Duration) -> u32 {
    let priority = match sequence.priority {
        Priority::Low => 0,
        Priority::Normal => 1,
        Priority::High => 2,
    };
    let waited = now.saturating_duration_since(sequence.arrived);
    let risen = waited.as_nanos() / aging.as_nanos();
    u32::try_from(risen).map_or(2, |risen| (priority + risen.min(2)).min(2))
}

/// Order of service, the smallest first: class, then deadline, then arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    class: Reverse<u32>,
    due: Instant,
    serial: u64,
}

impl Rank {
    pub(super) fn new(sequence: &Sequence, now: Instant, aging: Duration) -> Self {
        let patience = sequence.arrived + PATIENCE;
        Self {
            class: Reverse(class(sequence, now, aging)),
            due: sequence
                .deadline
                .map_or(patience, |deadline| deadline.min(patience)),
            serial: sequence.serial,
        }
    }
}

/// The class that a sequence counts as when blocks are taken from the least worthy.
pub(super) fn worth(sequence: &Sequence, now: Instant, aging: Duration) -> u32 {
    if sequence.preemptions >= MOST_PREEMPTIONS {
        return SPARED;
    }
    class(sequence, now, aging)
}

/// Order of giving way, the smallest first: least worthy, then least computed, then the latest arrival.
pub(super) fn cost_of_preempting(
    sequence: &Sequence,
    now: Instant,
    aging: Duration,
) -> (u32, usize, Reverse<u64>) {
    let worth = worth(sequence, now, aging);
    (worth, sequence.table.stored(), Reverse(sequence.serial))
}
