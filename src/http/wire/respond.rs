//! The body of `POST /v1/avatar/respond` and `.../cancel`, and the events that answer it.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::text::{is_blank, is_name};
use crate::engine::Priority;
use crate::http::error::ApiError;
use crate::http::fields::{Fields, wrong_type};
use crate::turn::{
    Action, Comment, Completion, Config, Context, Failure, HarnessChoice, Segment, Showable,
    Supersede, TurnEvent, TurnFinish, TurnRequest,
};

/// Accepted `deadline_ms`.
const DEADLINE_MS: std::ops::RangeInclusive<i64> = 100..=120_000;
/// Most comments of one request.
const MAX_COMMENTS: usize = 64;
/// Most characters of a comment.
const MAX_COMMENT: usize = 2000;
/// Most characters of an id or a nickname.
const MAX_NAME: usize = 128;
/// Most promotions of one request.
const MAX_PROMOTIONS: usize = 64;
/// Most names of `output.emotions` and of `output.actions`.
const MAX_SHOWABLE: usize = 64;
/// Accepted `policy.max_chars`.
const MAX_CHARS: std::ops::RangeInclusive<i64> = 1..=10_000;

/// A parsed request to the avatar.
#[derive(Debug)]
pub(in crate::http) struct RespondCall {
    /// Whether events are streamed.
    pub(in crate::http) stream: bool,
    /// What is asked of the turn.
    pub(in crate::http) request: TurnRequest,
}

impl RespondCall {
    /// Reads and checks a body.
    pub(in crate::http) fn read(body: Value, config: &Config) -> Result<Self, ApiError> {
        let mut root = Fields::root(body)?;
        let room_id = name(&mut root, "room_id")?.ok_or_else(|| root.missing("room_id"))?;
        let stream = root.flag("stream")?.unwrap_or(false);
        let deadline_ms = root
            .integer("deadline_ms", DEADLINE_MS)?
            .map_or(config.deadline_ms, i64::cast_unsigned);
        let comments = comments(&mut root)?;
        let context = context(root.object("context")?)?;
        let policy = Policy::read(root.object("policy")?, config)?;
        let harness = harness(root.object("harness")?)?;
        let output = output(root.object("output")?)?;
        let debug = root.flag("debug")?.unwrap_or(false);
        unimplemented_yet(&mut root)?;
        root.finish()?;
        let request = TurnRequest {
            room_id,
            deadline: Duration::from_millis(deadline_ms),
            comments,
            context,
            priority: policy.priority,
            supersede: policy.supersede,
            max_chars: policy.max_chars,
            language: policy.language,
            harness,
            output,
            debug,
            ..TurnRequest::default()
        };
        Ok(Self { stream, request })
    }
}

/// Members of the contract that nothing implements: their defaults pass, anything else is refused by name.
fn unimplemented_yet(root: &mut Fields) -> Result<(), ApiError> {
    root.only("request_id", &[])?;
    let mut trigger = root.object("trigger")?;
    trigger.only("type", &[json!("comments")])?;
    trigger.only("reason", &[json!("")])?;
    trigger.finish()
}

/// Which harness speaks: a label or a version of it, not both.
fn harness(mut fields: Fields) -> Result<HarnessChoice, ApiError> {
    let name = name(&mut fields, "name")?;
    let label = self::name(&mut fields, "label")?;
    let version = fields.string("version")?;
    if let Some(version) = &version {
        let hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        if version.len() != 64 || !version.chars().all(hex) {
            return Err(fields.invalid("version", "must be 64 lower-case hex digits"));
        }
        if label.is_some() {
            return Err(fields.invalid("version", "must not be given beside label"));
        }
    }
    fields.finish()?;
    Ok(HarnessChoice::new(name, version.or(label)))
}

/// What the front end can show.
fn output(mut fields: Fields) -> Result<Showable, ApiError> {
    let mut names = |field: &str| -> Result<Vec<String>, ApiError> {
        let items = fields.list(field, MAX_SHOWABLE)?.into_iter();
        items
            .map(|(path, item)| match item {
                Value::String(name) if is_tag(&name) => Ok(name),
                Value::String(_) => Err(ApiError::invalid(
                    path,
                    "must be 1 to 64 letters, digits, _ and -",
                )),
                other => Err(wrong_type(path, "a string", &other)),
            })
            .collect()
    };
    let showable = Showable {
        emotions: names("emotions")?,
        actions: names("actions")?,
    };
    fields.finish()?;
    Ok(showable)
}

/// A name that answers may write as `[name]`.
fn is_tag(name: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    (1..=64).contains(&name.chars().count()) && name.chars().all(fits)
}

