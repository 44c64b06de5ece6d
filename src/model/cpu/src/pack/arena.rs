//! Memory for packed weights: large chunks on huge pages where the system has them, shared by many matrices. Reading
//! all weights for one token is bound by memory, and small pages cost up to a third of it in address translation.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes of a huge page, and the alignment of chunks that can hold one.
const HUGE_PAGE: usize = 2 << 20;

/// Bytes of a chunk that no single matrix needs whole. What is not handed out is never touched.
const CHUNK: usize = 64 << 20;

/// Regions start on a cache line.
const LINE: usize = 64;

/// Hands out memory for matrices that live together, such as those of one model. A chunk is freed with the last matrix
/// that lies in it.
#[derive(Debug)]
pub struct Arena {
    least: usize,
    chunk: Option<Arc<Chunk>>,
    used: usize,
}

impl Default for Arena {
    fn default() -> Self {
        Self::new()
    }
}

impl Arena {
    /// An arena that holds no memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self::with_chunks_of(CHUNK)
    }

    /// An arena for a single matrix: a chunk is no larger than what is taken.
    pub(crate) fn of_one() -> Self {
        Self::with_chunks_of(LINE)
    }

    fn with_chunks_of(least: usize) -> Self {
        Self {
            least,
            chunk: None,
            used: 0,
        }
    }

    /// `bytes` zeros; `None` if there is no such memory.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<Region> {
        let end = self.used.checked_add(bytes)?;
        let chunk = match &self.chunk {
            Some(chunk) if end <= chunk.layout.size() => Arc::clone(chunk),
            _ => {
                self.used = 0;
                let chunk = Arc::new(Chunk::new(bytes.max(self.least))?);
                Arc::clone(self.chunk.insert(chunk))
            }
        };
        // SAFETY: the region lies inside the chunk and was handed to nobody else, since `used` only grows.
        let start = unsafe {
            let start = chunk.start.add(self.used);
            start.write_bytes(0, bytes);
            start
        };
        self.used = self
            .used
            .checked_add(bytes)?
            .checked_next_multiple_of(LINE)?;
        Some(Region {
            start,
            len: bytes,
            _chunk: chunk,
        })
    }
}

#[derive(Debug)]
struct Chunk {
    start: NonNull<u8>,
    layout: Layout,
}

impl Chunk {
    fn new(bytes: usize) -> Option<Self> {
        let unit = if bytes < HUGE_PAGE { LINE } else { HUGE_PAGE };
        let layout = Layout::from_size_align(bytes.checked_next_multiple_of(unit)?, unit).ok()?;
        // SAFETY: the layout's size is not zero, since an arena's chunks are not.
        let start = NonNull::new(unsafe { alloc(layout) })?;
        if unit == HUGE_PAGE {
            prefer_huge_pages(start, layout.size());
        }
        Some(Self { start, layout })
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and no region is left, since each holds the chunk.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

// SAFETY: a chunk is plain memory; regions of it are disjoint.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

/// Part of a chunk that one owner has to itself.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    len: usize,
    _chunk: Arc<Chunk>,
}

// SAFETY: a region stands for a `Box<[u8]>`.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl std::ops::Deref for Region {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the region's bytes are initialised, live as long as the chunk it holds, and belong to it alone.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl std::ops::DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

#[cfg(target_os = "linux")]
fn prefer_huge_pages(start: NonNull<u8>, bytes: usize) {
    const MADV_HUGEPAGE: i32 = 14;
    unsafe extern "C" {
        fn madvise(start: *mut std::ffi::c_void, bytes: usize, advice: i32) -> i32;
    }
    // SAFETY: this advice changes no contents. It may be refused, and then pages are small.
    let _refused = unsafe { madvise(start.as_ptr().cast(), bytes, MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn prefer_huge_pages(_start: NonNull<u8>, _bytes: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_zero_aligned_and_apart() {
        let mut arena = Arena::new();
        let sizes = [1, 64, 100, 3 << 20, CHUNK - 5, CHUNK + 7, 5, 0];
        let mut regions: Vec<Region> = sizes
            .iter()
            .map(|size| arena.take(*size).unwrap())
            .collect();
        drop(arena);
        for (index, region) in regions.iter_mut().enumerate() {
            assert_eq!(region.len(), sizes[index]);
            assert_eq!(region.as_ptr() as usize % LINE, 0);
            assert!(region.iter().all(|byte| *byte == 0));
            region.fill(index as u8 + 1);
        }
        for (index, region) in regions.iter().enumerate() {
            assert!(
                region.iter().all(|byte| *byte == index as u8 + 1),
                "{index}"
            );
        }
    }

    #[test]
    fn memory_that_does_not_exist_is_refused() {
        let mut arena = Arena::new();
        assert!(arena.take(usize::MAX).is_none());
        assert!(arena.take(isize::MAX as usize).is_none());
        assert!(arena.take(64).is_some());
        assert!(arena.take(usize::MAX - 32).is_none());
        assert!(arena.take(64).is_some());
    }
}
