//! Text to token ids and back. Control tokens come only from template markup, never from content.
//!
//! Two families of vocabularies, from the tables that a model's files carry (`parts`; `hf` reads a `tokenizer.json`):
//! byte-level BPE cuts text into words (`split`) and merges the bytes of each (`byte_level`), SentencePiece's merges
//! the characters of a whole text (`pieces`); both by `bpe`. What a model's template writes as control tokens is
//! found beforehand (`added`).

mod added;
mod alphabet;
mod bpe;
mod byte_level;
mod decode;
mod hf;
mod parts;
mod pieces;
mod split;
mod tables;
#[cfg(test)]
mod tests;
mod utf8;

use std::ops::Range;

pub use decode::Decoder;
pub use hf::HfConfig;
pub use parts::{Origin, SpacePrefix, Spaces, TokenizerError, TokenizerParts};
pub use utf8::Utf8Stream;

use added::Added;
use bpe::Merger;
use byte_level::ByteLevel;
use decode::TokenBytes;
use pieces::Pieces;

/// Id of a token in the model's vocabulary.
pub type TokenId = u32;

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
    scheme: Scheme,
    added: Added,
    bytes: TokenBytes,
    /// Whether decoding drops one space at the start of a text.
    strip: bool,
    ends: Vec<TokenId>,
    bos: Option<TokenId>,
    bos_spelling: String,
    eos_spelling: String,
}

/// How ordinary text becomes tokens.
#[derive(Debug)]
enum Scheme {
    Bytes(ByteLevel),
    Pieces(Pieces),
}

/// Where a stretch of ordinary text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It is the start of the whole text.
    Start,
    /// An added token comes before it.
    AfterAdded,
}

impl Tokenizer {
    /// Builds the lookup tables.
    ///
    /// # Errors
    /// Names the metadata key that is missing, of the wrong length or not supported.
    pub fn new(parts: TokenizerParts) -> Result<Self, TokenizerError> {
        Self::build(&parts).map_err(|error| error.named_by(parts.origin))
    }

    /// Builds a tokenizer from the bytes of a `tokenizer.json`. What ends a text or begins one is in another file, see
    /// [`HfConfig`].
    ///
    /// # Errors
    /// Names the place in the JSON that is missing, wrong or not supported.
    pub fn from_hf_json(json: &[u8]) -> Result<Self, TokenizerError> {
        Self::new(TokenizerParts::from_hf_json(json)?)
    }

    fn build(parts: &TokenizerParts) -> Result<Self, TokenizerError> {
        let pieces = match parts.model.as_str() {
            "gpt2" => false,
            "llama" => true,
            other => {
                let reason = format!(
                    "`{other}` is not supported, only `gpt2` (byte-level BPE) and `llama` (SentencePiece)"
                );
                return Err(TokenizerError::at(tables::MODEL, reason));
            }
        };
        let (bytes, scheme) = if pieces {
            pieces::check_rule(&parts.pre)?;
            let index = tables::index(parts)?;
            let bytes = tables::piece_bytes(parts)?;
            (bytes, Scheme::Pieces(Pieces::new(parts, &index)?))
        } else {
            let splitter = split::Splitter::named(&parts.pre)?;
            let index = tables::index(parts)?;
            let bytes = tables::bytes(parts)?;
            let scheme = ByteLevel::new(splitter, parts, &index, &bytes)?;
            (bytes, Scheme::Bytes(scheme))
        };
        let added = Added::new(parts);
        let ends = END_OF_TURN
            .iter()
            .filter_map(|spelling| added.id(spelling))
            .chain(parts.eos)
            .chain(parts.ends.iter().copied())
            .collect();
        Ok(Self {
            scheme,
            added,
            bytes,
            strip: pieces && parts.spaces.strip,
            ends,
            bos: parts.bos.filter(|_| parts.add_bos),
            bos_spelling: tables::spelling(parts, parts.bos),
            eos_spelling: tables::spelling(parts, parts.eos),
        })
    }

