//! SentencePiece's merges of characters, as Llama 2, Mistral and Gemma use them: a whole text is one word in which
//! spaces are `▁`, the best piece is made first, and characters without a piece fall back to byte tokens.

use std::collections::HashMap;

use super::added::{Added, BYTE, CONTROL, UNKNOWN, USER_DEFINED};
use super::bpe::{Merger, Merges};
use super::tables::{self, SPACE, fault};
use super::{Place, SpacePrefix, Spaces, TokenId, TokenizerError, TokenizerParts};

const SCORES: &str = "tokenizer.ggml.scores";

/// A vocabulary of pieces has no rule for words.
pub(super) fn check_rule(pre: &str) -> Result<(), TokenizerError> {
    if matches!(pre, "" | "default") {
        return Ok(());
    }
    let reason = format!("`{pre}` is not supported with the model `llama`, only `default`");
    Err(TokenizerError::at("tokenizer.ggml.pre", reason))
}

/// The tables of a vocabulary of pieces.
#[derive(Debug)]
pub(super) struct Pieces {
    spaces: Spaces,
    merges: Merges,
    /// Pieces of one character.
    singles: HashMap<char, TokenId>,
    byte_tokens: [Option<TokenId>; 256],
    unknown: Option<TokenId>,
    /// User-defined pieces that content may hold. They are taken whole before anything is merged.
    symbols: Added,
    /// Number of ids. While merging, `count` plus a code point stands for a character without a piece.
    count: TokenId,
}

impl Pieces {
    pub(super) fn new(
        parts: &TokenizerParts,
        index: &HashMap<&str, TokenId>,
    ) -> Result<Self, TokenizerError> {
        let merges = if parts.merges.is_empty() {
            merges_by_score(parts, index)?
        } else {
            tables::merges(parts, index)?
        };
        let count = TokenId::try_from(parts.tokens.len()).unwrap_or(TokenId::MAX);
        if count > TokenId::MAX - u32::from(char::MAX) {
            return Err(fault(
                tables::TOKENS,
                format!("{count} tokens are too many"),
            ));
        }
        let each = || (0..).zip(parts.tokens.iter().zip(&parts.kinds));
        let mut byte_tokens = [None; 256];
        let mut singles = HashMap::new();
        let mut symbols = Vec::new();
        let mut unknown = None;
        for (id, (piece, &kind)) in each() {
            match kind {
                BYTE => {
                    if let Some(byte) = tables::spelled_byte(piece) {
                        byte_tokens[usize::from(byte)] = Some(id);
                    }
                }
                UNKNOWN => unknown = unknown.or(Some(id)),
                CONTROL => {}
                USER_DEFINED => {
                    if !looks_like_markup(piece) {
                        symbols.push((piece.clone(), id));
                    }
                }
                _ => {
                    let mut chars = piece.chars();
                    if let (Some(single), None) = (chars.next(), chars.next()) {
                        singles.insert(single, id);
                    }
                }
            }
        }
        Ok(Self {
            spaces: parts.spaces.clone(),
            merges,
            singles,
            byte_tokens,
            unknown: parts.unknown.or(unknown),
            symbols: Added::of(symbols),
            count,
        })
    }

    pub(super) fn encode(
        &self,
        text: &str,
        place: Place,
        merger: &mut Merger,
        tokens: &mut Vec<TokenId>,
    ) {
        let text = self.normal(text, place);
        let mut rest = 0;
        for found in self.symbols.find_all(&text) {
            self.encode_between(&text[rest..found.start], merger, tokens);
            tokens.push(found.token);
            rest = found.end;
        }
        self.encode_between(&text[rest..], merger, tokens);
    }

    /// The text that is merged: spaces in front, in between and at the end as the vocabulary has them.
    fn normal(&self, text: &str, place: Place) -> String {
        let mut normal = String::with_capacity(text.len() + text.len() / 4 + 3);
        let is_space = |c: char| c == ' ' || c == SPACE;
        let text = if self.spaces.squeeze {
            text.trim_matches(' ')
        } else {
            text
        };
        let prefixed = match self.spaces.prefix {
            SpacePrefix::Never => false,
            SpacePrefix::Start => place == Place::Start,
            SpacePrefix::Segments => true,
        };
        let has_one = self.spaces.single_prefix && text.starts_with(is_space);
        if prefixed && !text.is_empty() && !has_one {
            normal.push(SPACE);
        }
        let mut after_space = false;
        for c in text.chars() {
            if !(self.spaces.squeeze && after_space && c == ' ') {
                normal.push(if c == ' ' { SPACE } else { c });
            }
            after_space = c == ' ';
        }
        normal
    }

