//! A turn while it is being spoken: one task from acceptance to the one terminal event. It holds its harness to the end.

mod calls;
mod end;
mod listen;
mod round;
mod say;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::answer::Answer;
use super::config::Config;
use super::event::{HarnessUsed, TurnEvent};
use super::output::{Format, Output};
use super::plan::{Plan, Unasked};
use super::registry::{Entry, Stop};
use super::room::Place;
use super::segment::Clause;
use super::tags::Tags;
use super::talk::{Generation, Order};
use super::tape::Recorder;
use super::{RejectionCause, TurnRequest, Turns};
use crate::engine::{Finish, Usage};
use crate::harness::Harness;
use crate::telemetry::{Metrics, TurnMeter};
use crate::tools::{Call, Tools};

/// Everything that a turn holds; dropping it frees all of it.
pub(super) struct Live {
    pub(super) entry: Entry,
    /// Its place in the room; a turn that no viewer hears has none.
    pub(super) place: Option<Place>,
    pub(super) turns: Turns,
    pub(super) request: TurnRequest,
    pub(super) meter: TurnMeter,
    pub(super) metrics: Arc<Metrics>,
    pub(super) config: Arc<Config>,
    pub(super) events: Recorder,
    pub(super) plan: Plan,
    pub(super) tools: Tools,
    pub(super) order: Order,
    pub(super) format: Format,
    pub(super) clock: Clock,
    pub(super) answer: Answer,
    pub(super) tags: Tags,
    pub(super) told: Told,
    pub(super) spent: Spent,
    pub(super) round: Round,
}

/// When a turn has to be where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) accepted: Instant,
    /// When the answer is cut, should the engine not have ended by itself.
    pub(super) cut_at: Instant,
}

impl Clock {
    /// Whether less than one part in `parts` of the time is left.
    fn is_short(&self, parts: u32) -> bool {
        let whole = self.cut_at.saturating_duration_since(self.accepted);
        self.cut_at.saturating_duration_since(Instant::now()) < whole / parts
    }
}

/// What was told so far.
#[derive(Debug, Default)]
pub(super) struct Told {
    segments: usize,
    actions: usize,
    /// All that was said, as it was said.
    text: String,
    /// A hook blocked a clause: nothing more is said.
    blocked: bool,
    /// Rungs of the deadline ladder.
    degraded: Vec<&'static str>,
}

impl Told {
    fn degrade(&mut self, rung: &'static str) {
        if !self.degraded.contains(&rung) {
            self.degraded.push(rung);
        }
    }
}

/// What it took so far.
#[derive(Debug, Default)]
pub(super) struct Spent {
    /// Generations begun.
    pub(super) rounds: u32,
    /// In the room's queue.
    waited: Duration,
    /// Of the rounds that have ended.
    usage: Usage,
    /// Of the first round, once it has ended.
    queue_ms: Option<u64>,
    calls: usize,
}

/// The generation under way.
#[derive(Default)]
pub(super) struct Round {
    generation: Option<Generation>,
    output: Option<Output>,
    /// All that the model wrote.
    written: String,
    /// What of it is to be said.
    text: String,
    calls: Vec<Call>,
}

/// How a turn begins.
pub(super) enum Opening {
    /// It has the floor, and the model was asked where it has to be.
    Asked(Option<Generation>),
    /// Others of its room go first; so many, without those that end for it.
    Waits { ahead: usize },
}

/// Why the speaking stopped.
enum End {
    /// The engine ended.
    Engine(Finish),
    /// The engine ended, and the model wants tools.
    Calls(Finish),
    /// What the model wrote cannot be used from some point on.
    Unusable(Option<Finish>),
    /// The length limit was reached.
    Full,
    /// A hook blocked what was asked or was to be said.
    Blocked,
    Deadline,
    /// A line of the harness was the answer.
    Line,
    /// The model is not asked again.
    Enough,
    Failed(String),
    /// What is asked after the wait in the room's queue cannot be.
    Refused(RejectionCause),
    Stopped(Stop),
    /// Nobody listens any more.
    Abandoned,
}

impl Live {
    /// Speaks, then counts and tells the one outcome.
    pub(super) async fn run(mut self, opening: Opening) {
        let first = match opening {
            Opening::Asked(first) => first,
            Opening::Waits { ahead } => match self.wait(ahead).await {
                Ok(first) => first,
                Err(end) => return self.end(end),
            },
        };
        self.start();
        self.open_skills();
        let Some(first) = first else {
            return self.unasked();
        };
        self.begin(first);
        loop {
            let end = self.listen().await;
            let end = match end {
                End::Calls(finish) => match self.after_calls(finish).await {
                    Ok(next) => {
                        self.begin(next);
                        continue;
                    }
                    Err(end) => end,
                },
                end => end,
            };
            return self.end(end);
        }
    }

    fn harness(&self) -> &Harness {
        &self.plan.found.snapshot
    }

    fn start(&mut self) {
        let harness = self.harness();
        let started = TurnEvent::Started {
            response_id: self.entry.response_id.clone(),
            model: self.plan.talk.model.id.clone(),
            queue_ms: millis(self.clock.accepted.elapsed()),
            harness: HarnessUsed {
                name: harness.name.clone(),
                version: harness.version.to_string(),
                label: self.plan.found.label.clone(),
            },
            comment_ids: self.plan.comment_ids.clone(),
            dropped: self.plan.dropped.clone(),
        };
        self.tell(started);
    }

    fn open_skills(&mut self) {
        if self.plan.blocked.is_some() {
            return;
        }
        for name in self.plan.skills.active().to_vec() {
            self.tell_skill(name);
        }
        let snapshot = self.plan.found.snapshot.clone();
        let skills = self.plan.skills.all(&snapshot);
        let actions: Vec<_> = skills.flat_map(|skill| skill.actions.clone()).collect();
        for action in actions {
            self.act(&action.tool, action.args);
        }
    }

    /// The harness has a line, or a hook wants no answer.
    fn unasked(mut self) {
        if let Some(line) = self.plan.line.take() {
            let clause = Clause {
                text: line.clone(),
                tts_text: line,
                pause_ms: 0,
            };
            self.say(vec![clause], true);
            return self.end(End::Line);
        }
        if self.plan.blocked == Some(Unasked::Fallback) {
            self.say_fallback("blocked");
        }
        self.end(End::Blocked);
    }

    /// Listens to a generation from now on.
    fn begin(&mut self, generation: Generation) {
        let harness = &self.plan.found.snapshot;
        let callable: Vec<String> = if self.plan.talk.may_call {
            let offered = harness.offered.iter().map(|card| card.name.clone());
            let skills = self.plan.skills.all(harness);
            offered
                .chain(skills.flat_map(|skill| skill.tools.clone()))
                .collect()
        } else {
            Vec::new()
        };
        self.spent.rounds += 1;
        self.round = Round {
            output: Some(Output::new(self.format, generation.thinking, callable)),
            generation: Some(generation),
            ..Round::default()
        };
    }

    fn tell(&self, event: TurnEvent) {
        self.events.tell(event);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
