//! What happens, as typed events: one `emit` is the log line and the metric, so that neither can be forgotten.
//! Nothing here carries what viewers wrote or who they are.

use std::fmt::Display;
use std::time::Duration;

use super::ledger::Outcome;
use super::metrics::{Metrics, TurnMeter};

/// A turn was accepted.
#[derive(Debug)]
pub struct TurnAccepted<'a> {
    /// Names the turn.
    pub response_id: &'a str,
    /// The live room.
    pub room_id: &'a str,
    /// Comments to answer.
    pub comments: usize,
    /// Tokens of the prompt; 0 where it is not written yet.
    pub prompt_tokens: usize,
}

impl TurnAccepted<'_> {
    /// Logs it; the caller's meter has counted it.
    pub fn emit(&self) {
        tracing::debug!(
            response_id = self.response_id,
            room_id = self.room_id,
            comments = self.comments,
            prompt_tokens = self.prompt_tokens,
            "turn accepted"
        );
    }
}

/// A turn was not accepted.
#[derive(Debug)]
pub struct TurnRejected<'a, E> {
    /// The live room.
    pub room_id: &'a str,
    /// A word of a fixed set.
    pub reason: &'static str,
    /// Why, where that cannot quote the request's text.
    pub cause: Option<&'a E>,
}

impl<E: Display> TurnRejected<'_, E> {
    /// Logs and counts it, and the fallback line that goes with it.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.turn_rejected(self.reason);
        metrics.fallback(self.reason);
        tracing::info!(
            room_id = self.room_id,
            reason = self.reason,
            cause = self.cause.map(tracing::field::display),
            "turn rejected"
        );
    }
}

/// The fallback line is spoken instead of an answer.
#[derive(Debug)]
pub struct FallbackSpoken<'a> {
    /// Names the turn.
    pub response_id: &'a str,
    /// A word of a fixed set.
    pub reason: &'static str,
}

impl FallbackSpoken<'_> {
    /// Logs and counts it.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.fallback(self.reason);
        tracing::info!(
            response_id = self.response_id,
            reason = self.reason,
            "fallback spoken"
        );
    }
}

/// A deadline cut a turn.
#[derive(Debug)]
pub struct DeadlineMissed<'a> {
    /// Names the turn.
    pub response_id: &'a str,
    /// How far the turn had come: `waiting` (in its room), `first_token` or `decode`.
    pub stage: &'static str,
}

impl DeadlineMissed<'_> {
    /// Logs and counts it.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.deadline_missed(self.stage);
        tracing::info!(
            response_id = self.response_id,
            stage = self.stage,
            "deadline cut the turn"
        );
    }
}

/// A turn ended.
#[derive(Debug)]
pub struct TurnEnded<'a> {
    /// Names the turn.
    pub response_id: &'a str,
    /// How.
    pub outcome: Outcome,
    /// Segments sent.
    pub segments: usize,
    /// The failure's message, where it failed.
    pub error: Option<&'a str>,
}

impl TurnEnded<'_> {
    /// Logs and counts it; returns the turn's whole duration.
    pub fn emit(&self, meter: &mut TurnMeter) -> Duration {
        let total = meter.end(self.outcome);
        let total_ms = u64::try_from(total.as_millis()).unwrap_or(u64::MAX);
        let (response_id, outcome, segments) =
            (self.response_id, self.outcome.word(), self.segments);
        match self.error {
            Some(error) => tracing::warn!(
                response_id,
                outcome,
                segments,
                total_ms,
                error,
                "turn failed"
            ),
            None => tracing::info!(response_id, outcome, segments, total_ms, "turn ended"),
        }
        total
    }
}

/// A chat completion was not accepted.
#[derive(Debug)]
pub struct ChatRejected<'a, E> {
    /// A word of a fixed set.
    pub reason: &'static str,
    /// Why, where that cannot quote the request's text.
    pub cause: Option<&'a E>,
}

impl<E: Display> ChatRejected<'_, E> {
    /// Logs and counts it.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.chat_rejected(self.reason);
        tracing::info!(
            reason = self.reason,
            cause = self.cause.map(tracing::field::display),
            "chat completion rejected"
        );
    }
}

/// What reading a harness folder, or promoting a version, led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadResult {
    /// It is live.
    Activated,
    /// It waits to be promoted.
    Staged,
    /// It cannot be used; what was live still is.
    Rejected,
}

impl ReloadResult {
    /// The label's value.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Activated => "activated",
            Self::Staged => "staged",
            Self::Rejected => "rejected",
        }
    }
}

/// A harness changed, or could not.
#[derive(Debug)]
pub struct HarnessReload<'a> {
    /// The harness.
    pub harness: &'a str,
    /// The short version, where there is one.
    pub version: Option<&'a str>,
    /// What came of it.
    pub result: ReloadResult,
    /// Everything that is wrong with it.
    pub reasons: &'a [String],
}

impl HarnessReload<'_> {
    /// Logs and counts it: a line for each thing that is wrong.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.harness_reload(self.result.word());
        if let (ReloadResult::Activated, Some(version)) = (self.result, self.version) {
            metrics.harness_live(self.harness, version);
        }
        let (harness, version, result) = (self.harness, self.version, self.result.word());
        if self.result != ReloadResult::Rejected {
            tracing::info!(harness, version, result, "harness changed");
            return;
        }
        for reason in self.reasons {
            tracing::error!(
                harness,
                version,
                reason,
                "harness rejected; what was live still is"
            );
        }
    }
}

/// A harness is live from the program's start on.
#[derive(Debug)]
pub struct HarnessStarted<'a> {
    /// The harness.
    pub harness: &'a str,
    /// The short version.
    pub version: &'a str,
}

impl HarnessStarted<'_> {
    /// Logs it and shows it in the metrics.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.harness_live(self.harness, self.version);
        tracing::info!(
            harness = self.harness,
            version = self.version,
            "harness live"
        );
    }
}

/// Tokens of one section of a system prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionTokens {
    /// Which.
    pub section: &'static str,
    /// How many.
    pub tokens: usize,
}

/// A harness is ready to go live.
#[derive(Debug)]
pub struct HarnessWarm<'a> {
    /// The harness.
    pub harness: &'a str,
    /// The short version.
    pub version: &'a str,
    /// Its system prompt.
    pub sections: &'a [SectionTokens],
    /// What of the prompt is shared by all turns and was computed ahead.
    pub prefix_tokens: usize,
    /// Whether that stays resident; else it is the cache's until there is room.
    pub pinned: bool,
    /// Tokenising and prefill.
    pub took: Duration,
}

impl HarnessWarm<'_> {
    /// Logs it.
    pub fn emit(&self) {
        let sections: Vec<_> = (self.sections.iter())
            .map(|section| format!("{} {}", section.section, section.tokens))
            .collect();
        tracing::info!(
            harness = self.harness,
            version = self.version,
            sections = sections.join(", "),
            prefix_tokens = self.prefix_tokens,
            pinned = self.pinned,
            ms = u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            "harness warm"
        );
    }
}
