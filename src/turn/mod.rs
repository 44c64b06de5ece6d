//! One conversational turn, free of transport and tensors: prompt, generation, speakable segments, one outcome.
//!
//! The life of a turn: [`Turns::respond`] finds the harness, asks its hooks, routes to skills, gathers facts (`plan`),
//! renders the prompt and submits it (`talk`), and starts a task (`live`) that takes the model's text apart, runs tools
//! between rounds, cuts what is to be said into segments, asks hooks about each, watches the deadline, and ends with
//! exactly one terminal event, counted under exactly one outcome. Dropping the [`TurnStream`] or [`Turns::cancel`] ends
//! it at once.

mod answer;
mod changes;
pub mod chat;
pub mod completion;
mod config;
mod event;
mod facts;
mod guard;
mod harnesses;
pub mod hooks;
mod live;
pub mod output;
mod plan;
mod prompt;
pub mod read_aloud;
mod registry;
mod request;
pub mod segment;
mod speech;
mod spelled;
mod stream;
mod tags;
mod talk;
mod trial;

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::Instant;

use self::answer::Answer;
use self::changes::Changes;
use self::live::{Clock, Live, Round, Spent, Told};
use self::plan::{Plan, Unplanned};
use self::registry::{Cancel, Registry};
use self::tags::Tags;
use self::talk::{Generation, Habit, Order};
use crate::engine::Engine;
use crate::harness::Calls;
use crate::telemetry::Metrics;
use crate::telemetry::events::{TurnAccepted, TurnRejected};
use crate::template::ChatTemplate;
use crate::tools::Tools;

pub use config::{Config, ConfigError};
pub use event::{
    Action, Completion, Dropped, Failure, HarnessUsed, Segment, TurnEvent, TurnFinish, TurnTimings,
};
pub use harnesses::{HarnessChoice, HarnessError, Harnesses, built_in};
pub use request::{Comment, Context, Showable, Trigger, TriggerKind, TurnRequest};
pub use spelled::{ScoredToken, Spelled};
pub use stream::{Rejection, RejectionCause, TurnStream};

// What callers need of templates, so that they know turns only.
pub use crate::template::{Message, TemplateError};

/// Events of a turn besides its segments, of which there are at most one a character: `Started`, the fallback line
/// and the terminal event.
const OTHER_EVENTS: usize = 3;
/// Events of a round besides those, in the worst case: each call's end, what it shows, the skill that it activates.
const EVENTS_PER_CALL: usize = 3;
/// Calls of a round that are looked at; the others are as if they had not been written.
const CALLS_PER_ROUND: usize = 64;

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

/// No turn of that id is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no turn of that response id is in flight")]
pub struct UnknownTurn;

/// Answers viewers with one model and the harnesses of a server. Cheap to clone.
#[derive(Clone)]
pub struct Turns {
    model: ServedModel,
    habit: Habit,
    harnesses: Harnesses,
    tools: Tools,
    config: Arc<Config>,
    metrics: Arc<Metrics>,
    registry: Arc<Registry>,
    changes: Arc<Changes>,
}

/// How a model is told of tools: what the opening of a harness's prompt depends on.
#[must_use]
pub fn calls(model: &ServedModel) -> Calls {
    Habit::of(model).calls
}

