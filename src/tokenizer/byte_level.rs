//! Byte-level BPE: text is cut into words, and the bytes of each are merged.

use std::borrow::Cow;
use std::collections::HashMap;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use super::bpe::{Merger, Merges};
use super::decode::TokenBytes;
use super::split::Splitter;
use super::{TokenId, TokenizerError, TokenizerParts, tables};

/// The tables of a byte-level vocabulary.
#[derive(Debug)]
pub(super) struct ByteLevel {
    splitter: Splitter,
    /// Whether text is brought to Unicode's form C first.
    nfc: bool,
    merges: Merges,
    /// The token of each single byte; a few vocabularies lack bytes that their training text never had.
    byte_tokens: [Option<TokenId>; 256],
    /// Words that are tokens whatever their merges say, where the model's rule is so.
    whole_words: HashMap<Vec<u8>, TokenId>,
}

impl ByteLevel {
    pub(super) fn new(
        splitter: Splitter,
        parts: &TokenizerParts,
        index: &HashMap<&str, TokenId>,
        bytes: &TokenBytes,
    ) -> Result<Self, TokenizerError> {
        let merges = tables::merges(parts, index)?;
        let byte_tokens = tables::byte_tokens(parts, index);
        if byte_tokens.iter().all(Option::is_none) {
            let reason = "holds no token of a single byte";
            return Err(TokenizerError::at(tables::TOKENS, reason));
        }
        let whole = parts
            .whole_words
            .unwrap_or_else(|| splitter.prefers_whole_words());
        let whole_words = if whole {
            tables::whole_words(parts, bytes)
        } else {
            HashMap::new()
        };
        Ok(Self {
            splitter,
            nfc: parts.nfc.unwrap_or_else(|| splitter.composes()),
            merges,
            byte_tokens,
            whole_words,
        })
    }

    pub(super) fn encode(&self, text: &str, merger: &mut Merger, tokens: &mut Vec<TokenId>) {
        self.splitter.each_word(&self.normal(text), |word| {
            if let Some(&token) = self.whole_words.get(word.as_bytes()) {
                tokens.push(token);
                return;
            }
            let bytes = word.bytes();
            let singles = bytes.filter_map(|byte| self.byte_tokens[usize::from(byte)]);
            merger.merge(singles, &self.merges, tokens);
        });
    }

    pub(super) fn encoded_len(&self, text: &str) -> usize {
        let known = |byte: &u8| self.byte_tokens[usize::from(*byte)].is_some();
        let text = self.normal(text);
        text.as_bytes().iter().filter(|byte| known(byte)).count()
    }

    fn normal<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.nfc || text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes {
            return text.into();
        }
        text.nfc().collect::<String>().into()
    }
}