fn comments(root: &mut Fields) -> Result<Vec<Comment>, ApiError> {
    let items = root.list("comments", MAX_COMMENTS)?;
    if items.is_empty() {
        return Err(root.missing("comments"));
    }
    let mut seen = HashSet::new();
    let mut comments = Vec::with_capacity(items.len());
    for (index, (path, item)) in items.into_iter().enumerate() {
        let mut fields = Fields::of(path, item)?;
        let comment_id =
            name(&mut fields, "comment_id")?.unwrap_or_else(|| format!("c{}", index + 1));
        if !seen.insert(comment_id.clone()) {
            let message = format!("{comment_id:?} names an earlier comment too");
            return Err(fields.invalid("comment_id", &message));
        }
        // The caller's own business: it is neither shown to the model nor kept.
        fields.short("viewer_id", MAX_NAME)?;
        let nickname = fields.short("nickname", MAX_NAME)?.unwrap_or_default();
        let text = fields
            .short("text", MAX_COMMENT)?
            .ok_or_else(|| fields.missing("text"))?;
        if is_blank(&text) {
            return Err(fields.invalid("text", "must not be blank"));
        }
        fields.only("age_ms", &[json!(0)])?;
        fields.only("level", &[])?;
        fields.finish()?;
        comments.push(Comment {
            comment_id,
            nickname,
            text,
        });
    }
    Ok(comments)
}

fn context(mut fields: Fields) -> Result<Context, ApiError> {
    let product_id = fields.short("product_id", MAX_NAME)?.unwrap_or_default();
    let facts = match fields.take("facts") {
        None => serde_json::Map::new(),
        Some(Value::Object(facts)) => facts,
        Some(other) => return Err(wrong_type(fields.path("facts"), "an object", &other)),
    };
    let mut promotions = Vec::new();
    for (path, item) in fields.list("promotions", MAX_PROMOTIONS)? {
        match item {
            Value::String(_) | Value::Object(_) => promotions.push(item),
            other => return Err(wrong_type(path, "a string or an object", &other)),
        }
    }
    fields.only("spoken", &[])?;
    fields.finish()?;
    Ok(Context {
        product_id,
        facts,
        promotions,
    })
}

struct Policy {
    priority: Priority,
    supersede: Supersede,
    max_chars: usize,
    language: Option<String>,
}

impl Policy {
    fn read(mut fields: Fields, config: &Config) -> Result<Self, ApiError> {
        let priority = match fields.string("priority")?.as_deref() {
            None | Some("normal") => Priority::Normal,
            Some("high") => Priority::High,
            Some("low") => Priority::Low,
            Some(_) => return Err(fields.invalid("priority", "must be high, normal or low")),
        };
        let supersede = match fields.string("supersede")?.as_deref() {
            None | Some("none") => Supersede::None,
            Some("lower") => Supersede::Lower,
            Some("all") => Supersede::All,
            Some(_) => return Err(fields.invalid("supersede", "must be none, lower or all")),
        };
        let max_chars = fields
            .integer("max_chars", MAX_CHARS)?
            .and_then(|chars| usize::try_from(chars).ok())
            .unwrap_or(config.max_chars);
        let language = fields.string("language")?;
        if language.as_deref().is_some_and(|tag| !is_language(tag)) {
            return Err(fields.invalid("language", "must be a language tag such as en or zh-CN"));
        }
        fields.only("merge", &[json!(false)])?;
        fields.only("on_disconnect", &[json!("cancel")])?;
        fields.finish()?;
        Ok(Self {
            priority,
            supersede,
            max_chars,
            language,
        })
    }
}

/// The shape of a BCP 47 tag: letters, then groups of letters and digits.
fn is_language(tag: &str) -> bool {
    tag.len() <= 35
        && tag.split('-').enumerate().all(|(place, part)| {
            (1..=8).contains(&part.len())
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
                && (place > 0
                    || (part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_alphabetic())))
        })
}

fn name(fields: &mut Fields, field: &str) -> Result<Option<String>, ApiError> {
    let text = fields.short(field, MAX_NAME)?;
    if text.as_deref().is_some_and(|text| !is_name(text)) {
        return Err(fields.invalid(field, "must not be blank or hold control characters"));
    }
    Ok(text)
}

/// Reads the body of a cancellation: the last segment that viewers heard, if any.
pub(in crate::http) fn read_cancel(body: Value) -> Result<Option<usize>, ApiError> {
    let mut root = Fields::root(body)?;
    let played = root.integer("played_through_seq", 0..=i64::MAX)?;
    root.finish()?;
    Ok(played.and_then(|seq| usize::try_from(seq).ok()))
}

