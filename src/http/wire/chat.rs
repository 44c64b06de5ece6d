//! The body of `POST /v1/chat/completions` as OpenAI's clients send it.

use serde_json::{Value, json};

use crate::engine::Sampling;
use crate::http::error::{ApiError, Code};
use crate::http::fields::{Fields, wrong_type};
use crate::turn::Message;

/// Most stop texts of a request.
const MAX_STOPS: usize = 16;
/// Most characters of a stop text.
const MAX_STOP: usize = 64;
/// Most choices that a request may ask for, once more than one is supported.
const MAX_CHOICES: i64 = 8;
/// Most characters of `user` and the like.
const MAX_LABEL: usize = 512;
/// What OpenAI's clients mean when they name no temperature.
const DEFAULT_TEMPERATURE: f32 = 1.0;

/// A parsed chat request.
#[derive(Debug)]
pub(in crate::http) struct ChatCall {
    /// The model asked for; empty is the default.
    pub(in crate::http) model: String,
    /// The conversation, at least one message.
    pub(in crate::http) messages: Vec<Message>,
    /// How tokens are chosen; the seed is drawn where the request names none.
    pub(in crate::http) sampling: Sampling,
    /// Texts that end the answer.
    pub(in crate::http) stop: Vec<String>,
    /// Most tokens of the answer; `None` is what the context leaves.
    pub(in crate::http) max_tokens: Option<usize>,
    /// Whether the answer is streamed.
    pub(in crate::http) stream: bool,
    /// Whether a stream ends with a chunk of token counts.
    pub(in crate::http) include_usage: bool,
}

impl ChatCall {
    /// Reads and checks a body. `draw_seed` makes the seed of a request that names none.
    pub(in crate::http) fn read(
        body: Value,
        draw_seed: impl FnOnce() -> u64,
    ) -> Result<Self, ApiError> {
        let mut root = Fields::root(body)?;
        let model = root.string("model")?.unwrap_or_default();
        let sampling = sampling(&mut root, draw_seed)?;
        let stop = stops(&mut root)?;
        let max_tokens = max_tokens(&mut root)?;
        let stream = root.flag("stream")?.unwrap_or(false);
        let include_usage = stream_options(&mut root, stream)?;
        choices(&mut root)?;
        labels(&mut root)?;
        unimplemented_yet(&mut root)?;
        let messages = messages(&mut root)?;
        root.finish()?;
        Ok(Self {
            model,
            messages,
            sampling,
            stop,
            max_tokens,
            stream,
            include_usage,
        })
    }
}

fn sampling(root: &mut Fields, draw_seed: impl FnOnce() -> u64) -> Result<Sampling, ApiError> {
    let mut number = |name: &str, default: f32| -> Result<f32, ApiError> {
        // Out of an f32's range becomes infinite, and that is in no field's range.
        #[allow(clippy::cast_possible_truncation)]
        Ok(root.number(name)?.map_or(default, |value| value as f32))
    };
    let default = Sampling::default();
    let sampling = Sampling {
        temperature: number("temperature", DEFAULT_TEMPERATURE)?,
        top_p: number("top_p", default.top_p)?,
        min_p: number("min_p", default.min_p)?,
        repetition_penalty: number("repetition_penalty", default.repetition_penalty)?,
        presence_penalty: number("presence_penalty", default.presence_penalty)?,
        frequency_penalty: number("frequency_penalty", default.frequency_penalty)?,
        top_k: root
            .integer("top_k", 0..=i64::from(u32::MAX))?
            .map_or(Ok(default.top_k), usize::try_from)
            .map_err(|_| root.invalid("top_k", "is too large"))?,
        seed: root
            .integer("seed", i64::MIN..=i64::MAX)?
            .map_or_else(draw_seed, i64::cast_unsigned),
    };
    match sampling.validate() {
        Ok(()) => Ok(sampling),
        Err(error) => Err(ApiError::new(Code::InvalidParameter, error.to_string()).at(error.field)),
    }
}

/// `stop`: a text or a list of them. None may be empty: it would match everywhere.
fn stops(root: &mut Fields) -> Result<Vec<String>, ApiError> {
    let path = root.path("stop");
    let items = match root.take("stop") {
        None => return Ok(Vec::new()),
        Some(Value::String(text)) => vec![(path, Value::String(text))],
        Some(Value::Array(items)) => items
            .into_iter()
            .enumerate()
            .map(|(index, item)| (format!("{path}[{index}]"), item))
            .collect(),
        Some(other) => return Err(wrong_type(path, "a string or a list of strings", &other)),
    };
    if items.len() > MAX_STOPS {
        return Err(root.invalid("stop", &format!("must have at most {MAX_STOPS} items")));
    }
    let mut stops = Vec::with_capacity(items.len());
    for (path, item) in items {
        match item {
            Value::String(text) if (1..=MAX_STOP).contains(&text.chars().count()) => {
                stops.push(text);
            }
            Value::String(_) => {
                let expected = format!("must be 1 to {MAX_STOP} characters long");
                return Err(ApiError::invalid(path, &expected));
            }
            other => return Err(wrong_type(path, "a string", &other)),
        }
    }
    Ok(stops)
}

