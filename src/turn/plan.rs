//! From a request to what the model is asked: hooks on the comments, the skills that they activate, what is known, and
//! the prompt. Everything that a turn decides before it speaks.

use super::facts::Facts;
use super::guard::Guard;
use super::hooks::{Decision, Report};
use super::prompt::{Ask, messages, one_line};
use super::request::{Comment, TriggerKind, TurnRequest};
use super::talk::Talk;
use super::{Dropped, Turns};
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
    /// Comments that are answered, as hooks left them.
    comments: Vec<Comment>,
    pub(super) comment_ids: Vec<String>,
    /// What hooks want the model to know besides.
    notes: Vec<String>,
    pub(super) dropped: Vec<Dropped>,
    /// A hook wants no answer: the fallback line is spoken, or nothing where nobody asked.
    pub(super) blocked: Option<Unasked>,
    /// A line of the harness is the answer; the model is not asked.
    pub(super) line: Option<String>,
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
        let active = harness.route(&texts(comments)).skills;
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

impl Turns {
    /// Decides what is decided when a turn is accepted: which comments are answered, with which skills.
    pub(super) fn plan(&self, request: &TurnRequest, found: Resolved) -> Plan {
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
        Plan {
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
            comments: screened.comments,
            notes: screened.notes,
            dropped: screened.dropped,
            blocked: screened.blocked,
            line: None,
            found,
        }
    }
}

impl Plan {
    /// Writes the conversation, when the turn has the floor. A hook may still block it then.
    pub(super) fn write(&mut self, request: &TurnRequest, calls: Calls) -> Result<(), PromptError> {
        let snapshot = self.found.snapshot.clone();
        let harness: &Harness = &snapshot;
        let facts = Facts::gather(&harness.catalog, &request.context, &self.comments);
        // Hooks judge by all that is known, the model is told what is asked.
        self.guard.know_facts(facts.value());
        let texts = texts(&self.comments);
        let route = harness.route(&texts);
        let facts = facts.wanted_by(&route);
        if let Some(comment) = texts.first() {
            self.line = route.line(facts.tells(), comment).map(str::to_owned);
        }
        if self.line.is_some() {
            return Ok(());
        }
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
            comments: &self.comments,
            history: &request.history,
            max_chars: request.max_chars,
            fallback: self.skills.fallback(harness).unwrap_or_default(),
        };
        let Opening { system, tools } = ask.opening();
        let mut question = ask.question()?;
        let mut notes = self.notes.clone();
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

fn texts(comments: &[Comment]) -> Vec<&str> {
    comments
        .iter()
        .map(|comment| comment.text.as_str())
        .collect()
}

fn is_blocked(report: &Report) -> bool {
    matches!(report.decision, Decision::Block { .. })
}
