//! Finds the block that holds given tokens after a given prefix: a chain of entries, each naming its parent.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::engine::paged::batch::BlockId;
use crate::tokenizer::TokenId;

/// What decides a block's content besides its tokens. Prefixes are never shared between different spaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::engine::paged) struct KeySpace {
    /// Generation of the adapter that computes the block; none is the model itself. Tagged by its type, so that a
    /// later salt of the same number is another key.
    adapter: Option<u64>,
}

impl KeySpace {
    /// The space of one loading of an adapter.
    #[cfg(test)]
    pub(in crate::engine::paged) fn of_adapter(generation: u64) -> Self {
        Self {
            adapter: Some(generation),
        }
    }

    /// Where chains of this space begin.
    pub(in crate::engine::paged) fn root(self) -> Parent {
        Parent(Link::Root(self))
    }
}

/// What comes before a block: the start of a space or another entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine::paged) struct Parent(Link);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Link {
    Root(KeySpace),
    /// Serial number of an entry; never used twice, so a reused block cannot pass for its predecessor.
    Entry(u64),
}

/// Entries by hash of (parent, tokens). A hit compares both, so equal hashes never share a block.
#[derive(Debug)]
pub(super) struct PrefixCache {
    by_hash: HashMap<u64, BlockId>,
    /// By block.
    entries: Vec<Option<Entry>>,
    /// Each block's tokens, `[blocks, block_tokens]`; meaningless without an entry.
    tokens: Vec<TokenId>,
    block_tokens: usize,
    next_serial: u64,
    hash: fn(Parent, &[TokenId]) -> u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    serial: u64,
    parent: Parent,
    hash: u64,
}

impl PrefixCache {
    pub(super) fn new(blocks: usize, block_tokens: usize) -> Self {
        Self::with_hash(blocks, block_tokens, |parent, tokens| {
            let mut hasher = DefaultHasher::new();
            (parent, tokens).hash(&mut hasher);
            hasher.finish()
        })
    }

    pub(super) fn with_hash(
        blocks: usize,
        block_tokens: usize,
        hash: fn(Parent, &[TokenId]) -> u64,
    ) -> Self {
        Self {
            by_hash: HashMap::with_capacity(blocks),
            entries: vec![None; blocks],
            tokens: vec![0; blocks * block_tokens],
            block_tokens,
            next_serial: 0,
            hash,
        }
    }

    /// The block that holds `tokens` after `parent`, and itself as a parent.
    pub(super) fn find(&self, parent: Parent, tokens: &[TokenId]) -> Option<(BlockId, Parent)> {
        let block = *self.by_hash.get(&(self.hash)(parent, tokens))?;
        let entry = self.entries[block.0 as usize]?;
        (entry.parent == parent && self.tokens_of(block) == tokens)
            .then_some((block, Parent(Link::Entry(entry.serial))))
    }

    /// Makes `block` findable; `None` when an entry with other content has the same hash.
    pub(super) fn insert(
        &mut self,
        parent: Parent,
        tokens: &[TokenId],
        block: BlockId,
    ) -> Option<Parent> {
        let hash = (self.hash)(parent, tokens);
        if self.by_hash.contains_key(&hash) {
            return None;
        }
        let serial = self.next_serial;
        self.next_serial += 1;
        self.by_hash.insert(hash, block);
        self.entries[block.0 as usize] = Some(Entry {
            serial,
            parent,
            hash,
        });
        let start = block.0 as usize * self.block_tokens;
        self.tokens[start..start + self.block_tokens].copy_from_slice(tokens);
        Some(Parent(Link::Entry(serial)))
    }

    /// Forgets what `block` holds, if anything.
    pub(super) fn remove(&mut self, block: BlockId) {
        if let Some(entry) = self.entries[block.0 as usize].take() {
            self.by_hash.remove(&entry.hash);
        }
    }

    /// Whether `block` is findable.
    pub(super) fn holds(&self, block: BlockId) -> bool {
        self.entries[block.0 as usize].is_some()
    }

    fn tokens_of(&self, block: BlockId) -> &[TokenId] {
        let start = block.0 as usize * self.block_tokens;
        &self.tokens[start..start + self.block_tokens]
    }

    /// Panics unless map and entries agree.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let entries = self.entries.iter().flatten();
        assert_eq!(entries.clone().count(), self.by_hash.len());
        for entry in entries {
            assert!(self.by_hash.contains_key(&entry.hash));
        }
    }
}
