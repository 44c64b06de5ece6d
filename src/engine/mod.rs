//! The border between turns and whatever generates tokens: one trait, plain requests, a stream of events.
//! Turns and HTTP know only this file; which engine stands behind it is the composition root's choice.

mod logprobs;
pub mod paged;
mod sampling;
mod stream;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::tokenizer::Tokenizer;

pub use crate::tokenizer::TokenId;
pub use logprobs::{MAX_TOP_LOGPROBS, TokenLogprob, TopTokens};
pub use sampling::{Sampling, SamplingError};
pub use stream::{StreamSender, TokenStream, stream_channel};

/// Generates text for token prompts. Implementations are shared by every request.
pub trait Engine: Send + Sync {
    /// Queues a request and returns its stream at once; dropping the stream cancels the request.
    ///
    /// # Errors
    /// What can never run, or does not fit the queue now, is refused here and never queued.
    fn generate(&self, request: GenerateRequest) -> Result<TokenStream, SubmitError>;

    /// As [`Engine::generate`], with `n` alternative continuations that share the prompt's KV: one stream for each, in
    /// the order of the choices, which differ by what they draw. They are one request: all are accepted or none, in one
    /// place of the queue. Dropping one stream ends that choice only.
    ///
    /// # Errors
    /// As [`Engine::generate`]; also an `n` that is not from 1 to [`MAX_CHOICES`], or more than this engine can.
    fn choices(&self, request: GenerateRequest, n: usize) -> Result<Vec<TokenStream>, SubmitError> {
        if n == 1 {
            return Ok(vec![self.generate(request)?]);
        }
        Err(SubmitError::Invalid {
            field: "n",
            reason: "this engine gives one choice".to_owned(),
        })
    }

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

/// Most choices of one request.
pub const MAX_CHOICES: usize = 8;

/// One generation: a prompt and how to continue it. The default continues nothing: a prompt must be given.
#[derive(Clone, Debug, Default)]
pub struct GenerateRequest {
    /// Token ids of the whole prompt; not empty.
    pub prompt: Vec<TokenId>,
    /// Most tokens to generate, at least 1; `None` is what the context leaves. 0 is only for a prompt that is to be
    /// scored and not continued: with `prompt_logprobs`.
    pub max_tokens: Option<usize>,
    /// How the next token is chosen.
    pub sampling: Sampling,
    /// Texts that end generation; never part of the output. Each non-empty.
    pub stop: Vec<String>,
    /// Tokens that end generation as the model's own end token does; not part of the output's text.
    pub stop_token_ids: Vec<TokenId>,
    /// Whether generation goes on after the model's own end tokens.
    pub ignore_eos: bool,
    /// So many tokens are none that ends generation, and their text is not searched for `stop`; at most `max_tokens`.
    pub min_tokens: usize,
    /// Gives the log-probability of each generated token and of so many most likely ones in its place, up to
    /// [`MAX_TOP_LOGPROBS`].
    pub logprobs: Option<usize>,
    /// As `logprobs`, for the prompt's tokens from the second on. Costs the prompt's hits in the prefix cache.
    pub prompt_logprobs: Option<usize>,
    /// Who goes first when not everybody can.
    pub priority: Priority,
    /// The sequence is ended when this passes: before prefill if still queued, else with what there is.
    pub deadline: Option<Instant>,
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
    /// The prompt's log-probabilities, where `prompt_logprobs` asks for them: one for each token from the second on.
    /// Comes once, before any text.
    Prompt(Vec<TokenLogprob>),
    /// Text that is final: valid UTF-8, no part of a stop string, no control token. May cover several tokens.
    Text(String),
    /// In the place of `Text`, where `logprobs` asks for them: text and the log-probabilities of tokens that it
    /// completes. A token comes with its last character, so one event's tokens need not spell its text; all of them
    /// spell all of it, but for a token that a stop text cuts, which has no entry. What ends generation has none.
    Scored {
        /// As in `Text`; empty where tokens have no text of their own.
        text: String,
        /// In the order of generation.
        tokens: Vec<TokenLogprob>,
    },
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
