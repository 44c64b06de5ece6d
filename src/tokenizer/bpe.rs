//! Byte-pair merging: the best-ranked pair first, the leftmost of equals, until no pair has a rule.
//!
//! A long word is a doubly linked list in an array with its candidate pairs in a heap, so that n symbols take
//! O(n log n) time: each merge takes out one symbol and brings in at most two pairs. Words of a natural language are
//! short; there, looking at every pair again costs less than keeping a heap.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use super::TokenId;

/// A rule: which token a pair becomes, and how early.
#[derive(Clone, Copy, Debug)]
struct Rule {
    /// Smaller merges first.
    rank: u32,
    whole: TokenId,
}

/// All rules of a vocabulary.
#[derive(Debug, Default)]
pub(super) struct Merges {
    rules: HashMap<u64, Rule, BuildHasherDefault<PairHasher>>,
}

impl Merges {
    /// No rules, with room for `count`.
    pub(super) fn with_capacity(count: usize) -> Self {
        Self {
            rules: HashMap::with_capacity_and_hasher(count, BuildHasherDefault::default()),
        }
    }

    /// Adds a rule that ranks after those already there; a pair keeps its first one.
    pub(super) fn push(&mut self, left: TokenId, right: TokenId, whole: TokenId) {
        let rank = u32::try_from(self.rules.len()).unwrap_or(u32::MAX);
        self.push_ranked(rank, left, right, whole);
    }

    /// Adds a rule of a rank that others may have too: then the leftmost is first.
    pub(super) fn push_ranked(&mut self, rank: u32, left: TokenId, right: TokenId, whole: TokenId) {
        self.rules
            .entry(pair(left, right))
            .or_insert(Rule { rank, whole });
    }

    fn get(&self, left: TokenId, right: TokenId) -> Option<Rule> {
        self.rules.get(&pair(left, right)).copied()
    }
}

fn pair(left: TokenId, right: TokenId) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

/// Spreads a pair of ids over 64 bits by one multiplication. The keys come from the model file, not from callers,
/// so that nobody can choose them to collide.
#[derive(Default)]
struct PairHasher(u64);

impl Hasher for PairHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        // An odd constant near 2^64 / golden ratio; the fold brings the well-mixed high bits down.
        let product = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ product >> 32;
    }
}

/// No neighbour.
const NONE: u32 = u32::MAX;

/// A token of a word that is being merged.
#[derive(Clone, Copy, Debug)]
struct Symbol {
    token: TokenId,
    before: u32,
    after: u32,
    /// Merged into the symbol before it.
    gone: bool,
}

/// A pair that has a rule, ordered by rank, then position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u32,
    at: u32,
    left: TokenId,
    right: TokenId,
    whole: TokenId,
}

/// Up to how many symbols a word is short.
const SHORT: usize = 32;

/// Working memory of merging, used again for each word.
#[derive(Debug, Default)]
pub(super) struct Merger {
    /// The tokens of a short word, each with the rule for it and the one after.
    short: Vec<(TokenId, Option<Rule>)>,
    symbols: Vec<Symbol>,
    candidates: BinaryHeap<Reverse<Candidate>>,
    /// Pairs looked at, for tests of what merging costs.
    #[cfg(test)]
    pub(super) steps: usize,
}

impl Merger {
    /// Merges one word, given as the tokens of its bytes, and appends the result to `tokens`.
    pub(super) fn merge(
        &mut self,
        mut singles: impl Iterator<Item = TokenId>,
        merges: &Merges,
        tokens: &mut Vec<TokenId>,
    ) {
        self.short.clear();
        self.short
            .extend(singles.by_ref().take(SHORT + 1).map(|token| (token, None)));
        if self.short.len() <= SHORT {
            self.merge_short(merges);
            tokens.extend(self.short.iter().map(|(token, _)| token));
            return;
        }
        self.fill(singles);
        for at in 1..self.symbols.len() {
            self.consider(at - 1, at, merges);
        }
        while let Some(Reverse(candidate)) = self.candidates.pop() {
            self.apply(candidate, merges);
        }
        let left = self.symbols.iter().filter(|symbol| !symbol.gone);
        tokens.extend(left.map(|symbol| symbol.token));
    }

