//! One conversational turn, free of transport and tensors: prompt, generation, speakable segments, one outcome.

pub mod chat;
mod segment;
mod speech;
#[cfg(test)]
mod test_text;

use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Engine, Priority};
use crate::template::ChatTemplate;

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

/// A viewer's comments and how to answer them; validated by whoever built it.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnRequest {
    /// The live room; not empty.
    pub room_id: String,
    /// From acceptance to the end of the last segment.
    pub deadline: Duration,
    /// What viewers wrote, at least one.
    pub comments: Vec<Comment>,
    /// What is on sale.
    pub context: Context,
    /// Who goes first when not everybody can.
    pub priority: Priority,
    /// Most characters of the whole answer.
    pub max_chars: usize,
    /// Language of the answer as a BCP 47 tag; `None` leaves it to the persona.
    pub language: Option<String>,
}

/// One viewer's comment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comment {
    /// The caller's id of the comment; `c1`, `c2`, ... where it gave none.
    pub comment_id: String,
    /// What the viewer is called on screen; may be empty.
    pub nickname: String,
    /// What the viewer wrote; not blank.
    pub text: String,
}

/// What the avatar may truthfully say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    /// The product on screen; may be empty.
    pub product_id: String,
    /// Facts by name, in the caller's order.
    pub facts: serde_json::Map<String, serde_json::Value>,
    /// Promotions, each a text or an object.
    pub promotions: Vec<serde_json::Value>,
}

/// What a turn tells its front end, in order; `Completed` or `Failed` ends it.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnEvent {
    /// The turn was accepted.
    Started {
        /// Names the turn.
        response_id: String,
        /// The model that answers.
        model: String,
        /// Acceptance to the first engine step.
        queue_ms: u64,
        /// The comments being answered.
        comment_ids: Vec<String>,
    },
    /// A clause to speak.
    Segment(Segment),
    /// The end of an accepted turn that did not fail.
    Completed(Completion),
    /// The end of a turn that failed.
    Failed(Failure),
}

/// A speakable clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// 0, 1, 2, ...
    pub seq: usize,
    /// What the model wrote; the segments' texts joined are the answer.
    pub text: String,
    /// What to say: never empty, no markdown, emoji or URL.
    pub tts_text: String,
    /// Ids of the comments being answered.
    pub reply_to: Vec<String>,
    /// Silence after it.
    pub pause_ms: u64,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// The outcome.
    pub finish_reason: TurnFinish,
    /// Rungs of the deadline ladder that were used, such as `cut`.
    pub degraded: Vec<&'static str>,
    /// Token counts.
    pub usage: crate::engine::Usage,
    /// Where the time went.
    pub timings: TurnTimings,
}

/// Outcomes of turns that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnFinish {
    /// The answer is whole.
    Stop,
    /// The answer reached its length limit and ends with a whole segment.
    Length,
    /// The deadline cut the answer at a whole segment.
    Deadline,
    /// It was cancelled.
    Cancelled,
}

/// Where a turn's time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnTimings {
    /// Acceptance to the first engine step.
    pub queue_ms: u64,
    /// Acceptance to the first segment; `None` when there was none.
    pub first_segment_ms: Option<u64>,
    /// Acceptance to the end.
    pub total_ms: u64,
    /// Generations of this turn.
    pub rounds: u32,
}

/// A turn that failed, and what to say instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A word for programs.
    pub code: &'static str,
    /// A sentence for people.
    pub message: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// What to say so that the air is not dead.
    pub fallback: String,
}
