//! One conversational turn, free of transport and tensors: prompt, generation, speakable segments, one outcome.
//!
//! The life of a turn: [`Turns::respond`] renders persona, facts and comments to a prompt, submits it, and starts a
//! task that cuts the text into segments as it comes, watches the deadline, and ends with exactly one terminal event,
//! counted under exactly one outcome. Dropping the [`TurnStream`] or [`Turns::cancel`] ends it at once.

mod answer;
pub mod chat;
pub mod completion;
mod config;
mod event;
pub mod hooks;
mod live;
pub mod output;
mod prompt;
pub mod read_aloud;
mod registry;
mod request;
pub mod segment;
mod speech;
mod spelled;
mod stream;
mod warm;

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::Instant;

use self::answer::Answer;
use self::live::Live;
use self::registry::{Cancel, Registry};
use crate::engine::{Engine, GenerateRequest, TokenStream};
use crate::telemetry::Metrics;
use crate::telemetry::events::{TurnAccepted, TurnRejected};
use crate::template::ChatTemplate;

pub use config::{Config, ConfigError};
pub use event::{Completion, Failure, Segment, TurnEvent, TurnFinish, TurnTimings};
pub use request::{Comment, Context, TurnRequest};
pub use spelled::{ScoredToken, Spelled};
pub use stream::{Rejection, RejectionCause, TurnStream};

// What callers need of templates, so that they know turns only.
pub use crate::template::{Message, TemplateError};

/// What set a turn off; the label of its metrics.
const TRIGGER: &str = "comments";
/// Tokens that one character may take, and those that end an answer.
const TOKENS_PER_CHAR: usize = 3;
const SPARE_TOKENS: usize = 16;
/// Events of a turn besides its segments, of which there are at most one a character: `Started`, the fallback line
/// and the terminal event.
const OTHER_EVENTS: usize = 3;

/// A model that turns can speak with.
#[derive(Clone)]
pub struct ServedModel {
    /// The name that requests use.
    pub id: String,
    /// When it was loaded, seconds since 1970.
    pub created: u64,
    /// Generates its tokens.
    pub engine: Arc<dyn Engine>,
    /// Renders its prompts.
    pub template: Arc<ChatTemplate>,
}

/// No turn of that id is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no turn of that response id is in flight")]
pub struct UnknownTurn;

/// Answers viewers with one model and one persona. Cheap to clone.
#[derive(Clone)]
pub struct Turns {
    model: ServedModel,
    persona: Arc<str>,
    config: Arc<Config>,
    metrics: Arc<Metrics>,
    registry: Arc<Registry>,
}

impl Turns {
    /// Turns of `model` that speak as `persona`, a plain text.
    #[must_use]
    pub fn new(model: ServedModel, persona: String, config: Config, metrics: Arc<Metrics>) -> Self {
        Self {
            model,
            persona: persona.into(),
            config: Arc::new(config),
            metrics,
            registry: Arc::default(),
        }
    }

    /// The settings of all turns.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Accepts a turn and speaks it in a task of its own; call it inside a tokio runtime.
    ///
    /// # Errors
    /// What the template or the engine refuses. It is counted as rejected, and nothing runs.
    pub fn respond(&self, request: TurnRequest) -> Result<TurnStream, Rejection> {
        let accepted = Instant::now();
        match self.submit(&request, accepted) {
            Ok(submitted) => Ok(self.start(request, submitted, accepted)),
            Err(cause) => {
                let rejected = TurnRejected {
                    room_id: &request.room_id,
                    reason: cause.reason(),
                    cause: cause.loggable(),
                };
                rejected.emit(&self.metrics);
                Err(Rejection {
                    cause,
                    fallback: self.config.fallback.clone(),
                })
            }
        }
    }

    /// Ends a turn at once, also before its first segment; its stream ends with `Completed` and reason `Cancelled`.
    /// `played_through_seq` is the last segment that viewers heard.
    ///
    /// # Errors
    /// When no such turn is in flight: it never was, or it has ended.
    pub fn cancel(
        &self,
        response_id: &str,
        played_through_seq: Option<usize>,
    ) -> Result<(), UnknownTurn> {
        let known = self
            .registry
            .cancel(response_id, Cancel { played_through_seq });
        known.then_some(()).ok_or(UnknownTurn)
    }

    /// Ends every turn in flight, as [`Turns::cancel`] does.
    pub fn cancel_all(&self) {
        self.registry.cancel_all();
    }

    /// Number of turns in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.registry.len()
    }

    fn submit(
        &self,
        request: &TurnRequest,
        accepted: Instant,
    ) -> Result<Submitted, RejectionCause> {
        let prompt = self
            .model
            .template
            .render(&prompt::messages(&self.persona, request))?;
        let prompt_tokens = prompt.tokens.len();
        let room = self
            .model
            .engine
            .limits()
            .max_sequence_tokens
            .saturating_sub(prompt_tokens);
        let wanted = request.max_chars * TOKENS_PER_CHAR + SPARE_TOKENS;
        // A context that is nearly full makes the answer shorter; one that is full is the engine's to refuse.
        let max_tokens = if room == 0 { wanted } else { wanted.min(room) };
        let margin = self.config.margin(request.deadline);
        let engine_deadline = accepted + request.deadline.saturating_sub(margin);
        let tokens = self.model.engine.generate(GenerateRequest {
            prompt: prompt.tokens,
            max_tokens: Some(max_tokens),
            sampling: self.config.sampling(),
            stop: Vec::new(),
            priority: request.priority,
            deadline: Some(engine_deadline.into_std()),
            ..GenerateRequest::default()
        });
        Ok(Submitted {
            tokens: tokens?,
            prompt_tokens,
        })
    }

    fn start(&self, request: TurnRequest, submitted: Submitted, accepted: Instant) -> TurnStream {
        let entry = self.registry.enter();
        let response_id = entry.response_id.clone();
        TurnAccepted {
            response_id: &response_id,
            room_id: &request.room_id,
            comments: request.comments.len(),
            prompt_tokens: submitted.prompt_tokens,
        }
        .emit();
        let (sender, receiver) = mpsc::channel(request.max_chars + OTHER_EVENTS);
        let half_margin = self.config.margin(request.deadline) / 2;
        let live = Live {
            meter: self.metrics.accept_turn(TRIGGER, accepted),
            entry,
            metrics: Arc::clone(&self.metrics),
            config: Arc::clone(&self.config),
            tokens: submitted.tokens,
            tokenizer: self.model.engine.tokenizer(),
            events: sender,
            model: self.model.id.clone(),
            comment_ids: request
                .comments
                .into_iter()
                .map(|comment| comment.comment_id)
                .collect(),
            prompt_tokens: submitted.prompt_tokens,
            cut_at: accepted + request.deadline.saturating_sub(half_margin),
            answer: Answer::new(request.max_chars),
            segments: 0,
        };
        tokio::spawn(live.run());
        TurnStream::new(response_id, receiver, self.config.fallback.clone())
    }
}

/// A generation that the engine has taken.
struct Submitted {
    tokens: TokenStream,
    prompt_tokens: usize,
}

#[cfg(test)]
mod scripted;
#[cfg(test)]
mod test_text;
#[cfg(test)]
mod tests;