    fn merge_short(&mut self, merges: &Merges) {
        let word = &mut self.short;
        for at in 1..word.len() {
            word[at - 1].1 = merges.get(word[at - 1].0, word[at].0);
        }
        loop {
            let rules = word
                .iter()
                .enumerate()
                .filter_map(|(at, (_, rule))| Some((at, (*rule)?)));
            #[cfg(test)]
            {
                self.steps += word.len();
            }
            let Some((at, rule)) = rules.min_by_key(|(_, rule)| rule.rank) else {
                return;
            };
            word.remove(at + 1);
            word[at] = (rule.whole, None);
            if let Some(&(after, _)) = word.get(at + 1) {
                word[at].1 = merges.get(rule.whole, after);
            }
            if at > 0 {
                word[at - 1].1 = merges.get(word[at - 1].0, rule.whole);
            }
        }
    }

    /// Makes the list of a long word: what has been read as a short one, then the rest.
    fn fill(&mut self, singles: impl Iterator<Item = TokenId>) {
        self.symbols.clear();
        let read = self.short.iter().map(|&(token, _)| token);
        for (at, token) in (0_u32..).zip(read.chain(singles)) {
            self.symbols.push(Symbol {
                token,
                before: at.checked_sub(1).unwrap_or(NONE),
                after: at + 1,
                gone: false,
            });
        }
        if let Some(last) = self.symbols.last_mut() {
            last.after = NONE;
        }
    }

    fn consider(&mut self, left_at: usize, right_at: usize, merges: &Merges) {
        #[cfg(test)]
        {
            self.steps += 1;
        }
        let (left, right) = (self.symbols[left_at].token, self.symbols[right_at].token);
        let Some(rule) = merges.get(left, right) else {
            return;
        };
        self.candidates.push(Reverse(Candidate {
            rank: rule.rank,
            at: u32::try_from(left_at).expect("positions are counted in 32 bits"),
            left,
            right,
            whole: rule.whole,
        }));
    }

    /// Merges a pair, unless one of its halves has been merged otherwise since it was found.
    fn apply(&mut self, candidate: Candidate, merges: &Merges) {
        let at = candidate.at as usize;
        let left = self.symbols[at];
        if left.gone || left.token != candidate.left || left.after == NONE {
            return;
        }
        let right_at = left.after as usize;
        let right = self.symbols[right_at];
        if right.token != candidate.right {
            return;
        }
        self.symbols[right_at].gone = true;
        self.symbols[at].token = candidate.whole;
        self.symbols[at].after = right.after;
        if right.after != NONE {
            self.symbols[right.after as usize].before = candidate.at;
            self.consider(at, right.after as usize, merges);
        }
        if left.before != NONE {
            self.consider(left.before as usize, at, merges);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition: look through the word again for the best pair after each merge.
    fn merge_slowly(word: &[TokenId], merges: &Merges) -> Vec<TokenId> {
        let mut word = word.to_vec();
        loop {
            let best = (1..word.len())
                .filter_map(|at| Some((merges.get(word[at - 1], word[at])?, at)))
                .min_by_key(|(rule, at)| (rule.rank, *at));
            let Some((rule, at)) = best else {
                return word;
            };
            word[at - 1] = rule.whole;
            word.remove(at);
        }
    }

    fn merge(word: &[TokenId], merges: &Merges) -> Vec<TokenId> {
        let mut tokens = Vec::new();
        Merger::default().merge(word.iter().copied(), merges, &mut tokens);
        tokens
    }

    #[test]
    fn the_leftmost_of_equal_pairs_is_first() {
        let mut merges = Merges::default();
        merges.push(1, 1, 2);
        assert_eq!(merge(&[1, 1, 1], &merges), [2, 1]);
        assert_eq!(merge(&[], &merges), [] as [TokenId; 0]);
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(
            rules in prop::collection::vec((0_u32..8, 0_u32..8, 0_u32..8), 0..30),
            word in prop::collection::vec(0_u32..6, 0..3 * SHORT),
        ) {
            let mut merges = Merges::default();
            for (left, right, whole) in rules {
                merges.push(left, right, whole);
            }
            prop_assert_eq!(merge(&word, &merges), merge_slowly(&word, &merges));
        }
    }
}
