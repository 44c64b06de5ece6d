//! Observing and disturbing the fake model from a test: a gate before each forward pass, faults, a record of batches.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::engine::paged::batch::Batch;
use crate::engine::paged::runner::RunnerError;

/// A handle to a fake runner; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct FakeControl {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Passes that may still start; `None` is any number.
    permits: Option<u64>,
    /// Passes that reached the gate.
    entered: u64,
    faults: VecDeque<Fault>,
    recorded: Option<Vec<Batch>>,
}

#[derive(Debug)]
pub(super) enum Fault {
    None,
    Fail(String),
    Panic(String),
    Poison,
}

impl Fault {
    pub(super) fn poisons(&self) -> bool {
        matches!(self, Self::Poison)
    }
}

impl FakeControl {
    /// Closes the gate: the next pass waits. Open it before the engine is dropped, which waits for its thread.
    pub fn close(&self) {
        self.lock().permits = Some(0);
    }

    /// Lets `passes` more passes through a closed gate.
    pub fn allow(&self, passes: u64) {
        let mut state = self.lock();
        state.permits = Some(state.permits.unwrap_or(0) + passes);
        self.inner.changed.notify_all();
    }

    /// Opens the gate for good.
    pub fn open(&self) {
        self.lock().permits = None;
        self.inner.changed.notify_all();
    }

    /// Blocks until `passes` passes in all have reached the gate, the one that waits there included.
    pub fn wait_entered(&self, passes: u64) {
        let mut state = self.lock();
        while state.entered < passes {
            state = self
                .inner
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Passes that reached the gate so far.
    #[must_use]
    pub fn entered(&self) -> u64 {
        self.lock().entered
    }

    /// Makes the next pass without a fault of its own fail.
    pub fn fail_next(&self, message: &str) {
        self.lock()
            .faults
            .push_back(Fault::Fail(message.to_owned()));
    }

    /// Makes it panic.
    pub fn panic_next(&self, message: &str) {
        self.lock()
            .faults
            .push_back(Fault::Panic(message.to_owned()));
    }

    /// Makes all its logits NaN.
    pub fn poison_next(&self) {
        self.lock().faults.push_back(Fault::Poison);
    }

    /// Keeps a copy of every batch from now on.
    pub fn record(&self) {
        self.lock().recorded = Some(Vec::new());
    }

    /// The batches recorded since the last call.
    #[must_use]
    pub fn take_recorded(&self) -> Vec<Batch> {
        self.lock()
            .recorded
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Called by the runner when a pass starts.
    pub(super) fn enter(&self, batch: &Batch) -> Result<Fault, RunnerError> {
        let mut state = self.lock();
        state.entered += 1;
        self.inner.changed.notify_all();
        while state.permits == Some(0) {
            state = self
                .inner
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.permits = state.permits.map(|permits| permits - 1);
        if let Some(recorded) = &mut state.recorded {
            recorded.push(batch.clone());
        }
        let fault = state.faults.pop_front().unwrap_or(Fault::None);
        drop(state);
        match fault {
            Fault::Fail(message) => Err(RunnerError(message)),
            Fault::Panic(message) => panic!("{message}"),
            fault => Ok(fault),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