    /// Encodes ordinary text. Spellings of control tokens, and of other added tokens that look like markup, are text
    /// like any other. Never adds `bos`; a vocabulary of pieces may put a space in front.
    ///
    /// Takes time in proportion to n log n for n bytes, whatever they are, and no stack. What the vocabulary has no
    /// token for becomes its token for the unknown, and where it has none, nothing.
    #[must_use]
    pub fn encode(&self, text: &str) -> Vec<TokenId> {
        self.encode_at(text, Place::Start)
    }

    /// As [`Tokenizer::encode`], of text that follows an added token.
    #[must_use]
    pub fn encode_continued(&self, text: &str) -> Vec<TokenId> {
        self.encode_at(text, Place::AfterAdded)
    }

    fn encode_at(&self, text: &str, place: Place) -> Vec<TokenId> {
        let mut tokens = Vec::with_capacity(text.len() / 3 + 1);
        self.encode_into(text, place, &mut Merger::default(), &mut tokens);
        tokens
    }

    /// Encodes markup: spellings of added tokens become those tokens, what is between them ordinary text.
    #[must_use]
    pub fn encode_markup(&self, text: &str) -> Vec<TokenId> {
        let mut tokens = Vec::with_capacity(text.len() / 3 + 1);
        let mut merger = Merger::default();
        let (mut rest, mut place) = (0, Place::Start);
        for found in self.added.find_all(text) {
            self.encode_into(&text[rest..found.start], place, &mut merger, &mut tokens);
            tokens.push(found.token);
            (rest, place) = (found.end, Place::AfterAdded);
        }
        self.encode_into(&text[rest..], place, &mut merger, &mut tokens);
        tokens
    }

    fn encode_into(
        &self,
        text: &str,
        place: Place,
        merger: &mut Merger,
        tokens: &mut Vec<TokenId>,
    ) {
        match &self.scheme {
            Scheme::Bytes(scheme) => scheme.encode(text, merger, tokens),
            Scheme::Pieces(scheme) => scheme.encode(text, place, merger, tokens),
        }
    }

    /// The bytes that a token stands for; empty for control tokens and ids outside the vocabulary.
    #[must_use]
    pub fn token_bytes(&self, token: TokenId) -> &[u8] {
        self.bytes.get(token)
    }

    /// The bytes of a token that a text begins with: without the space that encoding puts in front, where it does.
    #[must_use]
    pub fn first_token_bytes(&self, token: TokenId) -> &[u8] {
        let bytes = self.bytes.get(token);
        match bytes {
            [b' ', rest @ ..] if self.strip => rest,
            _ => bytes,
        }
    }

    /// The bytes of the next token of a text; `begun` tells whether one before it had any.
    fn next_bytes(&self, token: TokenId, begun: &mut bool) -> &[u8] {
        if *begun {
            return self.token_bytes(token);
        }
        *begun = !self.token_bytes(token).is_empty();
        self.first_token_bytes(token)
    }

    /// Decodes a whole sequence; control tokens have no text, invalid UTF-8 becomes U+FFFD.
    #[must_use]
    pub fn decode(&self, tokens: &[TokenId]) -> String {
        let mut bytes = Vec::with_capacity(tokens.len() * 4);
        let mut begun = false;
        for &token in tokens {
            bytes.extend_from_slice(self.next_bytes(token, &mut begun));
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Decodes a sequence token by token.
    #[must_use]
    pub fn decoder(&self) -> Decoder<'_> {
        Decoder::new(self)
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

    /// How many bytes its tokens stand for if `text` is encoded, without a space that encoding puts in front: all but
    /// those that the vocabulary has no token for.
    #[must_use]
    pub fn encoded_len(&self, text: &str) -> usize {
        match &self.scheme {
            Scheme::Bytes(scheme) => scheme.encoded_len(text),
            Scheme::Pieces(scheme) => scheme.encoded_len(text),
        }
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
        self.bytes.count()
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
