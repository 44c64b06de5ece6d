//! Plain chat completions: a conversation in, text out; no persona, no segments.

use std::sync::Arc;

use super::completion::{CompletionStream, Submission, rejected, submit};
use super::{RejectionCause, ServedModel};
use crate::engine::GenerateRequest;
use crate::telemetry::Metrics;
use crate::template::Message;

/// A conversation to continue; validated by whoever built it.
#[derive(Clone, Debug)]
pub struct ChatRequest {
    /// The conversation; at least one message.
    pub messages: Vec<Message>,
    /// Number of answers.
    pub n: usize,
    /// How to go on; its own prompt is of no interest.
    pub options: GenerateRequest,
}

/// Why a chat completion was not accepted.
pub type ChatError = RejectionCause;

/// Renders the conversation with the model's template and submits it.
///
/// # Errors
/// The template's or the engine's refusal; it is counted and nothing runs.
pub fn chat(
    model: &ServedModel,
    metrics: &Arc<Metrics>,
    request: ChatRequest,
) -> Result<CompletionStream, ChatError> {
    let rendered = model.template.render(&request.messages);
    let stream = rendered.map_err(RejectionCause::from).and_then(|prompt| {
        let prompt = Submission {
            text: String::new(),
            tokens: prompt.tokens,
            opened: false,
            seed_offset: 0,
        };
        submit(
            model,
            metrics,
            std::iter::once(prompt),
            request.n,
            &request.options,
        )
    });
    stream.map_err(|cause| rejected(metrics, cause))
}

#[cfg(test)]
#[path = "chat_tests.rs"]
mod tests;
