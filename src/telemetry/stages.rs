//! What happens inside a turn: its stages, hooks, tools and blocked clauses; the log line and the metric in one.

use std::time::Duration;

use super::metrics::Metrics;

/// A part of a turn that takes time beside the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Writing and encoding a prompt.
    Render,
    /// The hooks of one point.
    Hook,
    /// The tools of one round.
    Tool,
}

impl Stage {
    /// The label's value.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Render => "render",
            Self::Hook => "hook",
            Self::Tool => "tool",
        }
    }
}

/// A hook was asked.
#[derive(Debug)]
pub struct HookRan<'a> {
    /// The hook, by its folder's name.
    pub hook: &'a str,
    /// Where in the turn.
    pub point: &'static str,
    /// How it ended: a word of a fixed set.
    pub ended: &'static str,
    /// How long it took.
    pub took: Duration,
}

impl HookRan<'_> {
    /// Counts it; logs it where it did more than allow. Its reason may quote viewers, so it is not logged.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.hook(self.hook, self.ended);
        let (hook, point, ended) = (self.hook, self.point, self.ended);
        let micros = u64::try_from(self.took.as_micros()).unwrap_or(u64::MAX);
        match ended {
            "allow" | "modify" => tracing::trace!(hook, point, ended, micros, "hook"),
            "block" | "replace" => tracing::info!(hook, point, ended, micros, "hook"),
            _ => tracing::warn!(hook, point, ended, micros, "hook failed"),
        }
    }
}

/// A tool was called.
#[derive(Debug)]
pub struct ToolRan<'a> {
    /// The tool; `unknown` for one that the harness does not have.
    pub tool: &'a str,
    /// `ok`, or a word of a fixed set that says why not.
    pub result: &'static str,
    /// How long it took.
    pub took: Duration,
}

impl ToolRan<'_> {
    /// Logs and counts it.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.tool(self.tool, self.result);
        let millis = u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX);
        tracing::debug!(tool = self.tool, result = self.result, millis, "tool");
    }
}

/// A clause stays unsaid, and the fallback line is said in its place.
#[derive(Debug)]
pub struct SegmentBlocked<'a> {
    /// Names the turn.
    pub response_id: &'a str,
    /// The hook that blocked it.
    pub hook: &'a str,
}

impl SegmentBlocked<'_> {
    /// Logs and counts it.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.segment_blocked(self.hook);
        tracing::info!(
            response_id = self.response_id,
            hook = self.hook,
            "segment blocked"
        );
    }
}
