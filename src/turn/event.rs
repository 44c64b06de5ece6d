//! What a turn tells, as plain data.

use crate::engine::Usage;

/// What a turn tells its front end, in order; `Completed` or `Failed` ends it.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnEvent {
    /// The turn was accepted and waits for others of its room; only where it does.
    Queued {
        /// Names the turn.
        response_id: String,
        /// How many turns go first, the one that speaks included.
        position: usize,
    },
    /// The turn begins.
    Started {
        /// Names the turn.
        response_id: String,
        /// The model that answers.
        model: String,
        /// Acceptance to the hand-over to the engine, the wait in the room included; the engine's own queue is told in
        /// [`TurnTimings`].
        queue_ms: u64,
        /// Which harness speaks.
        harness: HarnessUsed,
        /// The comments being answered.
        comment_ids: Vec<String>,
        /// Those that are not.
        dropped: Vec<Dropped>,
    },
    /// A skill came into effect; only where the request asks for debugging.
    SkillActivated {
        /// Its name.
        name: String,
    },
    /// A tool ended; only where the request asks for debugging.
    ToolFinished {
        /// Its name, as the model called it.
        name: String,
        /// How long it took, in milliseconds.
        ms: u64,
        /// Whether it gave a result.
        ok: bool,
    },
    /// A clause to speak.
    Segment(Segment),
    /// Something to show.
    Action(Action),
    /// The end of an accepted turn that did not fail.
    Completed(Completion),
    /// The end of a turn that failed.
    Failed(Failure),
}

/// The harness of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HarnessUsed {
    /// Its name.
    pub name: String,
    /// Its version, 64 hex digits.
    pub version: String,
    /// The label that led to it; `None` for a version that was asked for.
    pub label: Option<String>,
}

/// A comment that is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Which.
    pub comment_id: String,
    /// A word of a fixed set, such as `blocked`.
    pub reason: &'static str,
}

/// Something for the front end to show.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// 0, 1, 2, ... among the turn's actions.
    pub seq: usize,
    /// The segment that it goes with: the next one.
    pub at_segment: usize,
    /// The name of the tool of kind `action`.
    pub kind: String,
    /// Its arguments, an object that fits its schema.
    pub args: serde_json::Value,
}

/// A speakable clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// 0, 1, 2, ...
    pub seq: usize,
    /// What the model wrote, without tags, as hooks left it; the segments' texts joined are the answer. The fallback
    /// line, where it is spoken.
    pub text: String,
    /// What to say: never empty, no markdown, emoji or URL.
    pub tts_text: String,
    /// Ids of the comments being answered.
    pub reply_to: Vec<String>,
    /// What the avatar feels with it.
    pub emotion: Option<String>,
    /// What it does with it.
    pub gesture: Option<String>,
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
    /// Token counts of all rounds; where the turn ended before the generation did, `completion` is counted from the text.
    pub usage: Usage,
    /// Where the time went.
    pub timings: TurnTimings,
    /// Version of the harness that spoke.
    pub harness_version: String,
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
    /// A hook blocked what was asked or was to be said.
    Blocked,
    /// Another turn of the room took its place.
    Superseded,
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
