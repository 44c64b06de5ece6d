//! Text to token ids and back. Control tokens come only from template markup, never from content.
//!
//! Byte-level BPE, from the tables a model file carries: text is cut into words (`split`), each word is merged
//! (`bpe`), and what a model's template writes as control tokens is found beforehand (`added`).

mod added;
mod alphabet;
mod bpe;
mod split;
mod tables;
#[cfg(test)]
mod tests;
mod utf8;

use std::collections::HashMap;
use std::ops::Range;

pub use utf8::Utf8Stream;

use added::Added;
use bpe::{Merger, Merges};
use split::Splitter;

/// Id of a token in the model's vocabulary.
pub type TokenId = u32;

/// What a model file says of its tokenizer.
#[derive(Clone, Debug, Default)]
pub struct TokenizerParts {
    /// `tokenizer.ggml.model`: `gpt2` is byte-level BPE.
    pub model: String,
    /// `tokenizer.ggml.pre`: which rule splits text into words.
    pub pre: String,
    /// Spelling of each token, in the file's own alphabet (byte-level for BPE).
    pub tokens: Vec<String>,
    /// What each token is: 1 normal, 3 control, 4 user defined; as long as `tokens`.
    pub kinds: Vec<i32>,
    /// Merge rules, "left right", best first.
    pub merges: Vec<String>,
    /// Begins a text, where the model wants one.
    pub bos: Option<TokenId>,
    /// Ends a turn.
    pub eos: Option<TokenId>,
    /// Whether raw prompts start with `bos`.
    pub add_bos: bool,
}

/// A tokenizer that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct TokenizerError {
    /// The metadata key at fault.
    pub field: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

/// Spellings that end a turn in one family of models or another. A vocabulary that has one of them as an added token
/// means it so, whichever single id its metadata calls `eos`.
const END_OF_TURN: [&str; 9] = [
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<|eom_id|>",
    "<|end|>",
    "<|end_of_turn|>",
    "<end_of_turn>",
    "</s>",
];

/// A model's vocabulary. Cheap to clone by `Arc`.
#[derive(Debug)]
pub struct Tokenizer {
    splitter: Splitter,
    merges: Merges,
    /// The token of each single byte; a few vocabularies lack bytes that their training text never had.
    byte_tokens: [Option<TokenId>; 256],
    /// Words that are tokens whatever their merges say, where the model's rule is so.
    whole_words: HashMap<Vec<u8>, TokenId>,
    added: Added,
    bytes: TokenBytes,
    ends: Vec<TokenId>,
    bos: Option<TokenId>,
    bos_spelling: String,
    eos_spelling: String,
}

/// The bytes of all tokens, end to end.
#[derive(Debug)]
struct TokenBytes {
    text: Vec<u8>,
    /// Where each token's bytes end; they start where the token before ends.
    ends: Vec<usize>,
}

impl TokenBytes {
    fn get(&self, token: TokenId) -> &[u8] {
        let index = token as usize;
        let Some(&end) = self.ends.get(index) else {
            return &[];
        };
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..end]
    }
}

impl Tokenizer {
    /// Builds the lookup tables.
    ///
    /// # Errors
    /// Names the metadata key that is missing, of the wrong length or not supported.
    pub fn new(parts: TokenizerParts) -> Result<Self, TokenizerError> {
        let splitter = Splitter::named(&parts.model, &parts.pre)?;
        let index = tables::index(&parts)?;
        let bytes = tables::bytes(&parts)?;
        let merges = tables::merges(&parts, &index)?;
        let byte_tokens = tables::byte_tokens(&parts, &index);
        if byte_tokens.iter().all(Option::is_none) {
            return Err(tables::fault(
                tables::TOKENS,
                "holds no token of a single byte".to_owned(),
            ));
        }
        let whole_words = if splitter.prefers_whole_words() {
            tables::whole_words(&parts, &bytes)
        } else {
            HashMap::new()
        };
        let added = Added::new(&parts);
        let ends = END_OF_TURN
            .iter()
            .filter_map(|spelling| added.id(spelling))
            .chain(parts.eos)
            .collect();
        Ok(Self {
            splitter,
            merges,
            byte_tokens,
            whole_words,
            added,
            bytes,
            ends,
            bos: parts.bos.filter(|_| parts.add_bos),
            bos_spelling: tables::spelling(&parts, parts.bos),
            eos_spelling: tables::spelling(&parts, parts.eos),
        })
    }

