//! Tokens and their likelihoods as people and programs read them.

use crate::engine::TokenLogprob;
use crate::tokenizer::{TokenId, Tokenizer};

/// A token, spelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spelled {
    /// Its text. A token that is no text by itself, such as a part of a character, is written `bytes:\xe4\xbd`; a
    /// control token as in markup.
    pub text: String,
    /// The bytes that it stands for; `None` for control tokens, which stand for none.
    pub bytes: Option<Vec<u8>>,
}

impl Spelled {
    pub(super) fn new(token: TokenId, tokenizer: &Tokenizer) -> Self {
        let bytes = tokenizer.token_bytes(token);
        if bytes.is_empty() {
            let spelling = tokenizer.added_spelling(token).unwrap_or_default();
            return Self {
                text: spelling.to_owned(),
                bytes: None,
            };
        }
        let text = std::str::from_utf8(bytes).map_or_else(|_| escaped(bytes), str::to_owned);
        Self {
            text,
            bytes: Some(bytes.to_vec()),
        }
    }

    /// A token that the text does not show.
    pub(super) fn nothing() -> Self {
        Self {
            text: String::new(),
            bytes: None,
        }
    }
}

fn escaped(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("\\x{byte:02x}"));
    std::iter::once("bytes:".to_owned()).chain(digits).collect()
}

/// A token and how likely the model found it where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoredToken {
    /// The token.
    pub token: Spelled,
    /// Its log-probability; `None` for a prompt's first token, before which there is nothing.
    pub logprob: Option<f32>,
    /// The most likely tokens in its place, most likely first.
    pub top: Vec<(Spelled, f32)>,
}

impl ScoredToken {
    pub(super) fn new(score: &TokenLogprob, tokenizer: &Tokenizer) -> Self {
        let top = score.top.as_slice().iter();
        Self {
            token: Spelled::new(score.token, tokenizer),
            logprob: Some(score.logprob),
            top: top
                .map(|(token, logprob)| (Spelled::new(*token, tokenizer), *logprob))
                .collect(),
        }
    }

    /// The token that a prompt begins with.
    pub(super) fn first(token: Spelled) -> Self {
        Self {
            token,
            logprob: None,
            top: Vec::new(),
        }
    }
}

/// The text of a prompt that was given as tokens: control tokens spelled as in markup, as they would be given in text.
pub(super) fn prompt_text(tokens: &[TokenId], tokenizer: &Tokenizer) -> String {
    let mut bytes = Vec::new();
    for token in tokens {
        match tokenizer.token_bytes(*token) {
            [] => {
                let spelling = tokenizer.added_spelling(*token).unwrap_or_default();
                bytes.extend_from_slice(spelling.as_bytes());
            }
            text => bytes.extend_from_slice(text),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
