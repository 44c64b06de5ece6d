//! The body of `POST /v1/completions` as OpenAI's clients send it.

use serde_json::{Value, json};

use super::options::{labels, options, stream_options, token_id};
use crate::engine::{GenerateRequest, MAX_CHOICES, MAX_TOP_LOGPROBS};
use crate::http::error::ApiError;
use crate::http::fields::{Fields, wrong_type};
use crate::turn::completion::RawPrompt;

/// Most prompts of a request.
const MAX_PROMPTS: usize = 64;

/// A parsed request.
#[derive(Debug)]
pub(in crate::http) struct CompletionCall {
    /// The model asked for; empty is the default.
    pub(in crate::http) model: String,
    /// At least one.
    pub(in crate::http) prompts: Vec<RawPrompt>,
    /// Choices for each prompt.
    pub(in crate::http) n: usize,
    /// Whether each choice begins with its prompt.
    pub(in crate::http) echo: bool,
    /// Whether the request names its seed.
    pub(in crate::http) seeded: bool,
    /// How to go on.
    pub(in crate::http) options: GenerateRequest,
    /// Whether the answer is streamed.
    pub(in crate::http) stream: bool,
    /// Whether a stream ends with a chunk of token counts.
    pub(in crate::http) include_usage: bool,
}

impl CompletionCall {
    /// Reads and checks a body. `draw_seed` makes the seed of a request that names none.
    pub(in crate::http) fn read(
        body: Value,
        draw_seed: impl FnOnce() -> u64,
    ) -> Result<Self, ApiError> {
        let mut root = Fields::root(body)?;
        let model = root.string("model")?.unwrap_or_default();
        let echo = root.flag("echo")?.unwrap_or(false);
        let logprobs = root.count("logprobs", 0, MAX_TOP_LOGPROBS)?;
        let prompt_logprobs = logprobs.filter(|_| echo);
        let mut seeded = true;
        let options = GenerateRequest {
            max_tokens: max_tokens(&mut root, prompt_logprobs.is_some())?,
            logprobs,
            prompt_logprobs,
            ..options(&mut root, || {
                seeded = false;
                draw_seed()
            })?
        };
        let n = root.count("n", 1, MAX_CHOICES)?.unwrap_or(1);
        let stream = root.flag("stream")?.unwrap_or(false);
        let include_usage = stream_options(&mut root, stream)?;
        root.only("best_of", &[json!(1)])?;
        root.only("suffix", &[])?;
        labels(&mut root)?;
        let prompts = prompts(&mut root)?;
        root.finish()?;
        Ok(Self {
            model,
            prompts,
            n,
            echo,
            seeded,
            options,
            stream,
            include_usage,
        })
    }
}

/// 0 is only for a prompt that is to be scored.
fn max_tokens(root: &mut Fields, scores_prompt: bool) -> Result<Option<usize>, ApiError> {
    let tokens = root.count("max_tokens", 0, usize::MAX)?;
    if tokens == Some(0) && !scores_prompt {
        let expected = "must be an integer of at least 1, or 0 with echo and logprobs";
        return Err(root.invalid("max_tokens", expected));
    }
    Ok(tokens)
}

/// `prompt`: a text, token ids, or a list of either.
fn prompts(root: &mut Fields) -> Result<Vec<RawPrompt>, ApiError> {
    let path = root.path("prompt");
    let items = match root.take("prompt") {
        None => return Err(root.missing("prompt")),
        Some(Value::String(text)) => return Ok(vec![RawPrompt::Text(text)]),
        Some(Value::Array(items)) => items,
        Some(other) => {
            let expected = "a string, a list of token ids, or a list of these";
            return Err(wrong_type(path, expected, &other));
        }
    };
    if items.is_empty() {
        return Err(root.invalid("prompt", "must not be empty"));
    }
    if items.iter().all(Value::is_number) {
        return Ok(vec![token_ids(&path, &items)?]);
    }
    if items.len() > MAX_PROMPTS {
        return Err(root.invalid(
            "prompt",
            &format!("must have at most {MAX_PROMPTS} prompts"),
        ));
    }
    let mut prompts = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let path = format!("{path}[{index}]");
        prompts.push(match item {
            Value::String(text) => RawPrompt::Text(text),
            Value::Array(ids) => token_ids(&path, &ids)?,
            other => return Err(wrong_type(path, "a string or a list of token ids", &other)),
        });
    }
    Ok(prompts)
}

fn token_ids(path: &str, items: &[Value]) -> Result<RawPrompt, ApiError> {
    let ids = items.iter().enumerate();
    let ids = ids.map(|(index, item)| token_id(format!("{path}[{index}]"), item));
    Ok(RawPrompt::Tokens(ids.collect::<Result<_, _>>()?))
}

#[cfg(test)]
#[path = "completion_tests.rs"]
mod tests;
