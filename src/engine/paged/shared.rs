//! What callers and the engine thread both see: atomics only, so that neither ever waits for the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::pins::Pins;
use crate::engine::Heartbeat;
use crate::telemetry::EngineStats;

/// Where time comes from; a test sets its own.
pub(super) type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// State on both sides of the command channel.
pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) stats: Arc<EngineStats>,
    pub(super) pins: Pins,
    epoch: Instant,
    alive: AtomicBool,
    stopping: AtomicBool,
    /// Whether something came in since the engine last looked. A flag of its own, because the thread's park token is
    /// also what the runner's compute threads wake it with.
    bell: AtomicBool,
    /// Requests that did not end yet.
    open: AtomicUsize,
    /// Those of them that wait.
    queued: AtomicUsize,
    queue_limit: usize,
    /// Microseconds from `epoch` to the end of the last step, or to when work came to an idle engine.
    beat: AtomicU64,
}

impl Shared {
    pub(super) fn new(
        clock: Clock,
        stats: Arc<EngineStats>,
        queue_limit: usize,
        pin_blocks: usize,
    ) -> Self {
        Self {
            epoch: clock(),
            clock,
            stats,
            pins: Pins::new(pin_blocks),
            alive: AtomicBool::new(true),
            stopping: AtomicBool::new(false),
            bell: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            queued: AtomicUsize::new(0),
            queue_limit,
            beat: AtomicU64::new(0),
        }
    }

    pub(super) fn queue_limit(&self) -> usize {
        self.queue_limit
    }

    /// Takes a place in the queue; `false` when it is full.
    pub(super) fn enter(&self) -> bool {
        let take = |queued: usize| (queued < self.queue_limit).then_some(queued + 1);
        if self
            .queued
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
            .is_err()
        {
            return false;
        }
        self.stats.requests_waiting.fetch_add(1, Ordering::Relaxed);
        if self.open.fetch_add(1, Ordering::AcqRel) == 0 {
            self.beat();
        }
        true
    }

    /// A waiting request left the queue.
    pub(super) fn leave_queue(&self) {
        self.queued.fetch_sub(1, Ordering::AcqRel);
        self.stats.requests_waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// A preempted request waits again; it does not need a free place.
    pub(super) fn return_to_queue(&self) {
        self.queued.fetch_add(1, Ordering::AcqRel);
        self.stats.requests_waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// One of the alternatives of a request that has its place joins the queue beside it.
    pub(super) fn join_queue(&self) {
        self.open.fetch_add(1, Ordering::AcqRel);
        self.return_to_queue();
    }

    /// A request ended.
    pub(super) fn close(&self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    /// Wakes the engine's thread, or keeps it from going to sleep; call it after what it shall see is visible.
    pub(super) fn ring(&self, thread: &Thread) {
        self.bell.store(true, Ordering::Release);
        thread.unpark();
    }

    /// Sleeps until the bell rings; returns at once when it has rung since the last time.
    pub(super) fn sleep(&self) {
        while !self.bell.swap(false, Ordering::AcqRel) {
            thread::park();
        }
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub(super) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(super) fn die(&self) {
        self.alive.store(false, Ordering::Release);
    }

    /// Whether requests may still be taken.
    pub(super) fn accepts(&self) -> bool {
        self.alive.load(Ordering::Acquire) && !self.stopping()
    }

    /// Notes that a step ended now.
    pub(super) fn beat(&self) {
        self.beat.store(self.micros_now(), Ordering::Release);
    }

    pub(super) fn heartbeat(&self) -> Heartbeat {
        let since = self
            .micros_now()
            .saturating_sub(self.beat.load(Ordering::Acquire));
        Heartbeat {
            alive: self.alive.load(Ordering::Acquire),
            busy: self.open.load(Ordering::Acquire) > 0,
            since_step: Duration::from_micros(since),
        }
    }

    fn micros_now(&self) -> u64 {
        let since = (self.clock)().saturating_duration_since(self.epoch);
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }
}
