//! Worker threads for one caller: regions of independent tasks, claimed one by one, joined at the end of each region.
//! Workers spin for some tens of microseconds after a region, since the next one usually follows at once, then park.
//! A region waits only for workers that have entered it: one that is asleep, or that the system runs something else
//! instead of, holds nobody up.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::threads::{
    Arc, AtomicBool, AtomicU64, AtomicUsize, Builder, JoinHandle, Ordering, SPINS, Slot, Thread,
    current, park, spin_loop,
};

/// In the gate: nobody may enter any more.
const CLOSED: u64 = 1 << 15;
/// Of the gate: how many have entered.
const ENTERED: u64 = CLOSED - 1;
/// From one region to the next.
const REGION: u64 = 1 << 16;

/// A region's body: `(task, thread)`, where `thread` is below [`Pool::threads`] and no two tasks run at once on one.
type Body<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// Compute threads, the caller included. Dropping the pool joins them.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    /// Number of the region, above whether it is [`CLOSED`], above the workers that have entered it.
    gate: AtomicU64,
    /// The current region. Written only while it is closed and everybody who entered has left.
    job: Slot<Option<Job>>,
    /// Next task to claim.
    next: AtomicUsize,
    /// Workers that have left the current region.
    left: AtomicUsize,
    /// Who waits for `left`, and whether it has gone to sleep.
    caller: Slot<Option<Thread>>,
    caller_parked: AtomicBool,
    /// Whether each worker has gone to sleep.
    parked: Vec<AtomicBool>,
    panicked: AtomicBool,
    stop: AtomicBool,
}

#[derive(Clone, Copy)]
struct Job {
    body: *const Body<'static>,
    tasks: usize,
}

// SAFETY: `job` and `caller` are written by the caller only while the gate is closed and every worker that entered has
// left (`left` says so, acquired), and before the gate is opened (released); workers read them only between entering
// (acquired) and adding to `left`. The body is `Sync`, so several threads may call it.
unsafe impl Sync for Shared {}
// SAFETY: as above; nothing in it is tied to the thread that made it.
unsafe impl Send for Shared {}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}

impl Pool {
    /// Starts `threads - 1` workers; the caller of [`Pool::run`] is the remaining thread.
    ///
    /// # Errors
    /// The system's, when it cannot start a thread.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        let workers = threads.max(1) - 1;
        let shared = Arc::new(Shared {
            gate: AtomicU64::new(CLOSED),
            job: Slot::new(None),
            next: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
            caller: Slot::new(None),
            caller_parked: AtomicBool::new(false),
            parked: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let mut pool = Self {
            shared,
            workers: Vec::with_capacity(workers),
        };
        for worker in 0..workers {
            let shared = Arc::clone(&pool.shared);
            // On failure the pool is dropped, which joins those already started.
            let handle = Builder::new()
                .name(format!("compute-{}", worker + 1))
                .spawn(move || work(&shared, worker))?;
            pool.workers.push(handle);
        }
        Ok(pool)
    }

    /// Number of threads, the caller included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `body(task, thread)` for every task below `tasks` and returns when all have ended.
    ///
    /// # Panics
    /// When a task panicked, after all threads have left the region; the pool stays usable.
    pub fn run(&mut self, tasks: usize, body: &Body<'_>) {
        if self.workers.is_empty() || tasks <= 1 {
            for task in 0..tasks {
                body(task, 0);
            }
            return;
        }
        self.begin(tasks, body);
        let region = Region(&self.shared);
        claim(&self.shared.next, tasks, body, 0);
        drop(region);
        assert!(
            !self.shared.panicked.swap(false, Ordering::Relaxed),
            "a task of a compute region panicked"
        );
    }

    fn begin(&mut self, tasks: usize, body: &Body<'_>) {
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes. `Region` keeps `run` from returning or unwinding before every worker that
        // entered has left the region, so no worker uses the body after its borrow ends.
        let body = unsafe { std::mem::transmute::<*const Body<'_>, *const Body<'static>>(body) };
        // SAFETY: no worker is in a region (see `Sync for Shared`), and `&mut self` excludes other callers.
        shared
            .job
            .with_mut(|job| unsafe { *job = Some(Job { body, tasks }) });
        shared.caller.with_mut(|caller| {
            // SAFETY: as above.
            let caller = unsafe { &mut *caller };
            let current = current();
            if caller.as_ref().map(Thread::id) != Some(current.id()) {
                *caller = Some(current);
            }
        });
        shared.next.store(0, Ordering::Relaxed);
        shared.left.store(0, Ordering::Relaxed);
        let region = (shared.gate.load(Ordering::Relaxed) / REGION + 1) * REGION;
        // SeqCst pairs with the worker's store to `parked` and load of the gate: one of the two sees the other.
        shared.gate.store(region, Ordering::SeqCst);
        for (worker, parked) in self.workers.iter().zip(&shared.parked) {
            if parked.load(Ordering::SeqCst) {
                worker.thread().unpark();
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker catches its tasks' panics, so it ends normally; there is nothing to do if it did not.
            drop(worker.join());
        }
    }
}

/// When dropped, closes the region and waits until every worker that entered has left: also when the caller's own task
/// panics.
struct Region<'a>(&'a Shared);

impl Drop for Region<'_> {
    fn drop(&mut self) {
        let gate = self.0.gate.fetch_or(CLOSED, Ordering::SeqCst);
        let entered = (gate & ENTERED) as usize;
        wait(&self.0.caller_parked, || {
            self.0.left.load(Ordering::SeqCst) == entered
        });
    }
}

