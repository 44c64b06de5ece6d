//! What the parts that several threads touch are made of. A module of its own, so that `tests/loom` can put a model
//! checker's in its place.

pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub(super) use std::thread::{Thread, park};

/// Most pinned prefixes at a time, being computed or resident.
pub(super) const PINS: usize = 64;
