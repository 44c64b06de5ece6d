//! What the pool is made of. A module of its own, so that the model checker's proofs can put its own in its place.

use std::cell::UnsafeCell;

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::thread::{Builder, JoinHandle, Thread, current, park};

/// Rounds of waiting before a thread parks: about 50 us, since one pause takes some 40 ns on current cores.
pub(crate) const SPINS: u32 = if cfg!(miri) { 2 } else { 1000 };

/// A value that several threads may reach; who may do so when is its users' promise.
pub(crate) struct Slot<T>(UnsafeCell<T>);

impl<T> Slot<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Lends the value to be read.
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Lends the value to be written.
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
