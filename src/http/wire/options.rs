//! What chat and text completions share: how tokens are chosen, where generation ends, what callers attach.

use serde_json::{Value, json};

use crate::engine::{GenerateRequest, Sampling};
use crate::http::error::{ApiError, Code};
use crate::http::fields::{Fields, wrong_type};

/// Most stop texts of a request.
const MAX_STOPS: usize = 16;
/// Most characters of a stop text.
const MAX_STOP: usize = 64;
/// Most stop tokens of a request.
const MAX_STOP_TOKENS: usize = 64;
/// Most tokens that a request may favour or forbid.
const MAX_BIAS: usize = 1024;
/// Most characters of `user` and the like.
const MAX_LABEL: usize = 512;
/// What OpenAI's clients mean when they name no temperature.
const DEFAULT_TEMPERATURE: f32 = 1.0;

/// Takes everything but prompt, token limit, likelihoods and `n`. `draw_seed` makes the seed of a request that names
/// none.
pub(super) fn options(
    root: &mut Fields,
    draw_seed: impl FnOnce() -> u64,
) -> Result<GenerateRequest, ApiError> {
    Ok(GenerateRequest {
        sampling: sampling(root, draw_seed)?,
        stop: stops(root)?,
        stop_token_ids: stop_token_ids(root)?,
        ignore_eos: root.flag("ignore_eos")?.unwrap_or(false),
        min_tokens: root.count("min_tokens", 0, usize::MAX)?.unwrap_or(0),
        ..GenerateRequest::default()
    })
}

/// How the next token is chosen.
fn sampling(root: &mut Fields, draw_seed: impl FnOnce() -> u64) -> Result<Sampling, ApiError> {
    let mut number = |name: &str, default: f32| -> Result<f32, ApiError> {
        // Out of an f32's range becomes infinite, and that is in no field's range.
        #[allow(clippy::cast_possible_truncation)]
        Ok(root.number(name)?.map_or(default, |value| value as f32))
    };
    let default = Sampling::default();
    let mut sampling = Sampling {
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
        logit_bias: Vec::new(),
        seed: root
            .integer("seed", i64::MIN..=i64::MAX)?
            .map_or_else(draw_seed, i64::cast_unsigned),
    };
    sampling.logit_bias = logit_bias(root)?;
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

/// Whether a stream ends with a chunk of token counts.
pub(super) fn stream_options(root: &mut Fields, stream: bool) -> Result<bool, ApiError> {
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

/// `logit_bias`: numbers by token id. An id is written in one way only, so that none comes twice.
fn logit_bias(root: &mut Fields) -> Result<Vec<(u32, f32)>, ApiError> {
    let items = root.object("logit_bias")?.into_items();
    if items.len() > MAX_BIAS {
        return Err(root.invalid(
            "logit_bias",
            &format!("must have at most {MAX_BIAS} members"),
        ));
    }
    let mut bias = Vec::with_capacity(items.len());
    for (path, name, value) in items {
        let token: Option<u32> = name.parse().ok();
        let Some(token) = token.filter(|token| token.to_string() == name) else {
            return Err(ApiError::invalid(path, "is named by no token id"));
        };
        let Value::Number(number) = value else {
            return Err(wrong_type(path, "a number", &value));
        };
        let number = number.as_f64().unwrap_or(f64::NAN);
        if !(-100.0..=100.0).contains(&number) {
            return Err(ApiError::invalid(path, "must be a number from -100 to 100"));
        }
        #[allow(clippy::cast_possible_truncation)]
        bias.push((token, number as f32));
    }
    Ok(bias)
}

fn stop_token_ids(root: &mut Fields) -> Result<Vec<u32>, ApiError> {
    let items = root.list("stop_token_ids", MAX_STOP_TOKENS)?;
    items
        .into_iter()
        .map(|(path, item)| token_id(path, &item))
        .collect()
}

/// A token id; whether the vocabulary has it is the engine's to say.
pub(super) fn token_id(path: String, value: &Value) -> Result<u32, ApiError> {
    let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| ApiError::invalid(path, "must be a token id"))
}

/// What callers attach for themselves: checked, not used.
pub(super) fn labels(root: &mut Fields) -> Result<(), ApiError> {
    for name in ["user", "safety_identifier", "prompt_cache_key"] {
        root.short(name, MAX_LABEL)?;
    }
    root.object("metadata")?.each_string(MAX_LABEL)
}
