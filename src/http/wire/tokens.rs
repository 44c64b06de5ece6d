//! The bodies of `POST /tokenize` and `POST /detokenize`.

use serde_json::Value;

use super::chat::messages;
use crate::http::error::ApiError;
use crate::http::fields::Fields;
use crate::turn::Message;

/// A parsed request for token ids.
#[derive(Debug)]
pub(in crate::http) struct TokenizeCall {
    /// The model asked for; empty is the default.
    pub(in crate::http) model: String,
    /// What to encode.
    pub(in crate::http) source: Source,
}

/// What to encode.
#[derive(Debug)]
pub(in crate::http) enum Source {
    /// A text in which no spelling is special.
    Content(String),
    /// A text in which spellings of control tokens are those tokens.
    Markup(String),
    /// A conversation, at least one message.
    Messages(Vec<Message>),
}

impl TokenizeCall {
    /// Reads and checks a body.
    pub(in crate::http) fn read(body: Value) -> Result<Self, ApiError> {
        let mut root = Fields::root(body)?;
        let model = root.string("model")?.unwrap_or_default();
        let special = root.flag("parse_special")?.unwrap_or(false);
        if root.has("content") && root.has("messages") {
            return Err(root.invalid("messages", "and content exclude each other"));
        }
        let source = if root.has("messages") {
            if special {
                let expected = "is only for content: the template alone writes control tokens";
                return Err(root.invalid("parse_special", expected));
            }
            Source::Messages(messages(&mut root)?)
        } else {
            let text = root
                .string("content")?
                .ok_or_else(|| root.missing("content"))?;
            if special {
                Source::Markup(text)
            } else {
                Source::Content(text)
            }
        };
        root.finish()?;
        Ok(Self { model, source })
    }
}

/// A parsed request for text.
#[derive(Debug)]
pub(in crate::http) struct DetokenizeCall {
    /// The model asked for; empty is the default.
    pub(in crate::http) model: String,
    /// Each with its place in the body.
    tokens: Vec<(String, Value)>,
}

impl DetokenizeCall {
    /// Reads and checks a body; its tokens are checked where the vocabulary is known.
    pub(in crate::http) fn read(body: Value) -> Result<Self, ApiError> {
        let mut root = Fields::root(body)?;
        let model = root.string("model")?.unwrap_or_default();
        let given = root.has("tokens");
        let tokens = root.list("tokens", usize::MAX)?;
        if !given {
            return Err(root.missing("tokens"));
        }
        root.finish()?;
        Ok(Self { model, tokens })
    }

    /// The ids, each below `count`.
    pub(in crate::http) fn tokens(self, count: usize) -> Result<Vec<u32>, ApiError> {
        let id = |(path, value): (String, Value)| {
            let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
            let known = id.filter(|&id| (id as usize) < count);
            known.ok_or_else(|| {
                let expected = format!("must be a token id from 0 to {}", count.saturating_sub(1));
                ApiError::invalid(path, &expected)
            })
        };
        self.tokens.into_iter().map(id).collect()
    }
}
