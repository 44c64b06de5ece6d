//! Reference counts of blocks, the free list, and the order in which cached blocks nobody uses are given up.

use crate::engine::paged::batch::BlockId;

/// No neighbour in the idle list.
const NONE: u32 = u32::MAX;

/// Every block is free, referenced, or idle: kept for its content though nobody references it.
#[derive(Debug)]
pub(super) struct BlockPool {
    blocks: Vec<Block>,
    free: Vec<BlockId>,
    /// Ends of the idle list, a doubly linked list through `blocks`.
    oldest: u32,
    newest: u32,
    idle: usize,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    references: u32,
    idle: bool,
    older: u32,
    newer: u32,
}

impl BlockPool {
    pub(super) fn new(blocks: usize) -> Self {
        let count = u32::try_from(blocks).expect("the engine's start checks the number of blocks");
        Self {
            blocks: vec![
                Block {
                    references: 0,
                    idle: false,
                    older: NONE,
                    newer: NONE
                };
                blocks
            ],
            free: (0..count).rev().map(BlockId).collect(),
            oldest: NONE,
            newest: NONE,
            idle: 0,
        }
    }

    /// Free and idle blocks.
    pub(super) fn available(&self) -> usize {
        self.free.len() + self.idle
    }

    pub(super) fn referenced(&self) -> usize {
        self.blocks.len() - self.available()
    }

    pub(super) fn references(&self, block: BlockId) -> u32 {
        self.blocks[block.0 as usize].references
    }

    /// Takes a free block, else the longest idle one, whose old content the caller must forget.
    pub(super) fn allocate(&mut self) -> Option<BlockId> {
        let block = match self.free.pop() {
            Some(block) => block,
            None if self.oldest == NONE => return None,
            None => {
                let block = BlockId(self.oldest);
                self.leave_idle(block);
                block
            }
        };
        self.blocks[block.0 as usize].references = 1;
        Some(block)
    }

    /// Adds a reference to a referenced or idle block.
    pub(super) fn retain(&mut self, block: BlockId) {
        if self.blocks[block.0 as usize].idle {
            self.leave_idle(block);
        }
        self.blocks[block.0 as usize].references += 1;
    }

    /// Drops a reference; the last one makes the block idle when its content is to be kept, else free.
    pub(super) fn release(&mut self, block: BlockId, keep: bool) {
        let slot = &mut self.blocks[block.0 as usize];
        slot.references -= 1;
        if slot.references > 0 {
            return;
        }
        if keep {
            self.enter_idle(block);
        } else {
            self.free.push(block);
        }
    }

    fn enter_idle(&mut self, block: BlockId) {
        let slot = &mut self.blocks[block.0 as usize];
        slot.idle = true;
        slot.older = self.newest;
        slot.newer = NONE;
        match self.newest {
            NONE => self.oldest = block.0,
            newest => self.blocks[newest as usize].newer = block.0,
        }
        self.newest = block.0;
        self.idle += 1;
    }

    fn leave_idle(&mut self, block: BlockId) {
        let Block { older, newer, .. } = self.blocks[block.0 as usize];
        match older {
            NONE => self.oldest = newer,
            older => self.blocks[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.blocks[newer as usize].older = older,
        }
        self.blocks[block.0 as usize].idle = false;
        self.idle -= 1;
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Panics unless each block is in exactly one state and referenced as often as `references` says.
    #[cfg(test)]
    pub(super) fn check(&self, references: &[u32], cached: impl Fn(BlockId) -> bool) {
        let mut seen = vec![0; self.blocks.len()];
        for block in &self.free {
            seen[block.0 as usize] += 1;
            assert!(!cached(*block), "{block:?} is free and cached");
        }
        let mut next = self.oldest;
        while next != NONE {
            seen[next as usize] += 1;
            assert!(
                cached(BlockId(next)),
                "block {next} is idle without content"
            );
            next = self.blocks[next as usize].newer;
        }
        for (index, block) in self.blocks.iter().enumerate() {
            assert_eq!(
                block.references, references[index],
                "references of block {index}"
            );
            seen[index] += u32::from(block.references > 0);
            assert_eq!(seen[index], 1, "states of block {index}");
        }
    }
}
