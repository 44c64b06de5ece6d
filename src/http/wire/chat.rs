//! The body of `POST /v1/chat/completions` as OpenAI's clients send it.

use serde_json::{Value, json};

use super::options::{labels, options, stream_options};
use crate::engine::{GenerateRequest, MAX_CHOICES, MAX_TOP_LOGPROBS};
use crate::http::error::{ApiError, Code};
use crate::http::fields::{Fields, wrong_type};
use crate::turn::Message;

/// A parsed chat request.
#[derive(Debug)]
pub(in crate::http) struct ChatCall {
    /// The model asked for; empty is the default.
    pub(in crate::http) model: String,
    /// The conversation, at least one message.
    pub(in crate::http) messages: Vec<Message>,
    /// Number of answers.
    pub(in crate::http) n: usize,
    /// How to go on.
    pub(in crate::http) options: GenerateRequest,
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
        let options = GenerateRequest {
            max_tokens: max_tokens(&mut root)?,
            logprobs: logprobs(&mut root)?,
            ..options(&mut root, draw_seed)?
        };
        let n = root.count("n", 1, MAX_CHOICES)?.unwrap_or(1);
        let stream = root.flag("stream")?.unwrap_or(false);
        let include_usage = stream_options(&mut root, stream)?;
        labels(&mut root)?;
        unimplemented_yet(&mut root)?;
        let messages = messages(&mut root)?;
        root.finish()?;
        Ok(Self {
            model,
            messages,
            n,
            options,
            stream,
            include_usage,
        })
    }
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

/// `logprobs` and `top_logprobs`: how many likely tokens are shown beside each, if likelihoods are wanted at all.
fn logprobs(root: &mut Fields) -> Result<Option<usize>, ApiError> {
    let wanted = root.flag("logprobs")?.unwrap_or(false);
    let top = root.count("top_logprobs", 0, MAX_TOP_LOGPROBS)?;
    match (wanted, top) {
        (true, top) => Ok(Some(top.unwrap_or(0))),
        (false, None | Some(0)) => Ok(None),
        (false, Some(_)) => Err(root.invalid("top_logprobs", "needs logprobs to be true")),
    }
}

/// Members of OpenAI's API that nothing implements: their defaults pass, anything else is refused by name.
fn unimplemented_yet(root: &mut Fields) -> Result<(), ApiError> {
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
    Ok(Message::new(role, content))
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
