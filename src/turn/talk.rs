//! What is said to the model, round after round: the conversation, rendered and submitted.

use std::sync::Arc;
use std::time::Instant as Clock;

use serde_json::Value;
use tokio::time::Instant;

use super::output::Format;
use super::{RejectionCause, ServedModel};
use crate::engine::{GenerateRequest, Priority, Sampling, TokenStream};
use crate::harness::Calls;
use crate::telemetry::Metrics;
use crate::telemetry::stages::Stage;
use crate::template::{Conversation, Message};

/// Tokens that one character may take, and those that end an answer.
const TOKENS_PER_CHAR: usize = 3;
const SPARE_TOKENS: usize = 16;
/// Tokens that a round of calls may take beside an answer.
const CALL_TOKENS: usize = 256;
/// What a template opens an answer with where the model is to think first.
const THINK: &str = "<think>";
/// Tokens at the end of a prompt in which that stands.
const OPENING_TOKENS: usize = 12;

/// How a model writes calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habit {
    pub(super) format: Format,
    pub(super) calls: Calls,
}

impl Habit {
    /// What a model's template shows of it.
    pub(super) fn of(model: &ServedModel) -> Self {
        let format = Format::of_template(model.template.source());
        let calls = match format {
            Format::None => Calls::None,
            _ if model.template.takes_tools() => Calls::Native,
            _ => Calls::Taught,
        };
        Self { format, calls }
    }
}

/// A conversation with the model.
pub(super) struct Talk {
    pub(super) model: ServedModel,
    pub(super) metrics: Arc<Metrics>,
    pub(super) messages: Vec<Message>,
    /// What the chat template is given as `tools`.
    pub(super) tools: Vec<Value>,
    /// Whether the model may call something.
    pub(super) may_call: bool,
}

/// How an answer is to be generated.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// Most characters of it.
    pub(super) max_chars: usize,
    /// Most tokens of it, whatever its characters take.
    pub(super) most_tokens: usize,
    pub(super) sampling: Sampling,
    pub(super) priority: Priority,
    pub(super) deadline: Instant,
}

/// A generation that the engine has taken.
pub(super) struct Generation {
    pub(super) tokens: TokenStream,
    pub(super) prompt_tokens: usize,
    /// Whether the prompt ends inside the model's reasoning.
    pub(super) thinking: bool,
}

impl Talk {
    /// Renders the conversation and submits it.
    pub(super) fn generate(&self, order: &Order) -> Result<Generation, RejectionCause> {
        let start = Clock::now();
        let prompt = self.model.template.render_conversation(&Conversation {
            messages: &self.messages,
            tools: &self.tools,
            variables: None,
        })?;
        self.metrics.stage(Stage::Render, start.elapsed());
        let prompt = prompt.tokens;
        let prompt_tokens = prompt.len();
        let thinking = self.opens_reasoning(&prompt);
        let limits = self.model.engine.limits();
        let room = limits.max_sequence_tokens.saturating_sub(prompt_tokens);
        let calls = if self.may_call { CALL_TOKENS } else { 0 };
        let wanted = order.max_chars * TOKENS_PER_CHAR + SPARE_TOKENS + calls;
        let wanted = wanted.min(order.most_tokens);
        // A context that is nearly full makes the answer shorter; one that is full is the engine's to refuse.
        let max_tokens = if room == 0 { wanted } else { wanted.min(room) };
        let tokens = self.model.engine.generate(GenerateRequest {
            prompt,
            max_tokens: Some(max_tokens),
            sampling: order.sampling.clone(),
            priority: order.priority,
            deadline: Some(order.deadline.into_std()),
            ..GenerateRequest::default()
        })?;
        Ok(Generation {
            tokens,
            prompt_tokens,
            thinking,
        })
    }

    fn opens_reasoning(&self, prompt: &[u32]) -> bool {
        let last = &prompt[prompt.len().saturating_sub(OPENING_TOKENS)..];
        let text = self.model.template.tokenizer().decode(last);
        text.trim_end().ends_with(THINK)
    }
}
