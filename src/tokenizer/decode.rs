//! Tokens back to text, at once or as they come.

use super::{TokenId, Tokenizer, Utf8Stream};

/// The bytes of all tokens, end to end.
#[derive(Debug, Default)]
pub(super) struct TokenBytes {
    text: Vec<u8>,
    /// Where each token's bytes end; they start where the token before ends.
    ends: Vec<usize>,
}

impl TokenBytes {
    pub(super) fn with_capacity(count: usize) -> Self {
        Self {
            text: Vec::with_capacity(count * 6),
            ends: Vec::with_capacity(count),
        }
    }

    /// Adds bytes to the token that comes next.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
    }

    /// Ends the token.
    pub(super) fn end(&mut self) {
        self.ends.push(self.text.len());
    }

    /// Empty for ids outside the vocabulary.
    pub(super) fn get(&self, token: TokenId) -> &[u8] {
        let index = token as usize;
        let Some(&end) = self.ends.get(index) else {
            return &[];
        };
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..end]
    }

    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }
}

/// Turns tokens into text as they come: whole characters only, and without the space that encoding put in front.
#[derive(Debug)]
pub struct Decoder<'a> {
    tokenizer: &'a Tokenizer,
    utf8: Utf8Stream,
    /// Whether a token has had text.
    begun: bool,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer) -> Self {
        Self {
            tokenizer,
            utf8: Utf8Stream::default(),
            begun: false,
        }
    }

    /// Adds a token and appends to `text` what is complete.
    pub fn push(&mut self, token: TokenId, text: &mut String) {
        let bytes = self.tokenizer.next_bytes(token, &mut self.begun);
        self.utf8.push(bytes, text);
    }

    /// Ends the text: an incomplete character is dropped.
    pub fn finish(mut self, text: &mut String) {
        self.utf8.finish(text);
    }
}