    /// Merges a stretch without user-defined pieces.
    fn encode_between(&self, text: &str, merger: &mut Merger, tokens: &mut Vec<TokenId>) {
        if !self.spaces.split {
            return self.merge(text, merger, tokens);
        }
        let mut rest = text;
        while !rest.is_empty() {
            let first = rest.chars().next().map_or(0, char::len_utf8);
            let end = rest[first..]
                .find(SPACE)
                .map_or(rest.len(), |at| at + first);
            self.merge(&rest[..end], merger, tokens);
            rest = &rest[end..];
        }
    }

    fn merge(&self, text: &str, merger: &mut Merger, tokens: &mut Vec<TokenId>) {
        let symbol = |c: char| {
            let single = self.singles.get(&c).copied();
            single.unwrap_or(self.count + u32::from(c))
        };
        let start = tokens.len();
        merger.merge(text.chars().map(symbol), &self.merges, tokens);
        let unknown = |token: &TokenId| *token >= self.count;
        let Some(first) = tokens[start..].iter().position(unknown) else {
            return;
        };
        let symbols = tokens.split_off(start + first);
        let mut before_unknown = false;
        for symbol in symbols {
            let code = symbol.checked_sub(self.count);
            match code.and_then(char::from_u32) {
                None => {
                    tokens.push(symbol);
                    before_unknown = false;
                }
                Some(c) => before_unknown = self.fall_back(c, before_unknown, tokens),
            }
        }
    }

    /// A character without a piece: its bytes, or the token for the unknown, which stands for all that follow each
    /// other. Returns whether it was that.
    fn fall_back(&self, c: char, before_unknown: bool, tokens: &mut Vec<TokenId>) -> bool {
        let mut utf8 = [0; 4];
        let bytes = c.encode_utf8(&mut utf8).as_bytes();
        let start = tokens.len();
        tokens.extend(
            bytes
                .iter()
                .filter_map(|&byte| self.byte_tokens[usize::from(byte)]),
        );
        if tokens.len() - start == bytes.len() {
            return false;
        }
        tokens.truncate(start);
        if !before_unknown {
            tokens.extend(self.unknown);
        }
        true
    }

    pub(super) fn encoded_len(&self, text: &str) -> usize {
        let length = |c: char| {
            let shown = if c == SPACE { ' ' } else { c };
            let piece = if c == ' ' { SPACE } else { c };
            let mut utf8 = [0; 4];
            let mut bytes = c.encode_utf8(&mut utf8).bytes();
            let known = self.singles.contains_key(&piece)
                || bytes.all(|byte| self.byte_tokens[usize::from(byte)].is_some());
            if known { shown.len_utf8() } else { 0 }
        };
        text.chars().map(length).sum()
    }
}

/// Whether a user-defined piece could be mistaken for what a template writes: such a piece is never made of content.
fn looks_like_markup(piece: &str) -> bool {
    let pairs = [('<', '>'), ('[', ']'), ('{', '}')];
    pairs
        .iter()
        .any(|&(open, close)| piece.starts_with(open) && piece.ends_with(close))
}

/// The rules that scores stand for: each way to make a piece of two others, ranked by the score of the whole.
fn merges_by_score(
    parts: &TokenizerParts,
    index: &HashMap<&str, TokenId>,
) -> Result<Merges, TokenizerError> {
    let count = parts.tokens.len();
    if parts.scores.len() != count {
        let reason = format!("{} entries for {count} tokens", parts.scores.len());
        return Err(fault(SCORES, reason));
    }
    if let Some(id) = parts.scores.iter().position(|score| !score.is_finite()) {
        return Err(fault(
            SCORES,
            format!("token {id} has {}", parts.scores[id]),
        ));
    }
    // Equal scores share a rank.
    let mut order = parts.scores.clone();
    order.sort_by(|a, b| b.total_cmp(a));
    order.dedup();
    let mergeable = |id: TokenId| {
        !matches!(
            parts.kinds[id as usize],
            CONTROL | UNKNOWN | USER_DEFINED | BYTE
        )
    };
    let mut merges = Merges::with_capacity(count);
    for (whole, piece) in (0..).zip(&parts.tokens) {
        if !mergeable(whole) {
            continue;
        }
        let score = parts.scores[whole as usize];
        let rank = order.partition_point(|&better| better > score);
        let rank = u32::try_from(rank).unwrap_or(u32::MAX);
        for (at, _) in piece.char_indices().skip(1) {
            let (left, right) = piece.split_at(at);
            if let (Some(&left), Some(&right)) = (index.get(left), index.get(right))
                && mergeable(left)
                && mergeable(right)
            {
                merges.push_ranked(rank, left, right, whole);
            }
        }
    }
    Ok(merges)
}
