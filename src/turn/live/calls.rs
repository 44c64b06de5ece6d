//! The calls of one round: permission and hooks first, then all that may run at once, then hooks on what came of it.
//! Results are in the order of the calls, whatever went wrong.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};

use super::round::spelled;
use crate::harness::Harness;
use crate::harness::hook::Point;
use crate::harness::snapshot::{ACTIVATE_SKILL, READ_SKILL_FILE};
use crate::harness::tool::Kind;
use crate::tools::{Call, CallResult, Offer, Outcome, Tools};
use crate::turn::hooks::{Decision, Report, ToolUse};
use crate::turn::plan::Plan;
use crate::turn::prompt::instructions;
use crate::turn::request::Showable;

/// What calls are run with.
pub(super) struct Desk<'a> {
    pub(super) plan: &'a Plan,
    pub(super) tools: &'a Tools,
    pub(super) showable: &'a Showable,
    /// Tools that have not answered by then have failed.
    pub(super) until: Instant,
}

/// What came of a call.
pub(super) struct Done {
    pub(super) call: Call,
    /// For the model; never empty.
    pub(super) content: String,
    /// What a tool of the harness answered.
    pub(super) result: Option<Value>,
    /// Arguments of an action that is to be shown.
    pub(super) action: Option<Value>,
    /// A skill that the call activates.
    pub(super) activated: Option<String>,
    /// Why there is no result: a word of a fixed set.
    pub(super) error: Option<&'static str>,
    /// A tool of the program, not of the harness.
    pub(super) is_own: bool,
    pub(super) took: Duration,
}

impl Done {
    fn new(call: Call, content: String) -> Self {
        Self {
            call,
            content,
            result: None,
            action: None,
            activated: None,
            error: None,
            is_own: false,
            took: Duration::ZERO,
        }
    }

    fn failed(call: Call, code: &'static str, message: &str) -> Self {
        Self {
            error: Some(code),
            ..Self::new(call, json!({"error": code, "message": message}).to_string())
        }
    }

    fn note(&mut self, notes: Vec<String>) {
        for note in notes {
            self.content.push('\n');
            self.content.push_str(&note);
        }
    }
}

/// A call after permission and hooks.
enum Judged {
    /// It need not run.
    Done(Box<Done>),
    /// It is to run, and what hooks want the model to know with it.
    Run(Call, Vec<String>),
}

