//! The callers' side: what can never run is refused, the rest goes into the bounded queue.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::choices::Choice;
use super::runner::RunnerLimits;
use super::sequence::Sequence;
use super::shared::Shared;
use crate::engine::{
    EngineLimits, GenerateRequest, MAX_CHOICES, MAX_TOP_LOGPROBS, PinId, PinTicket, SubmitError,
    TokenStream, stream_channel,
};
use crate::tokenizer::TokenId;

/// Checks requests and sends them to the engine thread.
pub(super) struct Intake {
    shared: Arc<Shared>,
    /// A request goes as its choices, which belong together.
    sender: SyncSender<Vec<Sequence>>,
    limits: EngineLimits,
    vocab: usize,
}

impl Intake {
    /// `pin_blocks` of the runner's blocks may be taken by pins, so no request may need them.
    pub(super) fn new(
        shared: Arc<Shared>,
        runner: RunnerLimits,
        pin_blocks: usize,
    ) -> (Self, Receiver<Vec<Sequence>>) {
        let queue = shared.queue_limit();
        let (sender, receiver) = sync_channel(queue);
        let pool = (runner.blocks - pin_blocks) * runner.block_tokens;
        let intake = Self {
            shared,
            sender,
            limits: EngineLimits {
                max_sequence_tokens: runner.max_context.min(pool),
                block_tokens: runner.block_tokens,
                queue,
            },
            vocab: runner.vocab,
        };
        (intake, receiver)
    }

    pub(super) fn limits(&self) -> EngineLimits {
        self.limits
    }

    /// One stream for each of `n` choices, in order.
    pub(super) fn generate(
        &self,
        mut request: GenerateRequest,
        n: usize,
    ) -> Result<Vec<TokenStream>, SubmitError> {
        if !(1..=MAX_CHOICES).contains(&n) {
            return Err(invalid("n", format!("must be from 1 to {MAX_CHOICES}")));
        }
        let max_tokens = self.check(&request)?;
        let arrived = (self.shared.clock)();
        let (mut sequences, mut streams) = (Vec::with_capacity(n), Vec::with_capacity(n));
        for choice in Choice::family(n) {
            // One event a token, and one for the prompt.
            let prompt = usize::from(request.prompt_logprobs.is_some());
            let (sender, stream) = stream_channel(max_tokens + prompt);
            let asked = match streams.len() + 1 == n {
                true => std::mem::take(&mut request),
                false => request.clone(),
            };
            sequences.push(Sequence::generate(
                asked, choice, max_tokens, sender, arrived,
            ));
            streams.push(stream);
            // The prompt is the same for all.
            request.prompt_logprobs = None;
        }
        self.submit(sequences)?;
        Ok(streams)
    }

    pub(super) fn pin(&self, mut prompt: Vec<TokenId>) -> Result<PinTicket, SubmitError> {
        self.check_open_for(&prompt)?;
        self.check_length(prompt.len(), 0)?;
        let blocks = prompt.len() / self.limits.block_tokens;
        prompt.truncate(blocks * self.limits.block_tokens);
        let id = self
            .shared
            .pins
            .claim(blocks)
            .map_err(|reason| invalid("pin", reason))?;
        let (sender, ready) = stream_channel(0);
        let arrived = (self.shared.clock)();
        let submitted = self.submit(vec![Sequence::pin(prompt, id, blocks, sender, arrived)]);
        if let Err(error) = submitted {
            self.shared.pins.free(id, blocks);
            return Err(error);
        }
        Ok(PinTicket { id, ready })
    }

    pub(super) fn unpin(&self, pin: PinId) {
        self.shared.pins.give_back(pin);
    }

    fn submit(&self, choices: Vec<Sequence>) -> Result<(), SubmitError> {
        if !self.shared.enter() {
            return Err(SubmitError::QueueFull {
                limit: self.limits.queue,
            });
        }
        // The channel has as many places as the queue, so only an engine that is gone can refuse.
        self.sender.try_send(choices).map_err(|_| {
            self.shared.leave_queue();
            self.shared.close();
            SubmitError::Stopped
        })
    }

    /// Checks everything that the engine relies on; returns the most tokens to generate.
    fn check(&self, request: &GenerateRequest) -> Result<usize, SubmitError> {
        self.check_open_for(&request.prompt)?;
        if request.max_tokens == Some(0) && request.prompt_logprobs.is_none() {
            return Err(invalid("max_tokens", "must be at least 1"));
        }
        for (field, most) in [
            ("logprobs", request.logprobs),
            ("prompt_logprobs", request.prompt_logprobs),
        ] {
            if most > Some(MAX_TOP_LOGPROBS) {
                return Err(invalid(
                    field,
                    format!("must be at most {MAX_TOP_LOGPROBS}"),
                ));
            }
        }
        self.check_tokens("stop_token_ids", request.stop_token_ids.iter())?;
        self.check_bias(&request.sampling.logit_bias)?;
        if let Some(index) = request.stop.iter().position(String::is_empty) {
            return Err(invalid("stop", format!("text {index} is empty")));
        }
        request
            .sampling
            .validate()
            .map_err(|error| invalid(error.field, format!("must be {}", error.expected)))?;
        let prompt = request.prompt.len();
        self.check_length(prompt, request.max_tokens.unwrap_or(1))?;
        let left = self.limits.max_sequence_tokens - prompt;
        let max_tokens = request.max_tokens.unwrap_or(left);
        if request.min_tokens > max_tokens {
            let reason = format!("must be at most max_tokens, {max_tokens}");
            return Err(invalid("min_tokens", reason));
        }
        Ok(max_tokens)
    }

    fn check_bias(&self, bias: &[(TokenId, f32)]) -> Result<(), SubmitError> {
        self.check_tokens("logit_bias", bias.iter().map(|(token, _)| token))?;
        let mut tokens: Vec<TokenId> = bias.iter().map(|(token, _)| *token).collect();
        tokens.sort_unstable();
        match tokens.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(invalid(
                "logit_bias",
                format!("names token {} twice", pair[0]),
            )),
            None => Ok(()),
        }
    }

    fn check_tokens<'a>(
        &self,
        field: &'static str,
        mut tokens: impl Iterator<Item = &'a TokenId>,
    ) -> Result<(), SubmitError> {
        let vocab = self.vocab;
        match tokens.find(|token| **token as usize >= vocab) {
            Some(token) => Err(invalid(
                field,
                format!("token {token} is not below the vocabulary's {vocab}"),
            )),
            None => Ok(()),
        }
    }

    fn check_open_for(&self, prompt: &[TokenId]) -> Result<(), SubmitError> {
        if !self.shared.accepts() {
            return Err(SubmitError::Stopped);
        }
        if prompt.is_empty() {
            return Err(invalid("prompt", "is empty"));
        }
        self.check_tokens("prompt", prompt.iter())
    }

    fn check_length(&self, prompt: usize, max_tokens: usize) -> Result<(), SubmitError> {
        let limit = self.limits.max_sequence_tokens;
        if prompt.saturating_add(max_tokens) > limit {
            return Err(SubmitError::ContextLength {
                prompt,
                max_tokens,
                limit,
            });
        }
        Ok(())
    }
}

fn invalid(field: &'static str, reason: impl Into<String>) -> SubmitError {
    SubmitError::Invalid {
        field,
        reason: reason.into(),
    }
}
