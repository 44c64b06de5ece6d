//! A harness as operators see it, and the step that failed.

use std::collections::VecDeque;
use std::sync::Arc;

use super::live::Snapshot;
use crate::harness::store::{Store, StoreError};
use crate::harness::{Loaded, Problem, Version};

/// What reading a folder led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// It holds what is live.
    Unchanged,
    /// It is live now.
    Activated(Version),
    /// It waits to be promoted.
    Staged(Version),
    /// It cannot be used; the status says why.
    Rejected,
}

/// Which step failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The files cannot be read or are wrong.
    Load,
    /// It could not be made ready.
    Activate,
    /// It could not be kept.
    Store,
}

/// What went wrong last; absent once a later try has worked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    /// Which step.
    pub stage: Stage,
    /// Of what was tried, where it could be read.
    pub version: Option<Version>,
    /// Everything that is wrong.
    pub problems: Vec<Problem>,
}

/// A harness as operators see it.
#[derive(Clone, Debug)]
pub struct Status {
    /// What answers.
    pub active: Snapshot,
    /// Departures from the rules that the live one was loaded with.
    pub warnings: Vec<Problem>,
    /// What waits to be promoted.
    pub staged: Option<Version>,
    /// What went wrong last.
    pub last_error: Option<LastError>,
}

pub(super) struct State {
    pub(super) active: Snapshot,
    pub(super) warnings: Vec<Problem>,
    pub(super) staged: Option<Arc<Loaded>>,
    pub(super) last_error: Option<LastError>,
    /// Loaded versions beside the live one, the last used first.
    pub(super) others: VecDeque<Snapshot>,
}

impl State {
    pub(super) fn new(active: Snapshot, warnings: Vec<Problem>) -> Self {
        Self {
            active,
            warnings,
            staged: None,
            last_error: None,
            others: VecDeque::new(),
        }
    }
}

/// A step that failed.
pub(super) struct Failed {
    pub(super) stage: Stage,
    pub(super) problems: Vec<Problem>,
}

impl Failed {
    pub(super) fn load(problems: Vec<Problem>) -> Self {
        Self {
            stage: Stage::Load,
            problems,
        }
    }

    pub(super) fn activate(name: &str, reason: &str) -> Self {
        Self {
            stage: Stage::Activate,
            problems: vec![Problem::of(
                name,
                format!("could not be activated: {reason}"),
            )],
        }
    }

    pub(super) fn store(store: &Store, error: &StoreError) -> Self {
        Self {
            stage: Stage::Store,
            problems: vec![Problem::of(
                store.dir().display().to_string(),
                error.to_string(),
            )],
        }
    }
}
