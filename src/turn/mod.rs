//! One conversational turn, free of transport and tensors: prompt, generation, speakable segments, one outcome.
//!
//! The life of a turn: [`Turns::respond`] finds the harness, lets the turn into its room (`room`), asks hooks, routes to
//! skills, gathers facts (`plan`), renders the prompt and submits it (`talk`), and starts a task (`live`) that waits for
//! the room's other turns where there are any, takes the model's text apart, runs tools between rounds, cuts what is to be
//! said into segments, asks hooks about each, watches the deadline, and ends with exactly one terminal event, counted
//! under exactly one outcome. What it tells is kept on a `tape`. Dropping the [`TurnStream`] or [`Turns::cancel`] ends it
//! at once.

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
mod room;
pub mod segment;
mod speech;
mod spelled;
mod stream;
mod tags;
mod talk;
mod tape;
mod trial;

use std::sync::Arc;

use tokio::time::Instant;

use self::answer::Answer;
use self::changes::Changes;
use self::live::{Clock, Live, Opening, Round, Spent, Told};
use self::plan::Plan;
use self::registry::{Entry, Registry, Stop};
use self::room::{Arrived, Newcomer, Place, Rooms};
use self::tags::Tags;
use self::talk::{Generation, Habit, Order};
use self::tape::Tape;
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
pub use room::{Config as RoomsConfig, RoomError, Supersede};
pub use spelled::{ScoredToken, Spelled};
pub use stream::{Rejection, RejectionCause, TurnStream};

// What callers need of templates, so that they know turns only.
pub use crate::template::{Message, TemplateError};

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

