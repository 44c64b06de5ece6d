//! The border between turns and whatever generates tokens: one trait, plain requests, a stream of events.
//! Turns and HTTP know only this file; which engine stands behind it is the composition root's choice.

pub mod paged;
mod stream;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::tokenizer::{TokenId, Tokenizer};

pub use stream::{StreamSender, TokenStream, stream_channel};

/// Generates text for token prompts. Implementations are shared by every request.
pub trait Engine: Send + Sync {
    /// Queues a request and returns its stream at once; dropping the stream cancels the request.
    ///
    /// # Errors
    /// What can never run, or does not fit the queue now, is refused here and never queued.
    fn generate(&self, request: GenerateRequest) -> Result<TokenStream, SubmitError>;

    /// Computes the KV of `prompt` behind everybody else's work and leaves it to the prefix cache. The stream says
    /// nothing and ends when the prefix is there; dropping it before that cancels.
    ///
    /// # Errors
    /// As [`Engine::generate`]; also when this engine has no prefix cache of its own, which is the default.
    fn warm(&self, prompt: Vec<TokenId>) -> Result<TokenStream, SubmitError> {
        drop(prompt);
        Err(SubmitError::Invalid {
            field: "warm",
            reason: "this engine keeps no prefixes".to_owned(),
        })
    }

    /// As [`Engine::warm`], and keeps the prefix resident until [`Engine::unpin`].
    ///
    /// # Errors
    /// As [`Engine::generate`]; also when the pins' budget is spent.
    fn pin(&self, prompt: Vec<TokenId>) -> Result<PinTicket, SubmitError>;

    /// Gives a pinned prefix back to the ordinary cache. Unknown ids are ignored: a pin ends once.
    fn unpin(&self, pin: PinId);

    /// What a request may ask of this engine.
    fn limits(&self) -> EngineLimits;

    /// Tells whether the engine still makes steps.
    fn heartbeat(&self) -> Heartbeat;

    /// The tokenizer of the model being served.
    fn tokenizer(&self) -> Arc<Tokenizer>;
}

/// One generation: a prompt and how to continue it.
#[derive(Clone, Debug)]
pub struct GenerateRequest {
    /// Token ids of the whole prompt; not empty.
    pub prompt: Vec<TokenId>,
    /// Most tokens to generate, at least 1; `None` is what the context leaves.
    pub max_tokens: Option<usize>,
    /// How the next token is chosen.
    pub sampling: Sampling,
    /// Texts that end generation; never part of the output. Each non-empty.
    pub stop: Vec<String>,
    /// Who goes first when not everybody can.
    pub priority: Priority,
    /// The sequence is ended when this passes: before prefill if still queued, else with what there is.
    pub deadline: Option<Instant>,
}

/// Sampling parameters, validated by [`Sampling::validate`]; the default is greedy.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// 0 is greedy, up to 2.
    pub temperature: f32,
    /// Keep the k most likely tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep the smallest set of tokens whose probability reaches this, above 0 up to 1.
    pub top_p: f32,
    /// Drop tokens less likely than this share of the most likely one, 0 to 1.
    pub min_p: f32,
    /// Divides (multiplies, when negative) the logits of tokens seen in prompt or output; above 0 up to 10, 1 is off.
    pub repetition_penalty: f32,
    /// Subtracted from the logits of tokens in the output, -2 to 2.
    pub presence_penalty: f32,
    /// Subtracted once per occurrence in the output, -2 to 2.
    pub frequency_penalty: f32,
    /// Draws depend only on (seed, choice, position).
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            seed: 0,
        }
    }
}

/// A sampling parameter outside its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{field} must be {expected}")]
pub struct SamplingError {
    /// The field's name as callers spell it.
    pub field: &'static str,
    /// The accepted range in words.
    pub expected: &'static str,
}

