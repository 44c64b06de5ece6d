//! KV memory: a pool of blocks of [`BLOCK_TOKENS`] tokens in half floats. In a block, layer after layer and head after
//! head, keys lie transposed (`[dim][token]`) and values as they come (`[token][dim]`), each contiguous.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Tokens of one block.
pub const BLOCK_TOKENS: usize = 32;

/// What the memory holds of each token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvShape {
    /// Decoder layers.
    pub layers: usize,
    /// Key and value heads of a layer.
    pub heads: usize,
    /// Values of a head, a multiple of 16.
    pub head_dim: usize,
}

impl KvShape {
    /// Bytes of one block: all layers, all heads, keys and values.
    #[must_use]
    pub fn block_bytes(self) -> usize {
        self.block_halves() * size_of::<u16>()
    }

    fn block_halves(self) -> usize {
        self.layers * self.heads * self.head_halves()
    }

    fn head_halves(self) -> usize {
        2 * self.head_dim * BLOCK_TOKENS
    }
}

/// The system could not give that much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Bytes asked for.
    pub bytes: usize,
}

impl std::fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no memory for {} bytes of keys and values", self.bytes)
    }
}

impl std::error::Error for OutOfMemory {}

/// Every head's keys and values start on a cache line.
const LINE: usize = 64;
/// What the allocator gives without clearing memory by hand: only then do untouched blocks stay unresident.
const PLAIN_ALIGN: usize = 16;

/// The pool. Memory of blocks that were never written is reserved, but not resident.
#[derive(Debug)]
pub struct KvCache {
    allocation: NonNull<u8>,
    layout: Layout,
    /// The first line of the allocation.
    start: NonNull<u16>,
    shape: KvShape,
    blocks: usize,
}

// SAFETY: it owns plain memory that nothing else refers to.
unsafe impl Send for KvCache {}
// SAFETY: shared references only read, apart from the crate's own stores, whose callers promise disjoint targets.
unsafe impl Sync for KvCache {}

/// Start of one head's keys and values in one block.
#[derive(Clone, Copy)]
pub(crate) struct HeadBlock {
    /// `[head_dim][BLOCK_TOKENS]`
    pub(crate) keys: *mut u16,
    /// `[BLOCK_TOKENS][head_dim]`
    pub(crate) values: *mut u16,
}

impl KvCache {
    /// Reserves `blocks` blocks, all zero.
    ///
    /// # Errors
    /// When the system refuses that much memory.
    ///
    /// # Panics
    /// When a number of the shape is zero.
    pub fn new(shape: KvShape, blocks: usize) -> Result<Self, OutOfMemory> {
        assert!(shape.block_bytes() > 0);
        let too_much = OutOfMemory {
            bytes: shape.block_bytes().saturating_mul(blocks),
        };
        let bytes = shape
            .block_bytes()
            .checked_mul(blocks.max(1))
            .ok_or(too_much)?;
        let bytes = bytes.checked_add(LINE).ok_or(too_much)?;
        let layout = Layout::from_size_align(bytes, PLAIN_ALIGN).map_err(|_| too_much)?;
        // SAFETY: the size is not zero.
        let allocation = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(too_much)?;
        // SAFETY: moves by less than the line that was asked for on top.
        let start = unsafe { allocation.add(allocation.align_offset(LINE)) };
        Ok(Self {
            allocation,
            layout,
            start: start.cast(),
            shape,
            blocks,
        })
    }

    /// Number of blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// What it holds of each token.
    #[must_use]
    pub fn shape(&self) -> KvShape {
        self.shape
    }

    /// One head of one layer in one block.
    ///
    /// # Panics
    /// When an index is out of range.
    pub(crate) fn head(&self, block: usize, layer: usize, head: usize) -> HeadBlock {
        let shape = self.shape;
        assert!(block < self.blocks && layer < shape.layers && head < shape.heads);
        let offset =
            block * shape.block_halves() + (layer * shape.heads + head) * shape.head_halves();
        // SAFETY: the indices are in range, so both offsets are inside the allocation.
        unsafe {
            let keys = self.start.as_ptr().add(offset);
            HeadBlock {
                keys,
                values: keys.add(shape.head_dim * BLOCK_TOKENS),
            }
        }
    }
}

impl Drop for KvCache {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.allocation.as_ptr(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_all_blocks_tile_the_memory() {
        let shape = KvShape {
            layers: 3,
            heads: 2,
            head_dim: 16,
        };
        let cache = KvCache::new(shape, 4).unwrap();
        let mut next = cache.start.as_ptr().addr();
        for block in 0..4 {
            for (layer, head) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)] {
                let at = cache.head(block, layer, head);
                assert_eq!(at.keys.addr(), next);
                assert_eq!(at.values.addr() - next, 16 * BLOCK_TOKENS * 2);
                next += 2 * 16 * BLOCK_TOKENS * 2;
            }
        }
        assert_eq!(next, cache.start.as_ptr().addr() + 4 * shape.block_bytes());
    }

    #[test]
    fn a_size_beyond_the_address_space_is_an_error() {
        let shape = KvShape {
            layers: 30,
            heads: 3,
            head_dim: 64,
        };
        assert!(KvCache::new(shape, usize::MAX / 2).is_err());
    }
}
