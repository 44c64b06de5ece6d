//! What a chat completion is answered with: one object, or chunks of it.

use serde_json::{Value, json};

use crate::engine::{FinishReason, Usage};

/// What all parts of one answer have in common.
#[derive(Clone, Debug)]
pub(in crate::http) struct Answer {
    /// Names the completion.
    pub(in crate::http) id: String,
    /// Seconds since 1970.
    pub(in crate::http) created: u64,
    /// The model that answers.
    pub(in crate::http) model: String,
    /// Whether the stream ends with token counts.
    pub(in crate::http) include_usage: bool,
}

impl Answer {
    /// The whole answer.
    pub(in crate::http) fn whole(&self, text: &str, reason: &FinishReason, usage: Usage) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": null},
                "logprobs": null,
                "finish_reason": finish_word(reason),
            }],
            "usage": counts(usage),
        })
    }

    /// The chunk that opens the answer.
    pub(in crate::http) fn opening(&self) -> Value {
        self.choice(&json!({"role": "assistant", "content": ""}), None)
    }

    /// A chunk of text.
    pub(in crate::http) fn text(&self, text: &str) -> Value {
        self.choice(&json!({"content": text}), None)
    }

    /// The chunk that says why the answer ended.
    pub(in crate::http) fn closing(&self, reason: &FinishReason) -> Value {
        self.choice(&json!({}), Some(finish_word(reason)))
    }

    /// The chunk of token counts; without a choice.
    pub(in crate::http) fn counts(&self, usage: Usage) -> Value {
        self.chunk(&json!([]), &counts(usage))
    }

    fn choice(&self, delta: &Value, finish_reason: Option<&str>) -> Value {
        let choice = json!({
            "index": 0,
            "delta": delta,
            "logprobs": null,
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
}

/// OpenAI's word. A deadline cuts an answer as a token limit does; errors do not come here.
fn finish_word(reason: &FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length | FinishReason::Deadline | FinishReason::Error(_) => "length",
    }
}

fn counts(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    })
}
