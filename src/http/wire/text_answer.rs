//! What a text completion is answered with: one object, or chunks of it.

use serde_json::{Map, Value, json};

use super::chat_answer::{counts, finish_word, finite};
use crate::engine::Usage;
use crate::http::generation::{Answer, Said};
use crate::turn::completion::CompletionEvent;
use crate::turn::{ScoredToken, Spelled};

/// What all parts of one answer have in common.
#[derive(Clone, Debug)]
pub(in crate::http) struct TextAnswer {
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
    /// Choices of each prompt.
    pub(in crate::http) n: usize,
    /// The text of each prompt, where choices begin with it.
    pub(in crate::http) echo: Option<Vec<String>>,
    /// Characters that each choice's tokens have made so far.
    pub(in crate::http) said: Vec<usize>,
}

impl Answer for TextAnswer {
    fn opening(&mut self) -> Vec<Value> {
        let Some(echo) = self.echo.as_ref().filter(|_| !self.logprobs) else {
            // A scored prompt comes with its scores.
            return Vec::new();
        };
        let choices = 0..self.said.len();
        choices
            .map(|choice| self.chunk(choice, &echo[choice / self.n], Value::Null, None))
            .collect()
    }

    fn chunks(&mut self, event: CompletionEvent) -> Vec<Value> {
        match event {
            CompletionEvent::Prompt { prompt, tokens } => {
                let text = self.prompt_text(prompt).to_owned();
                let choices = prompt * self.n..(prompt + 1) * self.n;
                choices
                    .map(|choice| {
                        let scores = Likelihoods::of(&tokens, &mut self.said[choice], true);
                        self.chunk(choice, &text, scores.into_json(), None)
                    })
                    .collect()
            }
            CompletionEvent::Text {
                choice,
                text,
                tokens,
            } => {
                let scores = match self.logprobs {
                    true => Likelihoods::of(&tokens, &mut self.said[choice], false).into_json(),
                    false => Value::Null,
                };
                vec![self.chunk(choice, &text, scores, None)]
            }
            CompletionEvent::Finished { choice, finish } => {
                let reason = finish_word(&finish.reason);
                vec![self.chunk(choice, "", Value::Null, Some(reason))]
            }
        }
    }

    fn counts(&self, usage: Usage) -> Option<Value> {
        self.include_usage
            .then(|| self.object(json!([]), &counts(usage)))
    }

    fn whole(&self, said: &Said, usage: Usage) -> Value {
        let choices = said.choices.iter().enumerate();
        let choices = choices.map(|(index, choice)| {
            let prompt = index / self.n;
            let scores = if self.logprobs {
                let mut at = 0;
                let mut scores = Likelihoods::of(&said.prompts[prompt], &mut at, true);
                scores.append(Likelihoods::of(&choice.tokens, &mut at, false));
                scores.into_json()
            } else {
                Value::Null
            };
            json!({
                "index": index,
                "text": format!("{}{}", self.prompt_text(prompt), choice.text),
                "logprobs": scores,
                "finish_reason": finish_word(&choice.reason),
            })
        });
        let mut whole = self.object(choices.collect(), &Value::Null);
        whole["usage"] = counts(usage);
        whole
    }
}

impl TextAnswer {
    /// What a prompt adds to the text of its choices.
    fn prompt_text(&self, prompt: usize) -> &str {
        self.echo.as_ref().map_or("", |texts| &texts[prompt])
    }

    fn chunk(&self, index: usize, text: &str, scores: Value, finish_reason: Option<&str>) -> Value {
        let choice = json!({
            "index": index,
            "text": text,
            "logprobs": scores,
            "finish_reason": finish_reason,
        });
        self.object(json!([choice]), &Value::Null)
    }

    fn object(&self, choices: Value, usage: &Value) -> Value {
        let mut object = json!({
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        });
        if self.include_usage {
            object["usage"] = usage.clone();
        }
        object
    }
}

/// The members of `logprobs`, one entry a token in each.
#[derive(Debug, Default)]
struct Likelihoods {
    tokens: Vec<Value>,
    token_logprobs: Vec<Value>,
    top_logprobs: Vec<Value>,
    text_offset: Vec<Value>,
}

impl Likelihoods {
    /// `at` is where the first of the tokens begins, in characters, and then where the next one will. `spelled` says
    /// whether control tokens are in the text, as they are in an echoed prompt.
    fn of(tokens: &[ScoredToken], at: &mut usize, spelled: bool) -> Self {
        let mut all = Self::default();
        for scored in tokens {
            all.tokens.push(json!(scored.token.text));
            all.token_logprobs.push(json!(scored.logprob.map(finite)));
            all.top_logprobs.push(top(scored));
            all.text_offset.push(json!(*at));
            *at += characters(&scored.token, spelled);
        }
        all
    }

    fn append(&mut self, mut other: Self) {
        self.tokens.append(&mut other.tokens);
        self.token_logprobs.append(&mut other.token_logprobs);
        self.top_logprobs.append(&mut other.top_logprobs);
        self.text_offset.append(&mut other.text_offset);
    }

    fn into_json(self) -> Value {
        json!({
            "tokens": self.tokens,
            "token_logprobs": self.token_logprobs,
            "top_logprobs": self.top_logprobs,
            "text_offset": self.text_offset,
        })
    }
}

/// The most likely tokens and the one that stands there, by their text; null at a prompt's start. Of tokens with the
/// same text the likelier one is told.
fn top(scored: &ScoredToken) -> Value {
    let Some(own) = scored.logprob else {
        return Value::Null;
    };
    let mut members = Map::new();
    let own = (&scored.token, own);
    let top = scored.top.iter().map(|(token, logprob)| (token, *logprob));
    for (token, logprob) in top.chain([own]) {
        let number = || json!(finite(logprob));
        members.entry(&token.text).or_insert_with(number);
    }
    Value::Object(members)
}

/// Characters of a token: those that begin in it.
fn characters(token: &Spelled, spelled: bool) -> usize {
    match &token.bytes {
        Some(bytes) => bytes.iter().filter(|byte| (**byte & 0xc0) != 0x80).count(),
        None if spelled => token.text.chars().count(),
        None => 0,
    }
}

#[cfg(test)]
#[path = "text_answer_tests.rs"]
mod tests;
