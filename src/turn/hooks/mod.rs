//! Runs hooks: ordered, each within its budget, and whatever happens in one is an outcome. A pure function of the
//! event; the turn decides what to do with its report.

mod convert;
mod price;
mod rules;
mod script;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::hook::{Body, Hook, OnError, Point};

/// What a hook sees. What a point has nothing for is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// The room.
    pub room_id: String,
    /// The language of the answer, such as `en`.
    pub language: Option<String>,
    /// The comment, the last message of the prompt, what is about to be said (`tts_text`), or the whole answer.
    pub text: String,
    /// The call at `pre_tool` and `post_tool`.
    pub tool: Option<ToolUse>,
    /// Product facts and promotions of the turn.
    pub facts: Value,
    /// Results of the turn's tools so far.
    pub tool_results: Vec<Value>,
}

/// A tool call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolUse {
    /// The tool's name.
    pub name: String,
    /// Its arguments.
    pub input: Value,
    /// Its result, at `post_tool`.
    pub result: Option<Value>,
}

/// What the hooks of a point decided together.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Go on with the report's event, which no hook changed.
    Allow,
    /// Go on with the report's event, which some hook changed.
    Modify,
    /// The event's text is put in place of what was there: a clause, or the result of a tool that need not run.
    Replace,
    /// Stop. Later hooks were not asked.
    Block {
        /// The hook that blocked.
        hook: Arc<str>,
        /// For logs and front ends; never spoken.
        reason: String,
    },
}

/// How one hook ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It allowed.
    Allow,
    /// It changed the event.
    Modify,
    /// It put another text in place.
    Replace,
    /// It blocked.
    Block,
    /// It failed.
    Error,
    /// It used up its budget.
    Timeout,
    /// It panicked.
    Panic,
    /// It gave back what is no decision.
    WrongType,
}

impl Ended {
    /// The metric's label.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Modify => "modify",
            Self::Replace => "replace",
            Self::Block => "block",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Panic => "panic",
            Self::WrongType => "wrong_type",
        }
    }
}

/// One hook's run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The hook.
    pub hook: Arc<str>,
    /// How it ended.
    pub ended: Ended,
    /// Why it blocked or failed; empty otherwise. It may quote the event.
    pub reason: String,
    /// How long it took.
    pub duration: Duration,
}

/// What came of a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// What to do.
    pub decision: Decision,
    /// The event as the hooks left it.
    pub event: Event,
    /// What hooks want the model to know besides.
    pub context: Vec<String>,
    /// Every hook that was asked, in order.
    pub runs: Vec<Run>,
}

/// What one hook wants.
enum Wish {
    Allow {
        context: Option<String>,
    },
    Modify {
        text: Option<String>,
        input: Option<Value>,
        result: Option<Value>,
        context: Option<String>,
    },
    Replace {
        text: String,
        reason: String,
    },
    Block {
        reason: String,
    },
}

/// Why one hook has no wish.
struct Abnormal {
    ended: Ended,
    reason: String,
}

/// Asks the hooks of `point`, by `order` and then name, each with the event as the one before left it.
#[must_use]
pub fn run(point: Point, event: &Event, hooks: &[Hook]) -> Report {
    let mut asked: Vec<&Hook> = hooks.iter().filter(|hook| hook.point == point).collect();
    asked.sort_by(|a, b| (a.order, &a.name).cmp(&(b.order, &b.name)));
    let mut report = Report {
        decision: Decision::Allow,
        event: event.clone(),
        context: Vec::new(),
        runs: Vec::with_capacity(asked.len()),
    };
    for hook in asked {
        report.ask(hook);
        if matches!(report.decision, Decision::Block { .. }) {
            break;
        }
    }
    report
}

impl Report {
    fn ask(&mut self, hook: &Hook) {
        let start = Instant::now();
        let wish = catch_unwind(AssertUnwindSafe(|| wish(hook, &self.event)));
        let duration = start.elapsed();
        let wish = wish.unwrap_or_else(|_| {
            Err(Abnormal {
                ended: Ended::Panic,
                reason: "panicked".to_owned(),
            })
        });
        let (ended, reason) = match wish {
            Ok(wish) => self.grant(hook, wish),
            Err(abnormal) => {
                if hook.on_error == OnError::Deny {
                    let reason = format!("{}: {}", abnormal.ended.word(), abnormal.reason);
                    self.block(hook, reason);
                }
                (abnormal.ended, abnormal.reason)
            }
        };
        self.runs.push(Run {
            hook: Arc::clone(&hook.name),
            ended,
            reason,
            duration,
        });
    }

    fn grant(&mut self, hook: &Hook, wish: Wish) -> (Ended, String) {
        match wish {
            Wish::Allow { context } => {
                self.context.extend(context);
                (Ended::Allow, String::new())
            }
            Wish::Modify {
                text,
                input,
                result,
                context,
            } => {
                self.context.extend(context);
                if let Some(text) = text {
                    self.event.text = text;
                }
                if let Some(tool) = &mut self.event.tool {
                    tool.input = input.unwrap_or_else(|| tool.input.take());
                    tool.result = result.or_else(|| tool.result.take());
                }
                if self.decision == Decision::Allow {
                    self.decision = Decision::Modify;
                }
                (Ended::Modify, String::new())
            }
            Wish::Replace { text, reason } => {
                self.event.text = text;
                self.decision = Decision::Replace;
                (Ended::Replace, reason)
            }
            Wish::Block { reason } => {
                self.block(hook, reason.clone());
                (Ended::Block, reason)
            }
        }
    }

    fn block(&mut self, hook: &Hook, reason: String) {
        self.decision = Decision::Block {
            hook: Arc::clone(&hook.name),
            reason,
        };
    }
}

fn wish(hook: &Hook, event: &Event) -> Result<Wish, Abnormal> {
    match &hook.body {
        Body::Rules(rules) => rules::wish(rules, event, hook.point, hook.budget),
        Body::Script(compiled) => script::wish(compiled, event, hook.point, hook.budget),
    }
}

#[cfg(test)]
mod tests;