/// No room of that id is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room of that id is known")]
pub struct UnknownRoom;

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
    rooms: Arc<Rooms>,
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
            rooms: Arc::new(Rooms::new(config.rooms.clone())),
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

    /// Accepts a turn and speaks it in a task of its own, at once or when the room's turns before it have ended; call it
    /// inside a tokio runtime. It speaks with the harness that was pinned, else with what is in production now, to its end.
    ///
    /// # Errors
    /// An unknown harness, a room that lets nobody in, or, of a turn that need not wait, what the template or the engine
    /// refuses. It is counted as rejected, and nothing runs.
    pub fn respond(&self, request: TurnRequest) -> Result<TurnStream, Rejection> {
        self.accept(request, true)
    }

    /// As [`Turns::respond`]; a turn that is `in_room` is alone there while it speaks.
    fn accept(&self, request: TurnRequest, in_room: bool) -> Result<TurnStream, Rejection> {
        let accepted = Instant::now();
        let room_id = request.room_id.clone();
        let refuse = |cause: RejectionCause, fallback| self.rejected(&room_id, cause, fallback);
        let found = self.harnesses.at_once(&request.harness);
        let found = found.map_err(|error| refuse(error.into(), None))?;
        let harness_line = found.snapshot.settings.fallback.clone();
        let entry = self.registry.enter();
        let arrived = self.arrive(&request, &entry, in_room);
        let (place, ahead) = arrived.map_err(|error| refuse(error.into(), harness_line))?;
        let mut plan = self.plan(&request, found);
        let order = self.order(&plan, &request, accepted);
        let opening = match ahead {
            Some(ahead) => Opening::Waits { ahead },
            None => {
                let asked = self.hand_over(&mut plan, &request, &order);
                Opening::Asked(asked.map_err(|cause| {
                    let fallback = plan.skills.fallback(&plan.found.snapshot);
                    refuse(cause, fallback.map(str::to_owned))
                })?)
            }
        };
        let ready = Ready {
            entry,
            place,
            plan,
            order,
            accepted,
        };
        Ok(self.start(request, ready, opening))
    }

    /// Lets a turn into its room and ends those that it supersedes; also how many go first, where it has to wait.
    fn arrive(
        &self,
        request: &TurnRequest,
        entry: &Entry,
        in_room: bool,
    ) -> Result<(Option<Place>, Option<usize>), RoomError> {
        if !in_room {
            return Ok((None, None));
        }
        let Arrived {
            place,
            ahead,
            superseded,
        } = self.rooms.arrive(Newcomer {
            room_id: &request.room_id,
            response_id: &entry.response_id,
            priority: request.priority,
            supersede: request.supersede,
        })?;
        for response_id in superseded {
            self.registry.stop(&response_id, Stop::Superseded);
        }
        Ok((Some(place), ahead))
    }

    /// Writes what the model is asked and hands it to the engine; `None` where it is not asked.
    fn hand_over(
        &self,
        plan: &mut Plan,
        request: &TurnRequest,
        order: &Order,
    ) -> Result<Option<Generation>, RejectionCause> {
        if plan.blocked.is_none() {
            let written = plan.write(request, self.habit.calls);
            written.map_err(|error| RejectionCause::Prompt(error.to_string()))?;
        }
        if plan.blocked.is_some() || plan.line.is_some() {
            return Ok(None);
        }
        let generation = plan.talk.generate(order)?;
        let told = plan.found.snapshot.told(self.habit.calls);
        let prompt = changes::of_prompt(told, &plan.talk.messages);
        self.changes.note(&request.room_id, prompt, &self.metrics);
        Ok(Some(generation))
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
        let stop = Stop::Cancelled { played_through_seq };
        let known = self.registry.stop(response_id, stop);
        known.then_some(()).ok_or(UnknownTurn)
    }

    /// Ends a room: cancels its turns and forgets it. Gives how many turns there were.
    ///
    /// # Errors
    /// When there is no such room: nobody was in it, or it is forgotten.
    pub fn end_room(&self, room_id: &str) -> Result<usize, UnknownRoom> {
        let turns = self.rooms.end(room_id).ok_or(UnknownRoom)?;
        for response_id in &turns {
            let played_through_seq = None;
            self.registry
                .stop(response_id, Stop::Cancelled { played_through_seq });
        }
        Ok(turns.len())
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

    fn start(&self, request: TurnRequest, ready: Ready, opening: Opening) -> TurnStream {
        let Ready {
            entry,
            place,
            plan,
            order,
            accepted,
        } = ready;
        let response_id = entry.response_id.clone();
        let asked = match &opening {
            Opening::Asked(generation) => generation.as_ref(),
            Opening::Waits { .. } => None,
        };
        TurnAccepted {
            response_id: &response_id,
            room_id: &request.room_id,
            comments: request.comments.len(),
            prompt_tokens: asked.map_or(0, |generation| generation.prompt_tokens),
        }
        .emit();
        let (tape, events) = Tape::record();
        let listener = tape.listen(0);
        let half_margin = self.config.margin(request.deadline) / 2;
        let snapshot = Arc::clone(&plan.found.snapshot);
        let fallback = plan.skills.fallback(&snapshot);
        let fallback = fallback.unwrap_or(&self.config.fallback).to_owned();
        let live = Live {
            meter: self
                .metrics
                .accept_turn(request.trigger.kind.word(), accepted),
            entry,
            place,
            turns: self.clone(),
            metrics: Arc::clone(&self.metrics),
            config: Arc::clone(&self.config),
            events,
            plan,
            tools: self.tools.clone(),
            order,
            format: self.habit.format,
            tags: Tags::new(&snapshot.settings, &request.output),
            clock: Clock {
                accepted,
                cut_at: accepted + request.deadline.saturating_sub(half_margin),
            },
            answer: Answer::new(request.max_chars),
            told: Told::default(),
            spent: Spent::default(),
            round: Round::default(),
            request,
        };
        tokio::spawn(live.run(opening));
        TurnStream::new(response_id, listener, fallback)
    }
}

/// What a turn has when it is accepted.
struct Ready {
    entry: Entry,
    place: Option<Place>,
    plan: Plan,
    order: Order,
    accepted: Instant,
}

#[cfg(test)]
mod scripted;
#[cfg(test)]
mod test_text;
#[cfg(test)]
mod tests;