/// An event's name and data.
pub(in crate::http) fn event(event: &TurnEvent) -> (&'static str, Value) {
    match event {
        TurnEvent::Queued {
            response_id,
            position,
        } => (
            "response.queued",
            json!({"response_id": response_id, "position": position}),
        ),
        TurnEvent::Started {
            response_id,
            model,
            queue_ms,
            harness,
            comment_ids,
            dropped,
        } => (
            "response.started",
            json!({
                "response_id": response_id,
                "harness": {"name": harness.name, "version": harness.version, "label": harness.label},
                "model": model,
                "queue_ms": queue_ms,
                "comment_ids": comment_ids,
                "dropped": dropped
                    .iter()
                    .map(|one| json!({"comment_id": one.comment_id, "reason": one.reason}))
                    .collect::<Vec<_>>(),
            }),
        ),
        TurnEvent::SkillActivated { name } => ("skill.activated", json!({"name": name})),
        TurnEvent::ToolFinished { name, ms, ok } => {
            ("tool.finished", json!({"name": name, "ms": ms, "ok": ok}))
        }
        TurnEvent::Action(one) => ("action", action(one)),
        TurnEvent::Segment(part) => ("segment", segment(part)),
        TurnEvent::Completed(completion) => ("response.completed", completed(completion)),
        TurnEvent::Failed(failure) => ("response.failed", failed(failure)),
    }
}

fn action(action: &Action) -> Value {
    json!({
        "seq": action.seq,
        "at_segment": action.at_segment,
        "type": action.kind,
        "args": action.args,
    })
}

fn segment(segment: &Segment) -> Value {
    json!({
        "seq": segment.seq,
        "text": segment.text,
        "tts_text": segment.tts_text,
        "reply_to": segment.reply_to,
        "emotion": segment.emotion,
        "gesture": segment.gesture,
        "pause_ms": segment.pause_ms,
        "interruptible": true,
    })
}

fn completed(completion: &Completion) -> Value {
    let finish_reason = match completion.finish_reason {
        TurnFinish::Stop => "stop",
        TurnFinish::Length => "length",
        TurnFinish::Deadline => "deadline",
        TurnFinish::Blocked => "blocked",
        TurnFinish::Superseded => "superseded",
        TurnFinish::Cancelled => "cancelled",
    };
    json!({
        "finish_reason": finish_reason,
        "degraded": completion.degraded,
        "usage": {
            "prompt": completion.usage.prompt,
            "cached": completion.usage.cached,
            "completion": completion.usage.completion,
        },
        "timings": {
            "queue_ms": completion.timings.queue_ms,
            "first_segment_ms": completion.timings.first_segment_ms,
            "total_ms": completion.timings.total_ms,
            "rounds": completion.timings.rounds,
        },
        "harness_version": completion.harness_version,
    })
}

fn failed(failure: &Failure) -> Value {
    json!({
        "code": failure.code,
        "message": failure.message,
        "retryable": failure.retryable,
        "fallback": {"tts_text": failure.fallback},
    })
}

/// All of a turn's events as one object: what the stream says, in members.
#[derive(Debug, Default)]
pub(in crate::http) struct Buffered {
    members: serde_json::Map<String, Value>,
    segments: Vec<Value>,
    actions: Vec<Value>,
    /// Activated skills and finished tools, in order; only where they were asked for.
    debug: Vec<Value>,
    failure: Option<Failure>,
}

impl Buffered {
    /// Adds the next event.
    pub(in crate::http) fn push(&mut self, next: TurnEvent) {
        let (name, mut data) = event(&next);
        match next {
            TurnEvent::Queued { .. } => self.set("queued", data),
            TurnEvent::Started { .. } => self.set("started", data),
            TurnEvent::Segment(_) => self.segments.push(data),
            TurnEvent::Action(_) => self.actions.push(data),
            TurnEvent::SkillActivated { .. } | TurnEvent::ToolFinished { .. } => {
                data["event"] = json!(name);
                self.debug.push(data);
            }
            TurnEvent::Completed(_) => self.set("completed", data),
            TurnEvent::Failed(failure) => {
                self.set("failed", data);
                self.failure = Some(failure);
            }
        }
    }

    fn set(&mut self, member: &str, data: Value) {
        self.members.insert(member.to_owned(), data);
    }

    /// The whole answer of turn `response_id`; as an error when the turn failed.
    pub(in crate::http) fn finish(mut self, response_id: &str) -> Result<Value, ApiError> {
        self.set("response_id", json!(response_id));
        self.set("segments", Value::Array(self.segments.clone()));
        self.set("actions", Value::Array(self.actions.clone()));
        if !self.debug.is_empty() {
            self.set("debug", Value::Array(self.debug.clone()));
        }
        let Some(failure) = self.failure else {
            return Ok(Value::Object(self.members));
        };
        let mut error = ApiError::new(ApiError::of_failure(failure.code), failure.message)
            .beside("fallback", json!({"tts_text": failure.fallback}));
        for (member, data) in self.members {
            error = error.beside(&member, data);
        }
        Err(error)
    }
}

#[cfg(test)]
#[path = "respond_tests.rs"]
mod tests;