impl Turns {
    /// Turns of `model` that speak with `harnesses` and may run their `tools`.
    #[must_use]
    pub fn new(
        model: ServedModel,
        harnesses: impl Into<Harnesses>,
        tools: Tools,
        config: Config,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            habit: Habit::of(&model),
            model,
            harnesses: harnesses.into(),
            tools,
            config: Arc::new(config),
            metrics,
            registry: Arc::default(),
            changes: Arc::default(),
        }
    }

    /// The settings of all turns.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Finds the harness that a request names, and keeps it there for [`Turns::respond`]. Needed only for labels other
    /// than `production` and for versions, which may have to be read first.
    ///
    /// # Errors
    /// When there is no such harness, label or version, or it cannot be used. It is counted as rejected.
    pub async fn pin(&self, request: &mut TurnRequest) -> Result<(), Rejection> {
        match self.harnesses.find(&request.harness).await {
            Ok(found) => {
                request.harness.pinned = Some(found);
                Ok(())
            }
            Err(error) => Err(self.rejected(&request.room_id, error.into(), None)),
        }
    }

    /// Accepts a turn and speaks it in a task of its own; call it inside a tokio runtime. It speaks with the harness that
    /// was pinned, else with what is in production now, to its end.
    ///
    /// # Errors
    /// What the template or the engine refuses, or an unknown harness. It is counted as rejected, and nothing runs.
    pub fn respond(&self, request: TurnRequest) -> Result<TurnStream, Rejection> {
        let accepted = Instant::now();
        let refuse =
            |Unplanned { cause, fallback }| self.rejected(&request.room_id, cause, fallback);
        let plan = self.plan(&request).map_err(refuse)?;
        let order = self.order(&plan, &request, accepted);
        let generation = match (plan.blocked, &plan.line) {
            (Some(_), _) | (None, Some(_)) => None,
            (None, None) => Some(plan.talk.generate(&order).map_err(|cause| {
                let fallback = plan.skills.fallback(&plan.found.snapshot);
                refuse(Unplanned {
                    cause,
                    fallback: fallback.map(str::to_owned),
                })
            })?),
        };
        if generation.is_some() {
            let told = plan.found.snapshot.told(self.habit.calls);
            let prompt = changes::of_prompt(told, &plan.talk.messages);
            self.changes.note(&request.room_id, prompt, &self.metrics);
        }
        Ok(self.start(request, plan, order, generation, accepted))
    }

    /// Ends a turn at once, also before its first segment; its stream ends with `Completed` and reason `Cancelled`.
    /// `played_through_seq` is the last segment that viewers heard.
    ///
    /// # Errors
    /// When no such turn is in flight: it never was, or it has ended.
    pub fn cancel(
        &self,
        response_id: &str,
        played_through_seq: Option<usize>,
    ) -> Result<(), UnknownTurn> {
        let known = self
            .registry
            .cancel(response_id, Cancel { played_through_seq });
        known.then_some(()).ok_or(UnknownTurn)
    }

    /// Ends every turn in flight, as [`Turns::cancel`] does.
    pub fn cancel_all(&self) {
        self.registry.cancel_all();
    }

    /// Number of turns in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.registry.len()
    }

    /// Counts what is not accepted; `fallback` is the harness's line, where it is known.
    fn rejected(
        &self,
        room_id: &str,
        cause: RejectionCause,
        fallback: Option<String>,
    ) -> Rejection {
        let rejected = TurnRejected {
            room_id,
            reason: cause.reason(),
            cause: cause.loggable(),
        };
        rejected.emit(&self.metrics);
        Rejection {
            cause,
            fallback: fallback.unwrap_or_else(|| self.config.fallback.clone()),
        }
    }

    fn order(&self, plan: &Plan, request: &TurnRequest, accepted: Instant) -> Order {
        let margin = self.config.margin(request.deadline);
        let budgets = plan.found.snapshot.settings.budgets;
        Order {
            max_chars: request.max_chars,
            most_tokens: usize::try_from(budgets.max_tokens).unwrap_or(usize::MAX),
            sampling: self.config.sampling(),
            priority: request.priority,
            stop: if plan.found.snapshot.settings.single_line {
                vec!["\n".to_owned()]
            } else {
                Vec::new()
            },
            deadline: accepted + request.deadline.saturating_sub(margin),
        }
    }

    fn start(
        &self,
        request: TurnRequest,
        plan: Plan,
        order: Order,
        generation: Option<Generation>,
        accepted: Instant,
    ) -> TurnStream {
        let entry = self.registry.enter();
        let response_id = entry.response_id.clone();
        TurnAccepted {
            response_id: &response_id,
            room_id: &request.room_id,
            comments: request.comments.len(),
            prompt_tokens: generation
                .as_ref()
                .map_or(0, |generation| generation.prompt_tokens),
        }
        .emit();
        let (sender, receiver) = mpsc::channel(most_events(&plan, request.max_chars));
        let half_margin = self.config.margin(request.deadline) / 2;
        let snapshot = Arc::clone(&plan.found.snapshot);
        let fallback = plan.skills.fallback(&snapshot);
        let fallback = fallback.unwrap_or(&self.config.fallback).to_owned();
        let live = Live {
            meter: self
                .metrics
                .accept_turn(request.trigger.kind.word(), accepted),
            entry,
            metrics: Arc::clone(&self.metrics),
            config: Arc::clone(&self.config),
            events: sender,
            plan,
            tools: self.tools.clone(),
            order,
            format: self.habit.format,
            tags: Tags::new(&snapshot.settings, &request.output),
            showable: request.output,
            debug: request.debug,
            clock: Clock {
                accepted,
                cut_at: accepted + request.deadline.saturating_sub(half_margin),
            },
            answer: Answer::new(request.max_chars),
            told: Told::default(),
            spent: Spent::default(),
            round: Round::default(),
        };
        tokio::spawn(live.run(generation));
        TurnStream::new(response_id, receiver, fallback)
    }
}

/// Most events that a turn may tell, so that its channel holds them all.
fn most_events(plan: &Plan, max_chars: usize) -> usize {
    let harness = &plan.found.snapshot;
    let rounds = usize::try_from(harness.settings.budgets.max_rounds).unwrap_or(usize::MAX);
    let of_skills: usize = harness
        .skills
        .values()
        .map(|skill| 1 + skill.actions.len())
        .sum();
    max_chars + OTHER_EVENTS + of_skills + rounds * CALLS_PER_ROUND * EVENTS_PER_CALL
}

#[cfg(test)]
mod scripted;
#[cfg(test)]
mod test_text;
#[cfg(test)]
mod tests;
