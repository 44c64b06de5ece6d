//! KV memory as bookkeeping: which block belongs to whom and what is in it. The values themselves are the runner's.

mod block_pool;
mod block_table;
mod prefix_cache;
#[cfg(test)]
mod tests;

use super::batch::BlockId;
use crate::tokenizer::TokenId;
use block_pool::BlockPool;
use prefix_cache::PrefixCache;

pub(super) use block_table::BlockTable;
pub(super) use prefix_cache::KeySpace;

/// The blocks of one runner and the prefixes that they hold.
///
/// Only full blocks are shared, so a shared block is never written again and needs no copy. A block that nobody
/// references stays cached until its memory is needed, least recently used first.
#[derive(Debug)]
pub(super) struct Kv {
    pool: BlockPool,
    cache: PrefixCache,
    block_tokens: usize,
}

/// Cached blocks at the start of a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cached {
    /// Blocks found.
    pub(super) blocks: usize,
    /// Those of them that nobody references: taking them leaves fewer to allocate.
    pub(super) idle: usize,
}

impl Kv {
    pub(super) fn new(blocks: usize, block_tokens: usize) -> Self {
        Self {
            pool: BlockPool::new(blocks),
            cache: PrefixCache::new(blocks, block_tokens),
            block_tokens,
        }
    }

    /// Tokens per block.
    pub(super) fn block_tokens(&self) -> usize {
        self.block_tokens
    }

    /// Blocks that `tokens` tokens fill or touch.
    pub(super) fn blocks_for(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.block_tokens)
    }

    /// Blocks that can be allocated now, cached and unreferenced ones included.
    pub(super) fn available(&self) -> usize {
        self.pool.available()
    }

    /// Blocks that tables reference.
    pub(super) fn referenced(&self) -> usize {
        self.pool.referenced()
    }

    /// Of a table's blocks, those that nobody else references, without those of `prefix` that it begins with.
    pub(super) fn private(&self, table: &BlockTable, prefix: &[BlockId]) -> usize {
        let blocks = table.blocks();
        let same = blocks.iter().zip(prefix).take_while(|(a, b)| a == b);
        let own = &blocks[same.count()..];
        let alone = |block: &&BlockId| self.pool.references(**block) == 1;
        own.iter().filter(alone).count()
    }

    /// What a new table over `tokens` would find in the cache; changes nothing.
    pub(super) fn cached(&self, space: KeySpace, tokens: &[TokenId]) -> Cached {
        let mut found = Cached::default();
        for block in self.chain(space, tokens) {
            found.blocks += 1;
            found.idle += usize::from(self.pool.references(block) == 0);
        }
        found
    }

    /// As [`Kv::cached`], the blocks themselves.
    pub(super) fn found(&self, space: KeySpace, tokens: &[TokenId]) -> Vec<BlockId> {
        self.chain(space, tokens).collect()
    }

    fn chain(&self, space: KeySpace, tokens: &[TokenId]) -> impl Iterator<Item = BlockId> {
        let mut parent = space.root();
        let parts = tokens.chunks_exact(self.block_tokens);
        parts.map_while(move |part| {
            let (block, entry) = self.cache.find(parent, part)?;
            parent = entry;
            Some(block)
        })
    }

    /// Continues `table` with cached blocks as far as `tokens`, the sequence's tokens, are found; returns the tokens
    /// that need not be computed now. A block that the table holds half-filled gives way to the cached full one.
    pub(super) fn adopt(&mut self, table: &mut BlockTable, tokens: &[TokenId]) -> usize {
        let before = table.stored();
        while let Some(parent) = table.parent() {
            let start = table.cached_blocks() * self.block_tokens;
            let Some(part) = tokens.get(start..start + self.block_tokens) else {
                break;
            };
            let Some((block, entry)) = self.cache.find(parent, part) else {
                break;
            };
            self.pool.retain(block);
            if let Some(own) = table.link(block, entry) {
                self.pool.release(own, false);
            }
            table.set_stored(start + self.block_tokens);
        }
        table.stored().saturating_sub(before)
    }

    /// Gives `table` room for `tokens` tokens in all, or changes nothing and says `false`.
    pub(super) fn reserve(&mut self, table: &mut BlockTable, tokens: usize) -> bool {
        let missing = self.blocks_for(tokens).saturating_sub(table.blocks().len());
        if missing > self.available() {
            return false;
        }
        for _ in 0..missing {
            let block = self.pool.allocate().expect("counted as available above");
            self.cache.remove(block);
            table.push(block);
        }
        true
    }

    /// Notes that the KV of the first `stored` of `tokens` is computed, and shares the blocks that became full.
    ///
    /// When another sequence computed the same block first, its block is used and this one is freed: the bits are the
    /// same, and one chain of cached blocks stays reachable from its root.
    pub(super) fn commit(&mut self, table: &mut BlockTable, tokens: &[TokenId], stored: usize) {
        table.set_stored(stored);
        while let Some(parent) = table.parent() {
            let index = table.cached_blocks();
            let start = index * self.block_tokens;
            if start + self.block_tokens > stored {
                break;
            }
            let part = &tokens[start..start + self.block_tokens];
            let own = table.blocks()[index];
            if let Some((block, entry)) = self.cache.find(parent, part) {
                self.pool.retain(block);
                table.link(block, entry);
                self.pool.release(own, false);
            } else if let Some(entry) = self.cache.insert(parent, part, own) {
                table.link(own, entry);
            } else {
                table.close();
            }
        }
    }

    /// Drops the table's references. The tail goes first, so that a cached chain is evicted from its end.
    pub(super) fn release(&mut self, table: BlockTable) {
        for block in table.into_blocks().into_iter().rev() {
            self.pool.release(block, self.cache.holds(block));
        }
    }

    /// As [`Kv::release`], but forgets what nobody else references: its content is not to be trusted.
    pub(super) fn discard(&mut self, table: BlockTable) {
        for block in table.into_blocks().into_iter().rev() {
            if self.pool.references(block) == 1 {
                self.cache.remove(block);
            }
            self.pool.release(block, self.cache.holds(block));
        }
    }

    /// Panics unless every block is free, referenced exactly as often as `tables` say, or cached and unreferenced.
    #[cfg(test)]
    pub(super) fn check<'a>(&self, tables: impl Iterator<Item = &'a BlockTable>) {
        let mut references = vec![0; self.pool.len()];
        for table in tables {
            assert!(table.stored() <= table.blocks().len() * self.block_tokens);
            for block in table.blocks() {
                references[block.0 as usize] += 1;
            }
        }
        self.pool
            .check(&references, |block| self.cache.holds(block));
        self.cache.check();
    }
}
