//! What a chat completion is answered with: one object, or chunks of it.

use serde_json::{Value, json};

use crate::engine::{FinishReason, Usage};
use crate::http::generation::{Answer, Said};
use crate::turn::completion::CompletionEvent;
use crate::turn::{ScoredToken, Spelled};

/// Stands for minus infinity, which JSON cannot say.
const RULED_OUT: f32 = -9999.0;

/// What all parts of one answer have in common.
#[derive(Clone, Debug)]
pub(in crate::http) struct ChatAnswer {
    /// Names the completion.
    pub(in crate::http) id: String,
    /// Seconds since 1970.
    pub(in crate::http) created: u64,
    /// The model that answers.
    pub(in crate::http) model: String,
    /// Whether the stream ends with token counts.
    pub(in crate::http) include_usage: bool,
    /// Whether likelihoods are wanted.
    pub(in crate::http) logprobs: bool,
    /// Number of choices.
    pub(in crate::http) n: usize,
}

impl Answer for ChatAnswer {
    fn opening(&mut self) -> Vec<Value> {
        let delta = json!({"role": "assistant", "content": ""});
        let opening = |index| self.choice(index, &delta, Value::Null, None);
        (0..self.n).map(opening).collect()
    }

    fn chunks(&mut self, event: CompletionEvent) -> Vec<Value> {
        let chunk = match event {
            // Conversations are not scored.
            CompletionEvent::Prompt { .. } => return Vec::new(),
            CompletionEvent::Text {
                choice,
                text,
                tokens,
            } => self.choice(
                choice,
                &json!({"content": text}),
                self.likelihoods(&tokens),
                None,
            ),
            CompletionEvent::Finished { choice, finish } => {
                let reason = finish_word(&finish.reason);
                self.choice(choice, &json!({}), Value::Null, Some(reason))
            }
        };
        vec![chunk]
    }

    fn counts(&self, usage: Usage) -> Option<Value> {
        self.include_usage
            .then(|| self.chunk(&json!([]), &counts(usage)))
    }

    fn whole(&self, said: &Said, usage: Usage) -> Value {
        let choices = said.choices.iter().enumerate();
        let choices = choices.map(|(index, choice)| {
            json!({
                "index": index,
                "message": {"role": "assistant", "content": choice.text, "refusal": null},
                "logprobs": self.likelihoods(&choice.tokens),
                "finish_reason": finish_word(&choice.reason),
            })
        });
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": choices.collect::<Vec<_>>(),
            "usage": counts(usage),
        })
    }
}

impl ChatAnswer {
    fn choice(
        &self,
        index: usize,
        delta: &Value,
        logprobs: Value,
        finish_reason: Option<&str>,
    ) -> Value {
        let choice = json!({
            "index": index,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        });
        self.chunk(&json!([choice]), &Value::Null)
    }

    fn chunk(&self, choices: &Value, usage: &Value) -> Value {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        });
        if self.include_usage {
            chunk["usage"] = usage.clone();
        }
        chunk
    }

    /// The member `logprobs`: null where nobody asked.
    fn likelihoods(&self, tokens: &[ScoredToken]) -> Value {
        if !self.logprobs {
            return Value::Null;
        }
        let content = tokens.iter().map(|scored| {
            let mut entry = likelihood(&scored.token, scored.logprob);
            let top = scored.top.iter();
            entry["top_logprobs"] = top
                .map(|(token, logprob)| likelihood(token, Some(*logprob)))
                .collect();
            entry
        });
        json!({"content": content.collect::<Vec<_>>(), "refusal": null})
    }
}

fn likelihood(token: &Spelled, logprob: Option<f32>) -> Value {
    json!({
        "token": token.text,
        "logprob": finite(logprob.unwrap_or(f32::NEG_INFINITY)),
        "bytes": token.bytes,
    })
}

/// A log-probability as JSON can say it.
pub(super) fn finite(logprob: f32) -> f64 {
    f64::from(logprob.max(RULED_OUT))
}

/// OpenAI's word. A deadline cuts an answer as a token limit does; errors do not come here.
pub(super) fn finish_word(reason: &FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length | FinishReason::Deadline | FinishReason::Error(_) => "length",
    }
}

/// OpenAI's token counts.
pub(super) fn counts(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    })
}
