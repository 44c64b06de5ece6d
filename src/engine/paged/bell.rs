//! Wakes a thread that sleeps for want of work.

use super::threads::{AtomicBool, Ordering, Thread, park};

/// Whether something came in since the sleeper last looked. A flag of its own, because the thread's park token is also
/// what the runner's compute threads wake it with.
#[derive(Debug)]
pub(super) struct Bell {
    rung: AtomicBool,
}

impl Bell {
    pub(super) fn new() -> Self {
        Self {
            rung: AtomicBool::new(false),
        }
    }

    /// Wakes `sleeper`, or keeps it from going to sleep; call it after what it shall see is visible.
    pub(super) fn ring(&self, sleeper: &Thread) {
        self.rung.store(true, Ordering::Release);
        sleeper.unpark();
    }

    /// Sleeps until the bell rings; returns at once when it has rung since the last time.
    pub(super) fn sleep(&self) {
        while !self.rung.swap(false, Ordering::AcqRel) {
            park();
        }
    }
}
