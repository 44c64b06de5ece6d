//! Worker threads for one caller: regions of independent tasks, claimed one by one, joined at the end of each region.
//! Workers spin for some tens of microseconds after a region, since the next one usually follows at once, then park.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{JoinHandle, Thread};

/// Rounds of waiting before a thread parks: about 50 us, since one pause takes some 40 ns on current cores.
const SPINS: u32 = 1000;

/// A region's body: `(task, thread)`, where `thread` is below [`Pool::threads`] and no two tasks run at once on one.
type Body<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// Compute threads, the caller included. Dropping the pool joins them.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    /// Number of regions begun; a worker that sees it change has a region to join.
    epoch: AtomicU64,
    /// The current region. Written only between regions, when no worker reads it.
    job: UnsafeCell<Option<Job>>,
    /// Next task to claim.
    next: AtomicUsize,
    /// Workers that have left the current region.
    done: AtomicUsize,
    /// Who waits for `done`, and whether it has gone to sleep.
    caller: UnsafeCell<Option<Thread>>,
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

// SAFETY: `job` and `caller` are written by the caller only while every worker has left the last region (`done` says
// so, acquired) and before `epoch` is released; workers read them only after acquiring a new `epoch` and before adding
// to `done`. The body is `Sync`, so several threads may call it.
unsafe impl Sync for Shared {}
// SAFETY: as above; nothing in it is tied to the thread that made it.
unsafe impl Send for Shared {}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("epoch", &self.epoch)
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
            epoch: AtomicU64::new(0),
            job: UnsafeCell::new(None),
            next: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            caller: UnsafeCell::new(None),
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
            let handle = std::thread::Builder::new()
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
        let region = Region {
            shared: &self.shared,
            workers: self.workers.len(),
        };
        claim(&self.shared.next, tasks, body, 0);
        drop(region);
        assert!(
            !self.shared.panicked.swap(false, Ordering::Relaxed),
            "a task of a compute region panicked"
        );
    }

    fn begin(&mut self, tasks: usize, body: &Body<'_>) {
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes. `Region` keeps `run` from returning or unwinding before every worker has
        // left the region, so no worker uses the body after its borrow ends.
        let body = unsafe { std::mem::transmute::<*const Body<'_>, *const Body<'static>>(body) };
        // SAFETY: no worker is in a region (see `Sync for Shared`), and `&mut self` excludes other callers.
        unsafe {
            *shared.job.get() = Some(Job { body, tasks });
            let caller = &mut *shared.caller.get();
            let current = std::thread::current();
            if caller
                .as_ref()
                .is_none_or(|known| known.id() != current.id())
            {
                *caller = Some(current);
            }
        }
        shared.next.store(0, Ordering::Relaxed);
        shared.done.store(0, Ordering::Relaxed);
        // SeqCst pairs with the worker's store to `parked` and load of `epoch`: one of the two sees the other.
        shared.epoch.fetch_add(1, Ordering::SeqCst);
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

/// Waits, when dropped, until every worker has left the region: also when the caller's own task panics.
struct Region<'a> {
    shared: &'a Shared,
    workers: usize,
}

impl Drop for Region<'_> {
    fn drop(&mut self) {
        let all_left = || self.shared.done.load(Ordering::SeqCst) == self.workers;
        wait(&self.shared.caller_parked, all_left);
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
fn wait(parked: &AtomicBool, ready: impl Fn() -> bool) {
    for _ in 0..SPINS {
        if ready() {
            return;
        }
        std::hint::spin_loop();
    }
    parked.store(true, Ordering::SeqCst);
    while !ready() {
        std::thread::park();
    }
    parked.store(false, Ordering::SeqCst);
}

fn work(shared: &Shared, worker: usize) {
    let mut seen = 0;
    let mut caller: Option<Thread> = None;
    loop {
        wait(&shared.parked[worker], || {
            shared.epoch.load(Ordering::SeqCst) != seen || shared.stop.load(Ordering::SeqCst)
        });
        let epoch = shared.epoch.load(Ordering::SeqCst);
        if epoch == seen {
            return; // stop; the caller is not in a region then
        }
        seen = epoch;
        // SAFETY: the acquired epoch orders this after the caller's writes, and the caller writes again only after
        // this worker has added to `done`.
        let (job, now) = unsafe {
            (
                (*shared.job.get()).expect("a region has a job"),
                &*shared.caller.get(),
            )
        };
        if caller.as_ref().map(Thread::id) != now.as_ref().map(Thread::id) {
            caller.clone_from(now);
        }
        // SAFETY: the body outlives the region, which lasts until this worker has added to `done`.
        let body = unsafe { &*job.body };
        let run = || claim(&shared.next, job.tasks, body, worker + 1);
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            shared.panicked.store(true, Ordering::Relaxed);
        }
        shared.done.fetch_add(1, Ordering::SeqCst);
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

    /// How often each task ran in 50 regions.
    fn counts(threads: usize, tasks: usize) -> Vec<usize> {
        let mut pool = Pool::new(threads).unwrap();
        let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
        for _ in 0..50 {
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
            for tasks in [0, 1, 2, 3, 64, 1000] {
                assert_eq!(counts(threads, tasks), vec![50; tasks], "{threads} threads");
            }
        }
    }

    #[test]
    fn tasks_of_one_thread_never_overlap() {
        let mut pool = Pool::new(4).unwrap();
        let busy: Vec<AtomicBool> = (0..4).map(|_| AtomicBool::new(false)).collect();
        pool.run(5000, &|_, thread| {
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