impl Shared {
    /// Enters the current region, unless it is closed or not newer than `seen`, which is brought up to date.
    fn enter(&self, seen: &mut u64) -> bool {
        let mut gate = self.gate.load(Ordering::SeqCst);
        loop {
            let fresh = gate / REGION != *seen;
            if gate & CLOSED != 0 || !fresh {
                *seen = gate / REGION;
                return false;
            }
            let entered =
                self.gate
                    .compare_exchange_weak(gate, gate + 1, Ordering::SeqCst, Ordering::SeqCst);
            match entered {
                Ok(_) => {
                    *seen = gate / REGION;
                    return true;
                }
                Err(now) => gate = now,
            }
        }
    }
}

fn claim(next: &AtomicUsize, tasks: usize, body: &Body<'_>, thread: usize) {
    loop {
        let task = next.fetch_add(1, Ordering::Relaxed);
        if task >= tasks {
            return;
        }
        body(task, thread);
    }
}

/// Spins, then parks, until `ready`. Whoever makes it ready unparks the thread if it sees `parked`.
fn wait(parked: &AtomicBool, mut ready: impl FnMut() -> bool) {
    for _ in 0..SPINS {
        if ready() {
            return;
        }
        spin_loop();
    }
    parked.store(true, Ordering::SeqCst);
    while !ready() {
        park();
    }
    parked.store(false, Ordering::SeqCst);
}

fn work(shared: &Shared, worker: usize) {
    let mut seen = 0;
    let mut caller: Option<Thread> = None;
    loop {
        let mut stopped = false;
        wait(&shared.parked[worker], || {
            stopped = shared.stop.load(Ordering::SeqCst);
            stopped || shared.enter(&mut seen)
        });
        if stopped {
            return;
        }
        // SAFETY: entering orders this after the caller's writes, and the caller writes again only after this worker
        // has added to `left`.
        let job = shared.job.with(|job| unsafe { *job });
        let job = job.expect("a region has a job");
        shared.caller.with(|now| {
            // SAFETY: as above.
            let now = unsafe { &*now };
            if caller.as_ref().map(Thread::id) != now.as_ref().map(Thread::id) {
                caller.clone_from(now);
            }
        });
        // SAFETY: the body outlives the region, which lasts until this worker has added to `left`.
        let body = unsafe { &*job.body };
        let run = || claim(&shared.next, job.tasks, body, worker + 1);
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            shared.panicked.store(true, Ordering::Relaxed);
        }
        shared.left.fetch_add(1, Ordering::SeqCst);
        if shared.caller_parked.load(Ordering::SeqCst)
            && let Some(caller) = &caller
        {
            caller.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Under Miri, which is some thousand times slower, a few are enough: it looks at each access.
    const REGIONS: usize = if cfg!(miri) { 3 } else { 50 };

    /// How often each task ran in so many regions.
    fn counts(threads: usize, tasks: usize) -> Vec<usize> {
        let mut pool = Pool::new(threads).unwrap();
        let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
        for _ in 0..REGIONS {
            pool.run(tasks, &|task, thread| {
                assert!(thread < threads);
                counts[task].fetch_add(1, Ordering::Relaxed);
            });
        }
        counts.into_iter().map(AtomicUsize::into_inner).collect()
    }

    #[test]
    fn every_task_runs_once_in_every_region() {
        for threads in [1, 2, 5] {
            for tasks in [0, 1, 2, 3, 64, if cfg!(miri) { 65 } else { 1000 }] {
                assert_eq!(
                    counts(threads, tasks),
                    vec![REGIONS; tasks],
                    "{threads} threads"
                );
            }
        }
    }

    #[test]
    fn a_worker_that_never_comes_holds_nobody_up() {
        let mut pool = Pool::new(1).unwrap();
        pool.workers.push(std::thread::spawn(|| ()));
        let total = AtomicUsize::new(0);
        for _ in 0..3 {
            pool.run(10, &|task, _| {
                total.fetch_add(task, Ordering::Relaxed);
            });
        }
        assert_eq!(total.load(Ordering::Relaxed), 3 * 45);
    }

    #[test]
    fn tasks_of_one_thread_never_overlap() {
        let mut pool = Pool::new(4).unwrap();
        let busy: Vec<AtomicBool> = (0..4).map(|_| AtomicBool::new(false)).collect();
        pool.run(if cfg!(miri) { 50 } else { 5000 }, &|_, thread| {
            assert!(!busy[thread].swap(true, Ordering::SeqCst));
            std::hint::black_box((0..50).sum::<usize>());
            busy[thread].store(false, Ordering::SeqCst);
        });
    }

    #[test]
    fn parked_workers_wake_for_the_next_region() {
        let mut pool = Pool::new(3).unwrap();
        for _ in 0..3 {
            while !pool.shared.parked.iter().all(|p| p.load(Ordering::SeqCst)) {
                std::thread::yield_now();
            }
            let total = AtomicUsize::new(0);
            pool.run(100, &|task, _| {
                total.fetch_add(task, Ordering::Relaxed);
            });
            assert_eq!(total.load(Ordering::Relaxed), 4950);
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_leaves_the_pool_usable() {
        let mut pool = Pool::new(2).unwrap();
        for bad in [0, 7, 99] {
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run(100, &|task, _| assert_ne!(task, bad))
            }));
            assert!(result.is_err());
        }
        let total = AtomicUsize::new(0);
        pool.run(10, &|_, _| {
            total.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(total.load(Ordering::Relaxed), 10);
    }
}
