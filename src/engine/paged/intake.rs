//! The callers' side: what can never run is refused, the rest goes into the bounded queue.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::runner::RunnerLimits;
use super::sequence::{Purpose, Sequence};
use super::shared::Shared;
use crate::engine::{
    EngineLimits, GenerateRequest, PinId, PinTicket, SubmitError, TokenStream, stream_channel,
};
use crate::tokenizer::TokenId;

/// Checks requests and sends them to the engine thread.
pub(super) struct Intake {
    shared: Arc<Shared>,
    sender: SyncSender<Sequence>,
    limits: EngineLimits,
    vocab: usize,
}

impl Intake {
    /// `pin_blocks` of the runner's blocks may be taken by pins, so no request may need them.
    pub(super) fn new(
        shared: Arc<Shared>,
        runner: RunnerLimits,
        pin_blocks: usize,
    ) -> (Self, Receiver<Sequence>) {
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

    pub(super) fn generate(&self, request: GenerateRequest) -> Result<TokenStream, SubmitError> {
        let max_tokens = self.check(&request)?;
        let (sender, stream) = stream_channel(max_tokens);
        let arrived = (self.shared.clock)();
        self.submit(Sequence::generate(request, max_tokens, sender, arrived))?;
        Ok(stream)
    }

    pub(super) fn warm(&self, prompt: Vec<TokenId>) -> Result<TokenStream, SubmitError> {
        let (prompt, _) = self.whole_blocks(prompt)?;
        self.submit_warm(prompt, Purpose::Warm)
    }

    pub(super) fn pin(&self, prompt: Vec<TokenId>) -> Result<PinTicket, SubmitError> {
        let (prompt, blocks) = self.whole_blocks(prompt)?;
        let id = self
            .shared
            .pins
            .claim(blocks)
            .map_err(|reason| invalid("pin", reason))?;
        match self.submit_warm(prompt, Purpose::Pin { id, blocks }) {
            Ok(ready) => Ok(PinTicket { id, ready }),
            Err(error) => {
                self.shared.pins.free(id, blocks);
                Err(error)
            }
        }
    }

    /// The part of a prefix that can be shared, and its blocks.
    fn whole_blocks(&self, mut prompt: Vec<TokenId>) -> Result<(Vec<TokenId>, usize), SubmitError> {
        self.check_open_for(&prompt)?;
        self.check_length(prompt.len(), 0)?;
        let blocks = prompt.len() / self.limits.block_tokens;
        prompt.truncate(blocks * self.limits.block_tokens);
        Ok((prompt, blocks))
    }

    fn submit_warm(
        &self,
        prompt: Vec<TokenId>,
        purpose: Purpose,
    ) -> Result<TokenStream, SubmitError> {
        let (sender, stream) = stream_channel(0);
        let arrived = (self.shared.clock)();
        self.submit(Sequence::warm(prompt, purpose, sender, arrived))?;
        Ok(stream)
    }

    pub(super) fn unpin(&self, pin: PinId) {
        self.shared.pins.give_back(pin);
    }

    fn submit(&self, sequence: Sequence) -> Result<(), SubmitError> {
        if !self.shared.enter() {
            return Err(SubmitError::QueueFull {
                limit: self.limits.queue,
            });
        }
        // The channel has as many places as the queue, so only an engine that is gone can refuse.
        self.sender.try_send(sequence).map_err(|_| {
            self.shared.leave_queue();
            self.shared.close();
            SubmitError::Stopped
        })
    }

    /// Checks everything that the engine relies on; returns the most tokens to generate.
    fn check(&self, request: &GenerateRequest) -> Result<usize, SubmitError> {
        self.check_open_for(&request.prompt)?;
        if request.max_tokens == Some(0) {
            return Err(invalid("max_tokens", "must be at least 1"));
        }
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
        Ok(request.max_tokens.unwrap_or(left))
    }

    fn check_open_for(&self, prompt: &[TokenId]) -> Result<(), SubmitError> {
        if !self.shared.accepts() {
            return Err(SubmitError::Stopped);
        }
        if prompt.is_empty() {
            return Err(invalid("prompt", "is empty"));
        }
        let unknown = |token: &&TokenId| **token as usize >= self.vocab;
        if let Some(token) = prompt.iter().find(unknown) {
            let vocab = self.vocab;
            return Err(invalid(
                "prompt",
                format!("token {token} is not below the vocabulary's {vocab}"),
            ));
        }
        Ok(())
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