impl Sampling {
    /// Checks every field's range; NaN is in no range.
    ///
    /// # Errors
    /// Names the first field that is outside.
    pub fn validate(&self) -> Result<(), SamplingError> {
        let checks = [
            (
                "temperature",
                (0.0..=2.0).contains(&self.temperature),
                "a number from 0 to 2",
            ),
            (
                "top_p",
                self.top_p > 0.0 && self.top_p <= 1.0,
                "a number above 0 and up to 1",
            ),
            (
                "min_p",
                (0.0..=1.0).contains(&self.min_p),
                "a number from 0 to 1",
            ),
            (
                "repetition_penalty",
                self.repetition_penalty > 0.0 && self.repetition_penalty <= 10.0,
                "a number above 0 and up to 10",
            ),
            (
                "presence_penalty",
                (-2.0..=2.0).contains(&self.presence_penalty),
                "a number from -2 to 2",
            ),
            (
                "frequency_penalty",
                (-2.0..=2.0).contains(&self.frequency_penalty),
                "a number from -2 to 2",
            ),
        ];
        for (field, ok, expected) in checks {
            if !ok {
                return Err(SamplingError { field, expected });
            }
        }
        Ok(())
    }
}

/// Order of service; within one priority, the earlier deadline and then the earlier arrival goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Priority {
    /// Work that may wait, such as warming a prefix.
    Low,
    /// The default.
    #[default]
    Normal,
    /// Before the others.
    High,
}

/// What a stream yields, in order; exactly one `Finished` ends it.
#[derive(Clone, Debug, PartialEq)]
pub enum TokenEvent {
    /// Text that is final: valid UTF-8, no part of a stop string, no control token. May cover several tokens.
    Text(String),
    /// The end.
    Finished(Finish),
}

/// How a generation ended and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Finish {
    /// Why it ended.
    pub reason: FinishReason,
    /// Token counts.
    pub usage: Usage,
    /// Where the time went.
    pub timings: Timings,
}

/// Why a generation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended it, or a stop string matched.
    Stop,
    /// `max_tokens` or the context was reached.
    Length,
    /// The deadline passed.
    Deadline,
    /// The engine failed or is stopping; the text says why.
    Error(String),
}

/// Token counts of one generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Those of them whose KV came from the prefix cache.
    pub cached: usize,
    /// Tokens generated, the end token included.
    pub completion: usize,
}

/// Where the time of one generation went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Submission to the first step that worked on it.
    pub queue: Duration,
    /// Submission to the first sampled token; zero when there was none.
    pub first_token: Duration,
    /// Submission to the end.
    pub total: Duration,
}

/// Why a request was not queued.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SubmitError {
    /// Prompt plus requested output exceed what one sequence may hold; never truncated.
    #[error(
        "prompt of {prompt} tokens plus max_tokens {max_tokens} exceeds the context of {limit} tokens"
    )]
    ContextLength {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens asked for.
        max_tokens: usize,
        /// Most tokens of one sequence: the model's context or the KV pool, whichever is smaller.
        limit: usize,
    },
    /// A field that no engine could honour.
    #[error("{field}: {reason}")]
    Invalid {
        /// The field's name as callers spell it.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The queue is full; try again later.
    #[error("the queue of {limit} requests is full")]
    QueueFull {
        /// The queue's bound.
        limit: usize,
    },
    /// The engine is stopping or its thread has died.
    #[error("the engine is not running")]
    Stopped,
}

/// Identifies one pinned prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PinId(pub u64);

/// A pinned prefix being computed.
#[derive(Debug)]
pub struct PinTicket {
    /// Give this to [`Engine::unpin`].
    pub id: PinId,
    /// Ends when the prefix is resident; dropping it before that cancels the pin.
    pub ready: TokenStream,
}

/// What a request may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineLimits {
    /// Most tokens of prompt and output together.
    pub max_sequence_tokens: usize,
    /// Tokens of one KV block; prefixes are shared in whole blocks.
    pub block_tokens: usize,
    /// Most requests waiting.
    pub queue: usize,
}

/// Liveness of the engine thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Whether the thread exists.
    pub alive: bool,
    /// Whether a request is queued or running.
    pub busy: bool,
    /// Time since the last step ended, or since work arrived for an idle engine.
    pub since_step: Duration,
}
