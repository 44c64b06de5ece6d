//! The compute pool: every task runs once, its writes are there afterwards, nobody sleeps for ever.

use crate::pool::Pool;
use crate::threads::{AtomicUsize, Ordering, Slot};
use crate::{Check, check};

pub(crate) const CHECKS: &[Check] = &[
    ("tasks_run_once_and_their_writes_are_there", tasks_run_once),
    ("two_workers_share_a_region", two_workers),
    ("a_pool_that_is_dropped_at_once_ends", dropped_at_once),
];

/// Cells that several threads write, each at a time of its own.
struct Cells([Slot<usize>; 2]);

// SAFETY: the pool gives each task to one thread, and `run` returns when all have ended; the checker watches it.
unsafe impl Sync for Cells {}

impl Cells {
    fn add(&self, cell: usize) {
        // SAFETY: as for `Sync`.
        self.0[cell].with_mut(|value| unsafe { *value += 1 });
    }

    fn get(&self, cell: usize) -> usize {
        // SAFETY: as for `Sync`.
        self.0[cell].with(|value| unsafe { *value })
    }
}

fn tasks_run_once() {
    check(3, || {
        let mut pool = Pool::new(2).expect("threads");
        let cells = Cells([Slot::new(0), Slot::new(0)]);
        for region in 1..=2 {
            pool.run(2, &|task, _| cells.add(task));
            assert_eq!([cells.get(0), cells.get(1)], [region; 2]);
        }
    });
}

fn two_workers() {
    check(2, || {
        let mut pool = Pool::new(3).expect("threads");
        let done = AtomicUsize::new(0);
        pool.run(2, &|_, _| {
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.load(Ordering::Relaxed), 2);
    });
}

fn dropped_at_once() {
    check(3, || drop(Pool::new(2).expect("threads")));
}
