//! What a turn tells, as plain data.

use crate::engine::Usage;

/// What a turn tells its front end, in order; `Completed` or `Failed` ends it.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnEvent {
    /// The turn was accepted.
    Started {
        /// Names the turn.
        response_id: String,
        /// The model that answers.
        model: String,
        /// Acceptance to the hand-over to the engine; its own queue is told in [`TurnTimings`].
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
    /// What the model wrote; the segments' texts joined are the answer. The fallback line, where it is spoken.
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
    /// Token counts; where the turn ended before the generation did, `completion` is counted from the text.
    pub usage: Usage,
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
    /// Acceptance to the first engine step; 0 where the turn ended before the engine told.
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