    /// Encodes ordinary text. Spellings of control and other added tokens are text like any other. Never adds `bos`.
    ///
    /// Takes time in proportion to n log n for n bytes, whatever they are, and no stack. A byte that the vocabulary
    /// has no token for is left out.
    #[must_use]
    pub fn encode(&self, text: &str) -> Vec<TokenId> {
        let mut tokens = Vec::with_capacity(text.len() / 3 + 1);
        self.encode_into(text, &mut Merger::default(), &mut tokens);
        tokens
    }

    /// Encodes markup: spellings of added tokens become those tokens, what is between them ordinary text.
    #[must_use]
    pub fn encode_markup(&self, text: &str) -> Vec<TokenId> {
        let mut tokens = Vec::with_capacity(text.len() / 3 + 1);
        let mut merger = Merger::default();
        let mut rest = 0;
        for found in self.added.find_all(text) {
            self.encode_into(&text[rest..found.start], &mut merger, &mut tokens);
            tokens.push(found.token);
            rest = found.end;
        }
        self.encode_into(&text[rest..], &mut merger, &mut tokens);
        tokens
    }

    fn encode_into(&self, text: &str, merger: &mut Merger, tokens: &mut Vec<TokenId>) {
        self.splitter.each_word(text, |word| {
            if let Some(&token) = self.whole_words.get(word.as_bytes()) {
                tokens.push(token);
                return;
            }
            let bytes = word.bytes();
            let singles = bytes.filter_map(|byte| self.byte_tokens[usize::from(byte)]);
            merger.merge(singles, &self.merges, tokens);
        });
    }

    /// The bytes that a token stands for; empty for control tokens and ids outside the vocabulary.
    #[must_use]
    pub fn token_bytes(&self, token: TokenId) -> &[u8] {
        self.bytes.get(token)
    }

    /// Decodes a whole sequence; control tokens have no text, invalid UTF-8 becomes U+FFFD.
    #[must_use]
    pub fn decode(&self, tokens: &[TokenId]) -> String {
        let mut bytes = Vec::with_capacity(tokens.len() * 4);
        for &token in tokens {
            bytes.extend_from_slice(self.token_bytes(token));
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Spellings of all added tokens (control and user defined), longest first.
    #[must_use]
    pub fn added_tokens(&self) -> Vec<&str> {
        self.added.spellings()
    }

    /// Where added tokens are spelled in `text`, as [`Tokenizer::encode_markup`] reads it: byte ranges in order, none
    /// overlapping, each with its token.
    pub fn find_added(&self, text: &str) -> impl Iterator<Item = (Range<usize>, TokenId)> {
        let found = self.added.find_all(text);
        found.map(|found| (found.start..found.end, found.token))
    }

    /// How many bytes of `text` its tokens stand for: all but those that the vocabulary has no token for.
    #[must_use]
    pub fn encoded_len(&self, text: &str) -> usize {
        let known = |byte: &u8| self.byte_tokens[usize::from(*byte)].is_some();
        text.as_bytes().iter().filter(|byte| known(byte)).count()
    }

    /// Whether sampling this token ends the turn: the `eos` of the model file, and the other end-of-turn tokens
    /// known from published models (`<|im_end|>`, `<|endoftext|>`, `<|eot_id|>`, ...) where the vocabulary has them.
    #[must_use]
    pub fn is_end(&self, token: TokenId) -> bool {
        self.ends.contains(&token)
    }

    /// The tokens of which [`Tokenizer::is_end`] holds.
    #[must_use]
    pub fn end_tokens(&self) -> &[TokenId] {
        &self.ends
    }

    /// How an added token, which has no text of its own or none that merging makes, is spelled in markup.
    #[must_use]
    pub fn added_spelling(&self, token: TokenId) -> Option<&str> {
        self.added.spelling(token)
    }

    /// Number of ids.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.bytes.ends.len()
    }

    /// The token that a raw prompt begins with, where the model wants one. Templates write their own.
    #[must_use]
    pub fn bos(&self) -> Option<TokenId> {
        self.bos
    }

    /// How the templates' variable `bos_token` is spelled; empty where the model has none.
    #[must_use]
    pub fn bos_spelling(&self) -> &str {
        &self.bos_spelling
    }

    /// How the templates' variable `eos_token` is spelled; empty where the model has none.
    #[must_use]
    pub fn eos_spelling(&self) -> &str {
        &self.eos_spelling
    }
}
