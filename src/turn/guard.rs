//! The hooks of one turn: asks them, counts each run, and remembers what the turn knows for them to see.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::hooks::{self, Decision, Event, Report, ToolUse};
use super::segment::Clause;
use crate::harness::hook::{Body, Check, Hook, Point};
use crate::harness::{Harness, Snapshot};
use crate::telemetry::Metrics;
use crate::telemetry::stages::{HookRan, Stage};

/// Asks the hooks of the harness that a turn holds.
pub(super) struct Guard {
    snapshot: Snapshot,
    metrics: Arc<Metrics>,
    /// What every hook of the turn sees.
    known: Event,
}

/// What is to be done with a clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Speak it.
    Clause(Clause),
    /// The hook that wants it unsaid.
    Blocked(Arc<str>),
}

impl Guard {
    pub(super) fn new(
        snapshot: Snapshot,
        metrics: Arc<Metrics>,
        room_id: &str,
        language: Option<&str>,
    ) -> Self {
        let language = language.or(snapshot.settings.language.as_deref());
        let known = Event {
            room_id: room_id.to_owned(),
            language: language.map(str::to_owned),
            facts: Value::Object(serde_json::Map::new()),
            ..Event::default()
        };
        Self {
            snapshot,
            metrics,
            known,
        }
    }

    /// Product facts and promotions, from here on.
    pub(super) fn know_facts(&mut self, facts: Value) {
        self.known.facts = facts;
    }

    /// A tool has answered.
    pub(super) fn know_result(&mut self, result: Value) {
        self.known.tool_results.push(result);
    }

    /// Asks the hooks of `point` about a text; `None` where there are none.
    pub(super) fn ask(&self, point: Point, text: &str) -> Option<Report> {
        self.ask_about(point, text, None)
    }

    /// Asks the hooks of a tool point about a call; `None` where there are none.
    pub(super) fn ask_tool(&self, point: Point, tool: ToolUse) -> Option<Report> {
        self.ask_about(point, "", Some(tool))
    }

    fn ask_about(&self, point: Point, text: &str, tool: Option<ToolUse>) -> Option<Report> {
        let hooks = at(&self.snapshot, point);
        if hooks.is_empty() {
            return None;
        }
        let event = Event {
            text: text.to_owned(),
            tool,
            ..self.known.clone()
        };
        Some(self.run(point, &event, hooks))
    }

    /// Asks about a clause, hook by hook: what only reads numbers aloud changes what is said and not what is shown.
    pub(super) fn clause(&self, mut clause: Clause) -> Said {
        let hooks = at(&self.snapshot, Point::PreSegment);
        if hooks.is_empty() {
            return Said::Clause(clause);
        }
        let mut event = self.known.clone();
        for hook in hooks {
            event.text.clone_from(&clause.tts_text);
            let report = self.run(Point::PreSegment, &event, std::slice::from_ref(hook));
            match report.decision {
                Decision::Allow => {}
                Decision::Modify | Decision::Replace => {
                    if !only_reads_aloud(hook) {
                        let words = clause.text.trim_end().len();
                        clause.text = format!("{}{}", report.event.text, &clause.text[words..]);
                    }
                    clause.tts_text = report.event.text;
                }
                Decision::Block { hook, .. } => return Said::Blocked(hook),
            }
        }
        Said::Clause(clause)
    }

    fn run(&self, point: Point, event: &Event, hooks: &[Hook]) -> Report {
        let scripted = hooks
            .iter()
            .any(|hook| matches!(hook.body, Body::Script(_)));
        let report = if scripted && may_block() {
            // A script may take all of its budget; other turns share this thread.
            tokio::task::block_in_place(|| hooks::run(point, event, hooks))
        } else {
            hooks::run(point, event, hooks)
        };
        let took: Duration = report.runs.iter().map(|run| run.duration).sum();
        self.metrics.stage(Stage::Hook, took);
        for run in &report.runs {
            HookRan {
                hook: &run.hook,
                point: point.word(),
                ended: run.ended.word(),
                took: run.duration,
            }
            .emit(&self.metrics);
        }
        report
    }
}

/// The hooks of a point; a harness keeps them in the order of points.
fn at(harness: &Harness, point: Point) -> &[Hook] {
    let hooks = &harness.hooks;
    let start = hooks.partition_point(|hook| hook.point < point);
    let end = hooks.partition_point(|hook| hook.point <= point);
    &hooks[start..end]
}

fn only_reads_aloud(hook: &Hook) -> bool {
    match &hook.body {
        Body::Rules(rules) => rules
            .iter()
            .all(|rule| matches!(rule.check, Check::ReadAloud)),
        Body::Script(_) => false,
    }
}

/// Whether this thread's other work can be taken over by another thread.
fn may_block() -> bool {
    let flavour = tokio::runtime::Handle::try_current().map(|handle| handle.runtime_flavor());
    flavour.is_ok_and(|flavour| flavour == tokio::runtime::RuntimeFlavor::MultiThread)
}
