//! What model files say of their tokenizers, whichever file it is: the input of [`super::Tokenizer::new`].

use std::borrow::Cow;

use super::TokenId;

/// A vocabulary and the rules for its use.
#[derive(Clone, Debug, Default)]
pub struct TokenizerParts {
    /// `tokenizer.ggml.model`: `gpt2` is byte-level BPE, `llama` merges pieces of characters (SentencePiece).
    pub model: String,
    /// `tokenizer.ggml.pre`: which rule splits text into words.
    pub pre: String,
    /// Spelling of each token, in the file's own alphabet (byte-level for BPE, `▁` for a space in pieces).
    pub tokens: Vec<String>,
    /// What each token is: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 a byte; as long as `tokens`.
    pub kinds: Vec<i32>,
    /// How early a piece is made, larger first; as long as `tokens`. Pieces only, where there are no `merges`.
    pub scores: Vec<f32>,
    /// Merge rules, "left right", best first.
    pub merges: Vec<String>,
    /// Begins a text, where the model wants one.
    pub bos: Option<TokenId>,
    /// Ends a turn.
    pub eos: Option<TokenId>,
    /// Further tokens that end a turn.
    pub ends: Vec<TokenId>,
    /// Stands for what the vocabulary has no token for. Pieces only.
    pub unknown: Option<TokenId>,
    /// Whether raw prompts start with `bos`.
    pub add_bos: bool,
    /// How pieces treat spaces.
    pub spaces: Spaces,
    /// Whether text is brought to Unicode's form C first; `None` is what `pre` implies.
    pub nfc: Option<bool>,
    /// Whether a word that is a token is that token whatever its merges give; `None` is what `pre` implies.
    pub whole_words: Option<bool>,
    /// Which file they come from.
    pub origin: Origin,
}

/// How a vocabulary of pieces treats spaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spaces {
    /// Where text gets a space in front.
    pub prefix: SpacePrefix,
    /// Whether text that begins with a space gets none in front.
    pub single_prefix: bool,
    /// Whether no piece holds a space but at its start.
    pub split: bool,
    /// Whether spaces at the ends are dropped and runs of them become one.
    pub squeeze: bool,
    /// Whether decoding drops one space at the start of a text.
    pub strip: bool,
}

/// Where text gets a space in front.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpacePrefix {
    /// Nowhere.
    #[default]
    Never,
    /// At the start of the whole text only.
    Start,
    /// At the start and after each added token.
    Segments,
}

/// Which file a vocabulary comes from, so that errors name its fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Metadata of a GGUF file.
    #[default]
    Gguf,
    /// A `tokenizer.json`.
    HfJson,
}

impl Origin {
    /// The name that this file gives to a field of GGUF's metadata.
    fn field(self, name: &'static str) -> Cow<'static, str> {
        if self == Self::Gguf {
            return name.into();
        }
        match name.strip_prefix("tokenizer.ggml.").unwrap_or(name) {
            "tokens" => "model.vocab".into(),
            "merges" => "model.merges".into(),
            "model" => "model.type".into(),
            "pre" => "pre_tokenizer".into(),
            "unknown_token_id" => "model.unk_token".into(),
            other => other.to_owned().into(),
        }
    }
}

/// A tokenizer that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct TokenizerError {
    /// The metadata key, or the place in a JSON file, at fault.
    pub field: Cow<'static, str>,
    /// What is wrong with it.
    pub reason: String,
}

impl TokenizerError {
    /// An error at a place.
    pub(super) fn at(field: impl Into<Cow<'static, str>>, reason: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            reason: reason.into(),
        }
    }

    /// The same error with its field named as the file has it.
    pub(super) fn named_by(self, origin: Origin) -> Self {
        let field = match self.field {
            Cow::Borrowed(name) => origin.field(name),
            owned @ Cow::Owned(_) => owned,
        };
        Self { field, ..self }
    }
}
