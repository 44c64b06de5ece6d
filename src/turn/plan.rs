//! From a request to what the model is asked: hooks on the comments, the skills that they activate, what is known, and
//! the prompt. Everything that a turn decides before it speaks.

use super::facts::Facts;
use super::guard::Guard;
use super::hooks::{Decision, Report};
use super::prompt::{Ask, messages, one_line};
use super::request::{Comment, TriggerKind, TurnRequest};
use super::talk::Talk;
use super::{Dropped, RejectionCause, Turns};
use crate::harness::hook::Point;
use crate::harness::prompt::PromptError;
use crate::harness::registry::Resolved;
use crate::harness::{Calls, Harness, Opening, Skill};
use crate::template::Message;

/// Why a comment that a hook blocked is not answered.
const BLOCKED: &str = "blocked";

/// A turn that can be spoken.
pub(super) struct Plan {
    pub(super) found: Resolved,
    pub(super) guard: Guard,
    pub(super) talk: Talk,
    pub(super) skills: Skills,
    pub(super) comment_ids: Vec<String>,
    pub(super) dropped: Vec<Dropped>,
    /// A hook wants no answer: the fallback line is spoken, or nothing where nobody asked.
    pub(super) blocked: Option<Unasked>,
}

/// What a turn that a hook blocked says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unasked {
    Fallback,
    Nothing,
}

/// Skills in effect, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Skills {
    /// Inline ones that need no activation.
    always: Vec<String>,
    /// In order of activation.
    active: Vec<String>,
}

impl Skills {
    /// Those that comments activate, in order of priority, and those that always are.
    fn route(harness: &Harness, comments: &[Comment]) -> Self {
        let mut active: Vec<&Skill> = Vec::new();
        for comment in comments {
            for skill in harness.triggered(&comment.text) {
                if active.iter().all(|other| other.name != skill.name) {
                    active.push(skill);
                }
            }
        }
        active.sort_by(|a, b| b.priority.cmp(&a.priority).then(a.name.cmp(&b.name)));
        let always = harness.skills.values();
        let always = always.filter(|skill| skill.inline && skill.triggers.is_empty());
        Self {
            always: always.map(|skill| skill.name.clone()).collect(),
            active: active.iter().map(|skill| skill.name.clone()).collect(),
        }
    }

    /// Names of those that were activated.
    pub(super) fn active(&self) -> &[String] {
        &self.active
    }

    pub(super) fn is_active(&self, name: &str) -> bool {
        self.active.iter().any(|active| active == name)
    }

    pub(super) fn activate(&mut self, name: &str) {
        self.active.push(name.to_owned());
    }

    /// All in effect, activated ones first.
    pub(super) fn all<'a>(&'a self, harness: &'a Harness) -> impl Iterator<Item = &'a Skill> {
        let names = self.active.iter().chain(&self.always);
        names.filter_map(|name| harness.skills.get(name))
    }

    /// Whether a tool may be called: every turn may, or a skill in effect allows it.
    pub(super) fn allow(&self, harness: &Harness, tool: &str) -> bool {
        harness.offered.iter().any(|card| card.name == tool)
            || self
                .all(harness)
                .any(|skill| skill.tools.iter().any(|allowed| allowed == tool))
    }

    /// What is said where there is no answer: a skill's line, or the harness's.
    pub(super) fn fallback<'a>(&self, harness: &'a Harness) -> Option<&'a str> {
        let names = self.active.iter().chain(&self.always);
        let mut skills = names.filter_map(|name| harness.skills.get(name));
        let own = skills.find_map(|skill| skill.fallback.as_deref());
        own.or(harness.settings.fallback.as_deref())
    }
}

/// What hooks made of the comments.
#[derive(Default)]
struct Screened {
    comments: Vec<Comment>,
    dropped: Vec<Dropped>,
    /// What hooks want the model to know besides.
    notes: Vec<String>,
    blocked: Option<Unasked>,
}

/// A plan that cannot be made, and what to say meanwhile.
pub(super) struct Unplanned {
    pub(super) cause: RejectionCause,
    pub(super) fallback: Option<String>,
}

