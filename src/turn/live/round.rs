//! Between two rounds: the calls that the model made are run, what came of them is told, and the model is asked again.

use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::calls::{Desk, Done};
use super::{End, Live, millis};
use crate::engine::{Finish, SubmitError};
use crate::harness::tool::Kind;
use crate::telemetry::stages::{Stage, ToolRan};
use crate::template::{Message, ToolCall};
use crate::tools::Call;
use crate::turn::event::TurnEvent;
use crate::turn::talk::Generation;
use crate::turn::{CALLS_PER_ROUND, RejectionCause};

/// With less than one part in so many of the time left, no tool is run any more.
const LAST_CALLS: u32 = 4;
/// With less than one part in so many of the time left, the answer becomes shorter.
const SHORTER: u32 = 2;
/// Fewest characters that are still worth asking for.
const LEAST_CHARS: usize = 40;

impl Live {
    /// Runs the calls of a round; gives the next one, or why there is none.
    pub(super) async fn after_calls(&mut self, finish: Finish) -> Result<Generation, End> {
        self.spend(&finish);
        let clauses = self.answer.finish();
        self.say(clauses, false);
        if self.told.blocked {
            return Err(End::Blocked);
        }
        let mut calls = std::mem::take(&mut self.round.calls);
        calls.truncate(CALLS_PER_ROUND);
        let most = self.harness().settings.budgets.max_rounds;
        let is_last = self.spent.rounds >= most || self.clock.is_short(LAST_CALLS);
        if is_last {
            // What needs no answer can still be done.
            let before = calls.len();
            calls.retain(|call| self.is_action(&call.name));
            if calls.len() < before {
                self.told.degrade("rounds");
            }
        }
        let results = self.run_calls(calls).await?;
        let all_shown = results.iter().all(|done| done.action.is_some());
        self.take_results(results);
        if is_last || (all_shown && !self.answer.is_silent()) {
            return Err(End::Enough);
        }
        self.ask_again()
    }

    fn is_action(&self, name: &str) -> bool {
        let tool = self.harness().tools.get(name);
        tool.is_some_and(|tool| matches!(tool.kind, Kind::Action))
    }

    async fn run_calls(&mut self, calls: Vec<Call>) -> Result<Vec<Done>, End> {
        let cut_at = self.clock.cut_at;
        let now = Instant::now();
        let desk = Desk {
            plan: &self.plan,
            tools: &self.tools,
            showable: &self.request.output,
            // The model must still be able to say what came of it.
            until: now + cut_at.saturating_duration_since(now) / 2,
        };
        let results = tokio::select! {
            biased;
            () = self.events.unheard() => return Err(End::Abandoned),
            stop = self.entry.stopped() => return Err(End::Stopped(stop)),
            () = sleep_until(cut_at) => return Err(End::Deadline),
            results = desk.run(calls) => results,
        };
        self.metrics.stage(Stage::Tool, now.elapsed());
        Ok(results)
    }

    /// Tells what came of the calls, and adds it to the conversation.
    fn take_results(&mut self, results: Vec<Done>) {
        let native = !self.plan.talk.tools.is_empty();
        let said = if native {
            &self.round.text
        } else {
            &self.round.written
        };
        let mut assistant = Message::new("assistant", said.trim());
        let mut answers = Vec::with_capacity(results.len());
        for done in results {
            if native {
                assistant.tool_calls.push(tool_call(&done.call));
            }
            answers.push(answer(native, &done));
            self.take_result(done);
        }
        self.plan.talk.messages.push(assistant);
        self.plan.talk.messages.extend(answers);
    }

    fn take_result(&mut self, done: Done) {
        let known = done.is_own || self.harness().tools.contains_key(&done.call.name);
        ToolRan {
            tool: if known { &done.call.name } else { "unknown" },
            result: done.error.unwrap_or("ok"),
            took: done.took,
        }
        .emit(&self.metrics);
        if self.request.debug {
            self.tell(TurnEvent::ToolFinished {
                name: done.call.name.clone(),
                ms: millis(done.took),
                ok: done.error.is_none(),
            });
        }
        if let Some(result) = done.result {
            self.plan.guard.know_result(result);
        }
        if let Some(args) = done.action {
            self.act(&done.call.name, args);
        }
        let Some(name) = done.activated else {
            return;
        };
        if self.plan.skills.is_active(&name) {
            return;
        }
        self.plan.skills.activate(&name);
        let actions = self.harness().skills.get(&name);
        let actions = actions.map_or(Vec::new(), |skill| skill.actions.clone());
        self.tell_skill(name);
        for action in actions {
            self.act(&action.tool, action.args);
        }
    }

    /// Asks for a shorter answer where much of the time is gone.
    pub(super) fn shorten_when_late(&mut self) {
        if self.clock.is_short(SHORTER) && self.order.max_chars > LEAST_CHARS {
            self.order.max_chars = (self.order.max_chars / 2).max(LEAST_CHARS);
            self.answer.limit_to(self.order.max_chars);
            self.told.degrade("length");
        }
    }

    fn ask_again(&mut self) -> Result<Generation, End> {
        self.shorten_when_late();
        match self.plan.talk.generate(&self.order) {
            Ok(generation) => Ok(generation),
            Err(RejectionCause::Submit(error @ SubmitError::Stopped)) => {
                Err(End::Failed(error.to_string()))
            }
            Err(cause) => {
                let (response_id, reason) = (&self.entry.response_id, cause.reason());
                tracing::warn!(response_id, reason, "the model cannot be asked again");
                self.told.degrade("rounds");
                Err(End::Enough)
            }
        }
    }
}

fn tool_call(call: &Call) -> ToolCall {
    let (id, name) = (Some(call.id.clone()), call.name.clone());
    // What is no object has been answered with an error; templates need an object all the same.
    ToolCall::new(id.clone(), name.clone(), &call.arguments).unwrap_or(ToolCall {
        id,
        name,
        ..ToolCall::default()
    })
}

/// A call's result for the model. A template that knows no tools knows no results either.
fn answer(native: bool, done: &Done) -> Message {
    if !native {
        return Message::new(
            "user",
            format!("Result of {}:\n{}", done.call.name, done.content),
        );
    }
    Message {
        tool_call_id: Some(done.call.id.clone()),
        name: Some(done.call.name.clone()),
        ..Message::new("tool", done.content.clone())
    }
}

/// A result as text: texts bare, all else as JSON.
pub(super) fn spelled(result: &Value) -> String {
    match result {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