impl Desk<'_> {
    /// Runs the calls of one round. Dropping the future ends all of them.
    pub(super) async fn run(&self, calls: Vec<Call>) -> Vec<Done> {
        let mut done: Vec<Option<Done>> = Vec::with_capacity(calls.len());
        let mut running = Vec::new();
        let mut waiting = Vec::new();
        for call in calls {
            match self.judge(call) {
                Judged::Done(result) => done.push(Some(*result)),
                Judged::Run(call, notes) => {
                    waiting.push((done.len(), call.clone(), notes));
                    running.push(call);
                    done.push(None);
                }
            }
        }
        let results = self.round(running).await;
        for ((place, call, notes), result) in waiting.into_iter().zip(results) {
            let mut result = self.after(call, result);
            result.note(notes);
            done[place] = Some(result);
        }
        done.into_iter().flatten().collect()
    }

    async fn round(&self, calls: Vec<Call>) -> Vec<Option<CallResult>> {
        if calls.is_empty() {
            return Vec::new();
        }
        let count = calls.len();
        let harness = self.harness();
        let tools: BTreeMap<_, _> = harness
            .tools
            .iter()
            .filter(|(name, _)| calls.iter().any(|call| call.name == **name))
            .map(|(name, tool)| (name.clone(), tool.clone()))
            .collect();
        let offer = Offer {
            tools: Arc::new(tools),
            catalog: Arc::clone(&harness.lookup),
        };
        match timeout_at(self.until, self.tools.run_round(&offer, calls)).await {
            Ok(results) => results.into_iter().map(Some).collect(),
            Err(_) => (0..count).map(|_| None).collect(),
        }
    }

    fn harness(&self) -> &Harness {
        &self.plan.found.snapshot
    }

    /// What permission and hooks make of a call.
    fn judge(&self, mut call: Call) -> Judged {
        match call.name.as_str() {
            ACTIVATE_SKILL => return Judged::Done(Box::new(self.activate(call))),
            READ_SKILL_FILE => return Judged::Done(Box::new(self.read_file(call))),
            _ => {}
        }
        let harness = self.harness();
        let unknown = |call: Call| {
            let message = format!("there is no tool {:?} to call now", call.name);
            Judged::Done(Box::new(Done::failed(call, "unknown_tool", &message)))
        };
        let Some(tool) = harness.tools.get(&call.name) else {
            return unknown(call);
        };
        let is_action = matches!(tool.kind, Kind::Action);
        let unshown = is_action && !self.showable.knows_action(&call.name);
        if unshown || !self.plan.skills.allow(harness, &call.name) {
            return unknown(call);
        }
        let input = arguments(&call);
        let about = ToolUse {
            name: call.name.clone(),
            input: input.map_or(Value::Null, Value::Object),
            result: None,
        };
        let Some(report) = self.plan.guard.ask_tool(Point::PreTool, about) else {
            return Judged::Run(call, Vec::new());
        };
        let Report {
            decision,
            event,
            context,
            ..
        } = report;
        match decision {
            Decision::Allow => Judged::Run(call, context),
            Decision::Modify => {
                if let Some(tool) = event.tool.filter(|tool| tool.input.is_object()) {
                    call.arguments = tool.input.to_string();
                }
                Judged::Run(call, context)
            }
            Decision::Replace => {
                let mut done = Done {
                    result: Some(Value::String(event.text.clone())),
                    ..Done::new(call, event.text)
                };
                done.note(context);
                Judged::Done(Box::new(done))
            }
            Decision::Block { .. } => Judged::Done(Box::new(blocked(call))),
        }
    }

    /// What hooks make of a result.
    fn after(&self, call: Call, result: Option<CallResult>) -> Done {
        let Some(result) = result else {
            let message = "there was no answer in time";
            return Done::failed(call, "timeout", message);
        };
        let took = result.duration;
        let content = result.content();
        let value = match result.outcome {
            Outcome::Result(value) => value,
            Outcome::Action(args) => {
                return Done {
                    action: Some(args),
                    took,
                    ..Done::new(call, content)
                };
            }
            Outcome::Error(error) => {
                return Done {
                    error: Some(error.code),
                    took,
                    ..Done::new(call, content)
                };
            }
        };
        let about = ToolUse {
            name: call.name.clone(),
            input: arguments(&call).map_or(Value::Null, Value::Object),
            result: Some(value.clone()),
        };
        let Some(report) = self.plan.guard.ask_tool(Point::PostTool, about) else {
            return Done {
                result: Some(value),
                took,
                ..Done::new(call, content)
            };
        };
        let value = match report.decision {
            Decision::Block { .. } => {
                return Done {
                    took,
                    ..blocked(call)
                };
            }
            Decision::Replace => Value::String(report.event.text),
            Decision::Allow | Decision::Modify => report
                .event
                .tool
                .and_then(|tool| tool.result)
                .unwrap_or(value),
        };
        let mut done = Done {
            took,
            ..Done::new(call, spelled(&value))
        };
        done.result = Some(value);
        done.note(report.context);
        done
    }

    /// `activate_skill`: its instructions, and from then on its tools.
    fn activate(&self, call: Call) -> Done {
        let harness = self.harness();
        let name = text(&call, "name");
        let skill = name.and_then(|name| harness.skills.get(&name));
        let Some(skill) = skill.filter(|skill| !skill.inline) else {
            return own(Done::failed(
                call,
                "invalid_arguments",
                "there is no such skill to activate",
            ));
        };
        own(Done {
            activated: Some(skill.name.clone()),
            ..Done::new(call, instructions(harness, skill))
        })
    }

    /// `read_skill_file`: a reference of a skill in effect. Only files of that skill's folder exist here.
    fn read_file(&self, call: Call) -> Done {
        let harness = self.harness();
        let (name, path) = (text(&call, "name"), text(&call, "path"));
        let (Some(name), Some(path)) = (name, path) else {
            return own(Done::failed(
                call,
                "invalid_arguments",
                "name a skill and a path",
            ));
        };
        let skill = harness.skills.get(&name);
        let skill = skill.filter(|skill| skill.inline || self.plan.skills.is_active(&name));
        let Some(skill) = skill else {
            return own(Done::failed(
                call,
                "refused",
                "activate the skill before you read its files",
            ));
        };
        let file = skill.file(&path).map(std::str::from_utf8);
        match file {
            Some(Ok(text)) if !text.trim().is_empty() => {
                let text = text.to_owned();
                own(Done::new(call, text))
            }
            Some(_) => own(Done::failed(call, "invalid_result", "the file is no text")),
            None => {
                let files: Vec<_> = skill.files().collect();
                let message = format!("there is no such file; there are {}", files.join(", "));
                own(Done::failed(call, "invalid_arguments", &message))
            }
        }
    }
}

fn own(done: Done) -> Done {
    Done {
        is_own: true,
        ..done
    }
}

/// What a hook blocked. Its reason is not for the model.
fn blocked(call: Call) -> Done {
    Done::failed(call, "blocked", "a rule of this room forbids it")
}

fn arguments(call: &Call) -> Option<Map<String, Value>> {
    if call.arguments.trim().is_empty() {
        return Some(Map::new());
    }
    serde_json::from_str(&call.arguments).ok()
}

fn text(call: &Call, argument: &str) -> Option<String> {
    let arguments = arguments(call)?;
    arguments
        .get(argument)
        .and_then(Value::as_str)
        .map(str::to_owned)
}