impl Turns {
    /// Decides all that is decided before the model is asked.
    pub(super) fn plan(&self, request: &TurnRequest) -> Result<Plan, Unplanned> {
        let found = self.harnesses.at_once(&request.harness);
        let found = found.map_err(|error| Unplanned {
            cause: RejectionCause::Harness(error),
            fallback: None,
        })?;
        let language = request.language.as_deref();
        let guard = Guard::new(
            found.snapshot.clone(),
            self.metrics.clone(),
            &request.room_id,
            language,
        );
        let screened = screen(&guard, request);
        let skills = Skills::route(&found.snapshot, &screened.comments);
        let comment_ids = screened.comments.iter();
        let mut plan = Plan {
            comment_ids: comment_ids
                .map(|comment| comment.comment_id.clone())
                .collect(),
            guard,
            talk: Talk {
                model: self.model.clone(),
                metrics: self.metrics.clone(),
                messages: Vec::new(),
                tools: Vec::new(),
                may_call: self.habit.calls != Calls::None && !found.snapshot.offered.is_empty(),
            },
            skills,
            dropped: screened.dropped.clone(),
            blocked: screened.blocked,
            found,
        };
        if plan.blocked.is_none() {
            let written = plan.write(request, &screened, self.habit.calls);
            written.map_err(|error| Unplanned {
                cause: RejectionCause::Prompt(error.to_string()),
                fallback: plan
                    .skills
                    .fallback(&plan.found.snapshot)
                    .map(str::to_owned),
            })?;
        }
        Ok(plan)
    }
}

impl Plan {
    /// Writes the conversation.
    fn write(
        &mut self,
        request: &TurnRequest,
        screened: &Screened,
        calls: Calls,
    ) -> Result<(), PromptError> {
        let snapshot = self.found.snapshot.clone();
        let harness: &Harness = &snapshot;
        let facts = Facts::gather(&harness.catalog, &request.context, &screened.comments);
        self.guard.know_facts(facts.value());
        let skills: Vec<&Skill> = self
            .skills
            .active
            .iter()
            .filter_map(|name| harness.skills.get(name))
            .collect();
        let skills: Vec<&Skill> = skills.into_iter().filter(|skill| !skill.inline).collect();
        let taught = &harness.settings.emotions;
        let more = request.output.emotions.iter();
        let more_emotions: Vec<String> = more
            .filter(|emotion| !taught.contains(emotion))
            .cloned()
            .collect();
        let ask = Ask {
            harness,
            calls,
            skills: &skills,
            language: request.language.as_deref(),
            more_emotions: &more_emotions,
            facts: &facts,
            trigger: &request.trigger,
            comments: &screened.comments,
            history: &request.history,
            max_chars: request.max_chars,
            fallback: self.skills.fallback(harness).unwrap_or_default(),
        };
        let Opening { system, tools } = ask.opening();
        let mut question = ask.question()?;
        let mut notes = screened.notes.clone();
        if let Some(report) = self.guard.ask(Point::PrePrompt, &question) {
            if let Decision::Block { .. } = report.decision {
                self.blocked = Some(Unasked::Fallback);
                return Ok(());
            }
            question = report.event.text;
            notes.extend(report.context);
        }
        if !notes.is_empty() {
            let notes: Vec<_> = notes.iter().map(|note| one_line(note)).collect();
            question = format!("{}\n\n{question}", notes.join("\n"));
        }
        self.talk.tools = tools;
        let history: Vec<Message> = request.history.clone();
        self.talk.messages = messages(system, &history, question);
        Ok(())
    }
}

/// Asks the hooks about each comment, or about what else set the turn off. A comment that is blocked is dropped; when
/// none is left, so is the turn.
fn screen(guard: &Guard, request: &TurnRequest) -> Screened {
    let mut screened = Screened::default();
    for comment in &request.comments {
        let Some(report) = guard.ask(Point::OnRequest, &comment.text) else {
            screened.comments.push(comment.clone());
            continue;
        };
        let blank = report.event.text.trim().is_empty();
        if blank || is_blocked(&report) {
            screened.dropped.push(Dropped {
                comment_id: comment.comment_id.clone(),
                reason: BLOCKED,
            });
            continue;
        }
        screened.notes.extend(report.context);
        screened.comments.push(Comment {
            text: report.event.text,
            ..comment.clone()
        });
    }
    let (point, otherwise) = match request.trigger.kind {
        TriggerKind::Comments => {
            let none_left = screened.comments.is_empty();
            screened.blocked = none_left.then_some(Unasked::Fallback);
            return screened;
        }
        TriggerKind::Idle => (Point::OnIdle, Unasked::Nothing),
        _ => (Point::OnRequest, Unasked::Nothing),
    };
    if let Some(report) = guard.ask(point, &request.trigger.reason) {
        let blocked = is_blocked(&report);
        screened.blocked = blocked.then_some(otherwise);
        screened.notes.extend(report.context);
    }
    screened
}

fn is_blocked(report: &Report) -> bool {
    matches!(report.decision, Decision::Block { .. })
}
