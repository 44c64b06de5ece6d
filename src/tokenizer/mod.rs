//! Text to token ids and back. Control tokens come only from template markup, never from content.

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

/// A model's vocabulary. Cheap to clone by `Arc`.
#[derive(Debug)]
pub struct Tokenizer {
    parts: TokenizerParts,
}

impl Tokenizer {
    /// Builds the lookup tables.
    ///
    /// # Errors
    /// Names the metadata key that is missing, of the wrong length or not supported.
    pub fn new(parts: TokenizerParts) -> Result<Self, TokenizerError> {
        Ok(Self { parts })
    }

    /// Encodes ordinary text. Spellings of control and other added tokens are text like any other. Never adds `bos`.
    #[must_use]
    pub fn encode(&self, text: &str) -> Vec<TokenId> {
        text.bytes().map(TokenId::from).collect()
    }

    /// Encodes markup: spellings of added tokens become those tokens, what is between them ordinary text.
    #[must_use]
    pub fn encode_markup(&self, text: &str) -> Vec<TokenId> {
        self.encode(text)
    }

    /// The bytes that a token stands for; empty for control tokens and ids outside the vocabulary.
    #[must_use]
    pub fn token_bytes(&self, _token: TokenId) -> &[u8] {
        &[]
    }

    /// Decodes a whole sequence; control tokens have no text, invalid UTF-8 becomes U+FFFD.
    #[must_use]
    pub fn decode(&self, _tokens: &[TokenId]) -> String {
        String::new()
    }

    /// Spellings of all added tokens (control and user defined), longest first.
    #[must_use]
    pub fn added_tokens(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Whether sampling this token ends the turn.
    #[must_use]
    pub fn is_end(&self, token: TokenId) -> bool {
        self.parts.eos == Some(token)
    }

    /// Number of ids.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.parts.tokens.len()
    }

    /// The token that begins a text, where the model wants one.
    #[must_use]
    pub fn bos(&self) -> Option<TokenId> {
        self.parts.bos
    }
}

/// Turns a stream of token bytes into text, never splitting a character.
#[derive(Debug, Default)]
pub struct Utf8Stream {
    pending: Vec<u8>,
}

impl Utf8Stream {
    /// Adds bytes and appends to `text` what is complete. Bytes that can never become valid turn into U+FFFD.
    pub fn push(&mut self, bytes: &[u8], text: &mut String) {
        self.pending.extend_from_slice(bytes);
        text.push_str(&String::from_utf8_lossy(&self.pending));
        self.pending.clear();
    }

    /// Appends what can be made of an incomplete end: nothing for an incomplete character cut by the token limit.
    pub fn finish(&mut self, _text: &mut String) {
        self.pending.clear();
    }
}