/// `max_completion_tokens` and its old name; both only if they agree.
fn max_tokens(root: &mut Fields) -> Result<Option<usize>, ApiError> {
    let old = root.integer("max_tokens", 1..=i64::MAX)?;
    let new = root.integer("max_completion_tokens", 1..=i64::MAX)?;
    if let (Some(old), Some(new)) = (old, new)
        && old != new
    {
        return Err(root.invalid("max_tokens", "and max_completion_tokens disagree"));
    }
    Ok(new.or(old).and_then(|tokens| usize::try_from(tokens).ok()))
}

fn stream_options(root: &mut Fields, stream: bool) -> Result<bool, ApiError> {
    let Some(value) = root.take("stream_options") else {
        return Ok(false);
    };
    if !stream {
        return Err(root.invalid("stream_options", "is only for streams: set stream to true"));
    }
    let mut options = Fields::of(root.path("stream_options"), value)?;
    let include_usage = options.flag("include_usage")?.unwrap_or(false);
    options.only("include_obfuscation", &[json!(false)])?;
    options.finish()?;
    Ok(include_usage)
}

fn choices(root: &mut Fields) -> Result<(), ApiError> {
    match root.integer("n", 1..=MAX_CHOICES)? {
        None | Some(1) => Ok(()),
        Some(_) => {
            let message = "n above 1 is not supported";
            Err(ApiError::new(Code::UnsupportedParameter, message).at("n"))
        }
    }
}

/// What callers attach for themselves: checked, not used.
fn labels(root: &mut Fields) -> Result<(), ApiError> {
    for name in ["user", "safety_identifier", "prompt_cache_key"] {
        root.short(name, MAX_LABEL)?;
    }
    root.object("metadata")?.each_string(MAX_LABEL)
}

/// Members of OpenAI's API that nothing implements: their defaults pass, anything else is refused by name.
fn unimplemented_yet(root: &mut Fields) -> Result<(), ApiError> {
    root.only("logit_bias", &[json!({})])?;
    root.only("logprobs", &[json!(false)])?;
    root.only("top_logprobs", &[json!(0)])?;
    root.only("store", &[json!(false)])?;
    root.only("service_tier", &[json!("auto"), json!("default")])?;
    root.only("modalities", &[json!(["text"])])?;
    root.only("tools", &[json!([])])?;
    root.only("tool_choice", &[json!("none"), json!("auto")])?;
    root.only("parallel_tool_calls", &[json!(true)])?;
    root.only("response_format", &[json!({"type": "text"})])
}

/// `messages`, at least one.
pub(super) fn messages(root: &mut Fields) -> Result<Vec<Message>, ApiError> {
    let items = root.list("messages", usize::MAX)?;
    if items.is_empty() {
        return Err(root.missing("messages"));
    }
    items
        .into_iter()
        .map(|(path, item)| message(Fields::of(path, item)?))
        .collect()
}

fn message(mut fields: Fields) -> Result<Message, ApiError> {
    let role = match fields.string("role")?.as_deref() {
        None => return Err(fields.missing("role")),
        Some("system" | "developer") => "system",
        Some("user") => "user",
        Some("assistant") => "assistant",
        Some(role @ ("tool" | "function")) => {
            let path = fields.path("role");
            let message = format!("{path} {role} is not supported");
            return Err(ApiError::new(Code::UnsupportedParameter, message).at(path));
        }
        Some(_) => {
            let expected = "must be system, developer, user or assistant";
            return Err(fields.invalid("role", expected));
        }
    };
    let content = content(&mut fields)?;
    // Clients send an earlier answer back as they received it, with all its empty members.
    for name in ["refusal", "audio", "function_call"] {
        fields.only(name, &[])?;
    }
    fields.only("tool_calls", &[json!([])])?;
    fields.only("annotations", &[json!([])])?;
    fields.finish()?;
    Ok(Message {
        role: role.to_owned(),
        content,
    })
}

/// A text, or a list of text parts, which are joined by line breaks.
fn content(fields: &mut Fields) -> Result<String, ApiError> {
    let path = fields.path("content");
    let parts = match fields.take("content") {
        None => return Err(fields.missing("content")),
        Some(Value::String(text)) => return Ok(text),
        Some(Value::Array(parts)) => parts,
        Some(other) => return Err(wrong_type(path, "a string or a list of parts", &other)),
    };
    if parts.is_empty() {
        return Err(fields.invalid("content", "must have at least one part"));
    }
    let mut texts = Vec::with_capacity(parts.len());
    for (index, part) in parts.into_iter().enumerate() {
        let mut part = Fields::of(format!("{path}[{index}]"), part)?;
        match part.string("type")?.as_deref() {
            None => return Err(part.missing("type")),
            Some("text") => {}
            Some(kind) => {
                let path = part.path("type");
                let message = format!("{path} {kind:?} is not supported, only text is");
                return Err(ApiError::new(Code::UnsupportedParameter, message).at(path));
            }
        }
        texts.push(part.string("text")?.ok_or_else(|| part.missing("text"))?);
        part.finish()?;
    }
    Ok(texts.join("\n"))
}

#[cfg(test)]
#[path = "chat_tests.rs"]
mod tests;
