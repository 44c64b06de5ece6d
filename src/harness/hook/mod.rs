//! Hooks as files: `hooks/<name>/hook.toml` read, checked and compiled, so that nothing can fail to compile on air.
//! Running them is the turn's.

mod file;
pub mod rule;
pub mod script;
pub mod words;

use std::sync::Arc;
use std::time::Duration;

use super::{Problem, Source};

pub use rule::{Action, Check, Rule};
pub use script::Script;

/// Where in a turn a hook is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Point {
    /// A comment has come in; its text is the event's.
    OnRequest,
    /// The prompt's last message is about to be rendered.
    PrePrompt,
    /// A tool is about to run with the event's input.
    PreTool,
    /// A tool has answered with the event's result.
    PostTool,
    /// A clause is about to be spoken.
    PreSegment,
    /// The whole answer has been spoken.
    OnComplete,
    /// The room has been quiet.
    OnIdle,
}

impl Point {
    /// Every point, in the order of a turn.
    pub const ALL: [Self; 7] = [
        Self::OnRequest,
        Self::PrePrompt,
        Self::PreTool,
        Self::PostTool,
        Self::PreSegment,
        Self::OnComplete,
        Self::OnIdle,
    ];

    /// As hook.toml and metrics spell it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::OnRequest => "on_request",
            Self::PrePrompt => "pre_prompt",
            Self::PreTool => "pre_tool",
            Self::PostTool => "post_tool",
            Self::PreSegment => "pre_segment",
            Self::OnComplete => "on_complete",
            Self::OnIdle => "on_idle",
        }
    }
}

/// What an abnormal end (error, timeout, panic, wrong type) means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// It blocks: a guard that cannot answer has not allowed anything.
    #[default]
    Deny,
    /// The turn goes on as if the hook were not there.
    Allow,
}

/// One hook, ready to run. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Hook {
    /// The folder's name.
    pub name: Arc<str>,
    /// Where it is asked.
    pub point: Point,
    /// Lower runs first; equal ones run by name.
    pub order: i64,
    /// What it may cost. Counted in operations; the clock is a wide backstop.
    pub budget: Duration,
    /// What its abnormal end means.
    pub on_error: OnError,
    /// What it does.
    pub body: Body,
}

/// What a hook does.
#[derive(Clone, Debug)]
pub enum Body {
    /// Built-in checks, in order.
    Rules(Arc<[Rule]>),
    /// A script with `fn run(event)`.
    Script(Arc<Script>),
}

/// Reads and compiles `hooks/<name>/`; `None` when there is a problem, which is then in `problems`.
#[must_use]
pub fn read(name: &str, source: &Source, problems: &mut Vec<Problem>) -> Option<Hook> {
    file::read(name, source, problems)
}

#[cfg(test)]
mod tests;
