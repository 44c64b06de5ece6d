//! Added tokens: those that a template writes by their spelling and that merging never makes.

use std::collections::HashMap;

use super::tables::SPACE;
use super::{TokenId, TokenizerParts};

/// Kind of the token for what a vocabulary has no token for.
pub(super) const UNKNOWN: i32 = 2;
/// Kind of a token that has no text of its own.
pub(super) const CONTROL: i32 = 3;
/// Kind of a token that was added to a trained vocabulary.
pub(super) const USER_DEFINED: i32 = 4;
/// Kind of a token that no training text had.
pub(super) const UNUSED: i32 = 5;
/// Kind of a piece that is one byte.
pub(super) const BYTE: i32 = 6;

/// Whether a token of this kind is found by its spelling.
pub(super) fn is_added(kind: i32) -> bool {
    matches!(kind, CONTROL | USER_DEFINED)
}

/// The added tokens of a vocabulary.
#[derive(Debug)]
pub(super) struct Added {
    /// Longest first; equals in the order of their bytes.
    spellings: Vec<(String, TokenId)>,
    ids: HashMap<String, TokenId>,
    /// For each first byte, indices of `spellings` that start with it, longest first.
    by_first: HashMap<u8, Vec<usize>>,
}

/// An added token spelled in a text, at the bytes `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) token: TokenId,
}

impl Added {
    /// Collects the added tokens; one without a spelling is never found. A user-defined piece is found as it is
    /// written, with spaces.
    pub(super) fn new(parts: &TokenizerParts) -> Self {
        let spelled = |spelling: &String, kind: i32| {
            if kind == USER_DEFINED && parts.model == "llama" {
                return spelling.replace(SPACE, " ");
            }
            spelling.clone()
        };
        let spellings = (0..)
            .zip(parts.tokens.iter().zip(&parts.kinds))
            .filter(|(_, (_, kind))| is_added(**kind))
            .map(|(id, (spelling, &kind))| (spelled(spelling, kind), id));
        Self::of(spellings.collect())
    }

    /// Those given.
    pub(super) fn of(mut spellings: Vec<(String, TokenId)>) -> Self {
        spellings.retain(|(spelling, _)| !spelling.is_empty());
        spellings.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        let mut by_first: HashMap<u8, Vec<usize>> = HashMap::new();
        for (index, (spelling, _)) in spellings.iter().enumerate() {
            by_first
                .entry(spelling.as_bytes()[0])
                .or_default()
                .push(index);
        }
        let ids = spellings.iter().cloned().collect();
        Self {
            spellings,
            ids,
            by_first,
        }
    }

    pub(super) fn spellings(&self) -> Vec<&str> {
        self.spellings
            .iter()
            .map(|(spelling, _)| spelling.as_str())
            .collect()
    }

    pub(super) fn spelling(&self, token: TokenId) -> Option<&str> {
        let mut all = self.spellings.iter();
        let found = all.find(|(_, id)| *id == token)?;
        Some(&found.0)
    }

    pub(super) fn id(&self, spelling: &str) -> Option<TokenId> {
        self.ids.get(spelling).copied()
    }

    /// Finds added tokens from left to right, the longest at each place.
    pub(super) fn find_all(&self, text: &str) -> impl Iterator<Item = Found> {
        let mut at = 0;
        std::iter::from_fn(move || {
            while at < text.len() {
                if let Some(found) = self.starts(text, at) {
                    at = found.end;
                    return Some(found);
                }
                at += 1;
            }
            None
        })
    }

    fn starts(&self, text: &str, start: usize) -> Option<Found> {
        let rest = &text.as_bytes()[start..];
        self.by_first.get(&rest[0])?.iter().find_map(|&index| {
            let (spelling, token) = &self.spellings[index];
            rest.starts_with(spelling.as_bytes()).then_some(Found {
                start,
                end: start + spelling.len(),
                token: *token,
            })
        })
    }
}
