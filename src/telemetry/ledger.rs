//! Conservation by construction: what was accepted is in flight or ended under one outcome, in every scrape.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;

use super::export::{counter, descs, family, gauge};

/// How something accepted ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is whole.
    Stop,
    /// The answer reached its length limit.
    Length,
    /// The deadline cut the answer.
    Deadline,
    /// A rule replaced the answer.
    Blocked,
    /// A newer turn took its place.
    Superseded,
    /// Cancelled, or nobody listens any more.
    Cancelled,
    /// An error, a panic, or a task that was dropped.
    Failed,
}

impl Outcome {
    /// Every outcome, in the order of the contract.
    pub const ALL: [Self; 7] = [
        Self::Stop,
        Self::Length,
        Self::Deadline,
        Self::Blocked,
        Self::Superseded,
        Self::Cancelled,
        Self::Failed,
    ];

    /// The label value.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Deadline => "deadline",
            Self::Blocked => "blocked",
            Self::Superseded => "superseded",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }

    /// Whether the answer was spoken to an end that somebody chose: what latency is measured over.
    #[must_use]
    pub fn is_answer(self) -> bool {
        matches!(
            self,
            Self::Stop | Self::Length | Self::Deadline | Self::Blocked
        )
    }
}

#[derive(Debug, Default)]
struct Counts {
    accepted: u64,
    ended: [u64; Outcome::ALL.len()],
}

/// Names of the three metrics of a ledger.
#[derive(Clone, Copy, Debug)]
pub(super) struct LedgerNames {
    pub(super) accepted: &'static str,
    pub(super) in_flight: &'static str,
    pub(super) ended: &'static str,
}

/// Counts one kind of work. One lock round all counts: a scrape never sees half a change.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    counts: Arc<Mutex<Counts>>,
    names: LedgerNames,
    descs: Vec<Desc>,
}

impl Ledger {
    pub(super) fn new(names: LedgerNames) -> Self {
        Self {
            counts: Arc::default(),
            names,
            descs: descs(&[names.accepted, names.in_flight, names.ended]),
        }
    }

    /// Counts one as accepted and in flight until it ends.
    pub(super) fn accept(&self) -> InFlight {
        self.change(|counts| counts.accepted += 1);
        InFlight {
            ledger: self.clone(),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// One accepted piece of work, to be ended once; the meters see to that when they are dropped.
#[derive(Debug)]
#[must_use]
pub(super) struct InFlight {
    ledger: Ledger,
}

impl InFlight {
    /// Counts the outcome.
    pub(super) fn end(self, outcome: Outcome) {
        self.ledger
            .change(|counts| counts.ended[outcome as usize] += 1);
    }
}

impl Collector for Ledger {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let (accepted, ended) = {
            let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            (counts.accepted, counts.ended)
        };
        let in_flight = accepted - ended.iter().sum::<u64>();
        let outcomes = Outcome::ALL
            .iter()
            .map(|outcome| counter(&[("outcome", outcome.word())], ended[*outcome as usize]))
            .collect();
        vec![
            family(self.names.accepted, vec![counter(&[], accepted)]),
            family(self.names.in_flight, vec![gauge(&[], in_flight as f64)]),
            family(self.names.ended, outcomes),
        ]
    }
}
