//! The reader's end of a turn, and what is told instead when there is no turn.

use super::event::{Failure, TurnEvent};
use super::harnesses::HarnessError;
use super::room::RoomError;
use super::tape::Listener;
use crate::engine::SubmitError;
use crate::template::TemplateError;

/// A turn being spoken. Dropping it cancels the generation at once.
#[derive(Debug)]
pub struct TurnStream {
    response_id: String,
    events: Listener,
    fallback: String,
    ended: bool,
}

impl TurnStream {
    pub(super) fn new(response_id: String, events: Listener, fallback: String) -> Self {
        Self {
            response_id,
            events,
            fallback,
            ended: false,
        }
    }

    /// Names the turn; known before the first event.
    #[must_use]
    pub fn response_id(&self) -> &str {
        &self.response_id
    }

    /// The next event; `None` after the terminal one. A turn whose task died ends as failed, never silently.
    pub async fn next(&mut self) -> Option<TurnEvent> {
        if self.ended {
            return None;
        }
        let event = self.events.next().await.unwrap_or_else(|| {
            TurnEvent::Failed(Failure {
                code: "internal_error",
                message: "the turn ended without an answer".to_owned(),
                retryable: true,
                fallback: self.fallback.clone(),
            })
        });
        self.ended = matches!(event, TurnEvent::Completed(_) | TurnEvent::Failed(_));
        Some(event)
    }
}

/// A turn that was not accepted, and what to say instead.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{cause}")]
pub struct Rejection {
    /// Why.
    #[source]
    pub cause: RejectionCause,
    /// What to say so that the air is not dead.
    pub fallback: String,
}

/// Why a turn or a chat completion was not accepted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RejectionCause {
    /// There is no such harness, or it cannot be used.
    #[error("harness: {0}")]
    Harness(#[from] HarnessError),
    /// A prompt of the harness cannot be rendered.
    #[error("prompt: {0}")]
    Prompt(String),
    /// The chat template refused the conversation or failed.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// Its room does not let it in.
    #[error(transparent)]
    Room(#[from] RoomError),
    /// The engine did not take it.
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

impl RejectionCause {
    /// The metric's label: one of a fixed set.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Harness(HarnessError::Unknown { .. }) => "unknown_harness",
            Self::Harness(HarnessError::Unusable(_)) => "harness",
            Self::Prompt(_) => "prompt",
            Self::Template(_) => "template",
            Self::Room(error) => error.reason(),
            Self::Submit(SubmitError::ContextLength { .. }) => "context_length",
            Self::Submit(SubmitError::Invalid { .. }) => "invalid",
            Self::Submit(SubmitError::QueueFull { .. }) => "queue_full",
            Self::Submit(SubmitError::Stopped) => "stopped",
        }
    }

    /// The word for programs, as in the errors of HTTP: for a turn that waited and was refused afterwards.
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::Submit(SubmitError::ContextLength { .. }) => "context_length_exceeded",
            Self::Submit(SubmitError::QueueFull { .. }) | Self::Room(_) => "queue_full",
            Self::Submit(SubmitError::Stopped) => "engine_stopped",
            Self::Submit(SubmitError::Invalid { .. })
            | Self::Template(TemplateError::Refused(_)) => "invalid_parameter",
            Self::Harness(_) | Self::Prompt(_) | Self::Template(_) => "internal_error",
        }
    }

    /// Whether the same request may succeed later.
    pub(super) fn is_retryable(&self) -> bool {
        matches!(self.code(), "queue_full" | "engine_stopped")
    }

    /// What a log may say: a template's message can quote what viewers wrote, the engine's never does. What harness was
    /// asked for is the caller's text, too.
    pub(super) fn loggable(&self) -> Option<&SubmitError> {
        match self {
            Self::Harness(_) | Self::Prompt(_) | Self::Template(_) | Self::Room(_) => None,
            Self::Submit(error) => Some(error),
        }
    }
}
