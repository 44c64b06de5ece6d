//! A slice that the tasks of one region write in disjoint parts.

use std::marker::PhantomData;
use std::ops::Range;

/// Shared access to a mutable slice; each task takes parts of it that no other task takes.
pub(crate) struct Shared<'a, T> {
    start: *mut T,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: it stands for `&mut [T]`, and callers of `part` promise that concurrent parts are disjoint.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self {
            start: slice.as_mut_ptr(),
            len: slice.len(),
            borrow: PhantomData,
        }
    }

    /// The elements of `range`.
    ///
    /// # Safety
    /// No part that overlaps this one is alive at the same time, on this or another thread.
    ///
    /// # Panics
    /// When the range exceeds the slice.
    #[allow(
        clippy::mut_from_ref,
        reason = "handing out disjoint parts is what this type is for"
    )]
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: inside the slice by the assertion, and unaliased by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}
