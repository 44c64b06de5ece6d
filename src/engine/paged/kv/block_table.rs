//! One sequence's blocks in the order of its tokens. Plain data: only `Kv` changes it, so that counts stay right.

use super::prefix_cache::Parent;
use crate::engine::paged::batch::BlockId;

/// A sequence's blocks, how many of its tokens are stored in them, and how many of them the cache knows. The default
/// holds nothing and shares nothing.
#[derive(Debug, Default)]
pub(in crate::engine::paged) struct BlockTable {
    blocks: Vec<BlockId>,
    stored: usize,
    /// Leading blocks that are entries of the prefix cache.
    cached_blocks: usize,
    /// What the next block's entry will name as its parent; `None` when the chain cannot be continued.
    parent: Option<Parent>,
}

impl BlockTable {
    /// An empty table whose blocks are shared within `root` only.
    pub(in crate::engine::paged) fn new(root: Parent) -> Self {
        Self {
            blocks: Vec::new(),
            stored: 0,
            cached_blocks: 0,
            parent: Some(root),
        }
    }

    pub(in crate::engine::paged) fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }

    /// Tokens whose KV is computed.
    pub(in crate::engine::paged) fn stored(&self) -> usize {
        self.stored
    }

    pub(super) fn cached_blocks(&self) -> usize {
        self.cached_blocks
    }

    pub(super) fn parent(&self) -> Option<Parent> {
        self.parent
    }

    /// Ends the chain: later blocks stay private.
    pub(super) fn close(&mut self) {
        self.parent = None;
    }

    pub(super) fn set_stored(&mut self, stored: usize) {
        self.stored = stored;
    }

    pub(super) fn push(&mut self, block: BlockId) {
        self.blocks.push(block);
    }

    /// Makes `block` the next cached one and returns the block that it takes the place of, if there is one.
    pub(super) fn link(&mut self, block: BlockId, entry: Parent) -> Option<BlockId> {
        let index = self.cached_blocks;
        self.cached_blocks += 1;
        self.parent = Some(entry);
        if index == self.blocks.len() {
            self.blocks.push(block);
            return None;
        }
        Some(std::mem::replace(&mut self.blocks[index], block))
    }

    pub(super) fn into_blocks(self) -> Vec<BlockId> {
        self.blocks
    }
}
