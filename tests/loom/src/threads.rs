//! The checker's atomics and threads under the names that the code uses, with what the checker lacks put in: it keeps
//! no single order of `SeqCst` accesses, lets a store slip between the two halves of an exchange, and is confused by an
//! `unpark` that meets a thread in `join`.
#![allow(dead_code, reason = "each type has the methods that some type needs")]

use std::fmt;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{
    self,
    Ordering::{Relaxed, SeqCst},
};
use loom::thread;

pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::Arc;
pub(crate) use loom::sync::atomic::Ordering;
pub(crate) use loom::thread::{Thread, current, park};

/// Waiting by looking again is no different from parking here, only slower to check.
pub(crate) const SPINS: u32 = 0;

/// Few, so that there are few orders.
pub(crate) const PINS: usize = 2;

/// A value whose uses the checker watches.
pub(crate) struct Slot<T>(UnsafeCell<T>);

impl<T> Slot<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        self.0.with(read)
    }

    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        self.0.with_mut(write)
    }
}

/// An atomic whose `SeqCst` loads and whose stores, unless relaxed, are exchanges: those always meet the newest value.
macro_rules! atomic {
    ($name:ident, $value:ty) => {
        #[derive(Debug)]
        pub(crate) struct $name(atomic::$name);

        impl $name {
            pub(crate) fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                match order {
                    SeqCst => self.0.fetch_or(<$value>::default(), SeqCst),
                    _ => self.0.load(order),
                }
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                match order {
                    Relaxed => self.0.store(value, Relaxed),
                    _ => drop(self.0.swap(value, order)),
                }
            }

            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                self.0.swap(value, order)
            }
        }
    };
}

macro_rules! atomic_number {
    ($name:ident, $value:ty) => {
        atomic!($name, $value);

        impl $name {
            pub(crate) fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_add(value, order)
            }

            pub(crate) fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_sub(value, order)
            }

            pub(crate) fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_or(value, order)
            }

            pub(crate) fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.0.compare_exchange(old, new, success, failure)
            }

            pub(crate) fn compare_exchange_weak(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.0.compare_exchange(old, new, success, failure)
            }

            pub(crate) fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                self.0.fetch_update(success, failure, change)
            }
        }
    };
}

atomic!(AtomicBool, bool);
atomic_number!(AtomicU64, u64);
atomic_number!(AtomicUsize, usize);

/// Starts threads that are joined by parking.
#[derive(Debug)]
pub(crate) struct Builder(thread::Builder);

impl Builder {
    pub(crate) fn new() -> Self {
        Self(thread::Builder::new())
    }

    pub(crate) fn name(self, name: String) -> Self {
        Self(self.0.name(name))
    }

    pub(crate) fn spawn(
        self,
        body: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<JoinHandle<()>> {
        let ended = Arc::new(AtomicBool::new(false));
        let (on_thread, parent) = (Arc::clone(&ended), current());
        let handle = self.0.spawn(move || {
            body();
            on_thread.store(true, SeqCst);
            parent.unpark();
        })?;
        Ok(JoinHandle {
            handle,
            ended,
            value: (),
        })
    }
}

/// A thread that its parent may wait for.
pub(crate) struct JoinHandle<T> {
    handle: thread::JoinHandle<()>,
    ended: Arc<AtomicBool>,
    value: T,
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").finish_non_exhaustive()
    }
}

impl<T> JoinHandle<T> {
    pub(crate) fn thread(&self) -> &Thread {
        self.handle.thread()
    }

    /// Only the parent may wait, since only it is woken.
    pub(crate) fn join(self) -> std::thread::Result<T> {
        while !self.ended.load(SeqCst) {
            park();
        }
        Ok(self.value)
    }
}

/// Starts a thread.
pub(crate) fn spawn(body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    Builder::new()
        .spawn(body)
        .expect("the checker's threads cost nothing")
}
