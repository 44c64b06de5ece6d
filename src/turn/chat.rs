//! Plain chat completions: a conversation in, text out; no persona, no segments.

use std::sync::Arc;
use std::time::Instant;

use super::{RejectionCause, ServedModel};
use crate::engine::{
    Finish, FinishReason, GenerateRequest, Priority, Sampling, TokenEvent, TokenStream,
};
use crate::telemetry::events::ChatRejected;
use crate::telemetry::{ChatMeter, Metrics, Outcome};
use crate::template::Message;

/// A conversation to continue; validated by whoever built it.
#[derive(Clone, Debug, Default)]
pub struct ChatRequest {
    /// The conversation; at least one message.
    pub messages: Vec<Message>,
    /// Most tokens to generate, at least 1; `None` is what the context leaves.
    pub max_tokens: Option<usize>,
    /// How the next token is chosen.
    pub sampling: Sampling,
    /// Texts that end generation; each non-empty.
    pub stop: Vec<String>,
    /// Who goes first when not everybody can.
    pub priority: Priority,
    /// When generation is ended.
    pub deadline: Option<Instant>,
}

/// Why a chat completion was not accepted.
pub type ChatError = RejectionCause;

/// What a chat completion yields, in order; `Finished` ends it.
#[derive(Clone, Debug, PartialEq)]
pub enum ChatEvent {
    /// Text that is final.
    Delta(String),
    /// The end, with token counts. An error is a reason of its own, never a normal end.
    Finished(Finish),
}

/// A chat completion being written. Dropping it cancels the generation at once.
#[derive(Debug)]
pub struct ChatStream {
    tokens: TokenStream,
    meter: ChatMeter,
    prompt_tokens: usize,
}

impl ChatStream {
    /// Tokens of the rendered prompt.
    #[must_use]
    pub fn prompt_tokens(&self) -> usize {
        self.prompt_tokens
    }

    /// The next event; `None` after `Finished`. The outcome is counted before `Finished` is given.
    pub async fn next(&mut self) -> Option<ChatEvent> {
        Some(match self.tokens.next().await? {
            TokenEvent::Text(text) => ChatEvent::Delta(text),
            TokenEvent::Finished(finish) => {
                self.meter.end(match finish.reason {
                    FinishReason::Stop => Outcome::Stop,
                    FinishReason::Length => Outcome::Length,
                    FinishReason::Deadline => Outcome::Deadline,
                    FinishReason::Error(_) => Outcome::Failed,
                });
                ChatEvent::Finished(finish)
            }
        })
    }
}

/// Renders the conversation with the model's template and submits it.
///
/// # Errors
/// The template's or the engine's refusal; it is counted and nothing runs.
pub fn chat(
    model: &ServedModel,
    metrics: &Arc<Metrics>,
    request: ChatRequest,
) -> Result<ChatStream, ChatError> {
    submit(model, metrics, request).inspect_err(|cause| {
        let reason = cause.reason();
        ChatRejected {
            reason,
            cause: cause.loggable(),
        }
        .emit(metrics);
    })
}

fn submit(
    model: &ServedModel,
    metrics: &Arc<Metrics>,
    request: ChatRequest,
) -> Result<ChatStream, ChatError> {
    let prompt = model.template.render(&request.messages)?;
    let prompt_tokens = prompt.tokens.len();
    let tokens = model.engine.generate(GenerateRequest {
        prompt: prompt.tokens,
        max_tokens: request.max_tokens,
        sampling: request.sampling,
        stop: request.stop,
        priority: request.priority,
        deadline: request.deadline,
    })?;
    Ok(ChatStream {
        tokens,
        meter: metrics.accept_chat(),
        prompt_tokens,
    })
}

#[cfg(test)]
#[path = "chat_tests.rs"]
mod tests;
