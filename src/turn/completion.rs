//! Continuations of prompts, free of transport: any number of prompts and choices beside one another, counted as one
//! request. Raw prompts are submitted here, conversations by [`super::chat`].

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::spelled::{self, ScoredToken, Spelled};
use super::{RejectionCause, ServedModel};
use crate::engine::{Finish, FinishReason, GenerateRequest, TokenEvent, TokenStream, Usage};
use crate::telemetry::events::ChatRejected;
use crate::telemetry::{ChatMeter, Metrics, Outcome};
use crate::tokenizer::{TokenId, Tokenizer};

/// A raw prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawPrompt {
    /// Text in which control tokens are spelled as in markup; the model's token for the beginning is put before it,
    /// where the model wants one.
    Text(String),
    /// Token ids, taken as they are.
    Tokens(Vec<TokenId>),
}

/// Raw prompts to continue; validated by whoever built it.
#[derive(Clone, Debug)]
pub struct CompletionRequest {
    /// At least one.
    pub prompts: Vec<RawPrompt>,
    /// Choices for each prompt.
    pub n: usize,
    /// How to go on; its own prompt is of no interest.
    pub options: GenerateRequest,
    /// Whether each prompt draws with a seed of its own, so that equal prompts get different answers. Else each is
    /// answered as it would be alone.
    pub vary_seeds: bool,
}

/// What a completion yields. Choices are numbered over all prompts: those of the first prompt come first.
#[derive(Clone, Debug, PartialEq)]
pub enum CompletionEvent {
    /// How likely a prompt's tokens are, where that was asked for. Comes once, before any text of its choices.
    Prompt {
        /// Which prompt.
        prompt: usize,
        /// All its tokens.
        tokens: Vec<ScoredToken>,
    },
    /// Text of a choice that is final, and the tokens that it completes where they were asked for.
    Text {
        /// Which choice.
        choice: usize,
        /// The text; empty only beside tokens.
        text: String,
        /// In order.
        tokens: Vec<ScoredToken>,
    },
    /// The end of a choice; the last one's is the end of all. An error ends all at once.
    Finished {
        /// Which choice.
        choice: usize,
        /// Why, and its own token counts.
        finish: Finish,
    },
}

/// Choices being written. Dropping it cancels the generation of all at once.
#[derive(Debug)]
pub struct CompletionStream {
    prompts: Vec<Prompt>,
    /// By prompt, then by choice.
    choices: Vec<Choice>,
    /// Choices of each prompt.
    n: usize,
    tokenizer: Arc<Tokenizer>,
    meter: ChatMeter,
    usage: Usage,
    /// The worst end so far.
    outcome: Outcome,
    /// The choice that is asked first for its next event.
    turn: usize,
}

#[derive(Debug)]
struct Prompt {
    text: String,
    /// Its first token as it is in the text.
    first: Spelled,
    tokens: usize,
    /// Whether its scores are still to come; until then its later choices are not listened to.
    unscored: bool,
}

#[derive(Debug)]
struct Choice {
    stream: TokenStream,
    ended: bool,
}

impl CompletionStream {
    /// Number of choices.
    #[must_use]
    pub fn choices(&self) -> usize {
        self.choices.len()
    }

    /// Number of prompts.
    #[must_use]
    pub fn prompts(&self) -> usize {
        self.prompts.len()
    }

    /// The text of each prompt as it was given, for an echo; empty for conversations.
    #[must_use]
    pub fn prompt_texts(&self) -> Vec<String> {
        let texts = self.prompts.iter().map(|prompt| prompt.text.clone());
        texts.collect()
    }

    /// Tokens of all prompts.
    #[must_use]
    pub fn prompt_tokens(&self) -> usize {
        self.prompts.iter().map(|prompt| prompt.tokens).sum()
    }

    /// Token counts of what has ended: each prompt once, and the tokens of all choices.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The next event of any choice; `None` after the last end. The outcome is counted before that end is given.
    pub async fn next(&mut self) -> Option<CompletionEvent> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<CompletionEvent>> {
        let all = self.choices.len();
        let mut open = false;
        for at in (self.turn..all).chain(0..self.turn) {
            let waits = !at.is_multiple_of(self.n) && self.prompts[at / self.n].unscored;
            if self.choices[at].ended {
                continue;
            }
            open = true;
            if waits {
                continue;
            }
            if let Poll::Ready(Some(event)) = self.choices[at].stream.poll_next(cx) {
                self.turn = (at + 1) % all;
                return Poll::Ready(Some(self.translate(at, event)));
            }
        }
        if open {
            Poll::Pending
        } else {
            Poll::Ready(None)
        }
    }

    fn translate(&mut self, choice: usize, event: TokenEvent) -> CompletionEvent {
        let tokenizer = &self.tokenizer;
        let spell = |scores: Vec<_>| -> Vec<ScoredToken> {
            let scores = scores.iter();
            scores
                .map(|score| ScoredToken::new(score, tokenizer))
                .collect()
        };
        let (text, tokens) = match event {
            TokenEvent::Text(text) => (text, Vec::new()),
            TokenEvent::Scored { text, tokens } => (text, spell(tokens)),
            TokenEvent::Prompt(scores) => {
                let index = choice / self.n;
                let prompt = &mut self.prompts[index];
                prompt.unscored = false;
                let first = ScoredToken::first(prompt.first.clone());
                let tokens = std::iter::once(first).chain(spell(scores)).collect();
                return CompletionEvent::Prompt {
                    prompt: index,
                    tokens,
                };
            }
            TokenEvent::Finished(finish) => {
                self.end(choice, &finish);
                return CompletionEvent::Finished { choice, finish };
            }
        };
        CompletionEvent::Text {
            choice,
            text,
            tokens,
        }
    }

    fn end(&mut self, choice: usize, finish: &Finish) {
        self.choices[choice].ended = true;
        self.usage.completion += finish.usage.completion;
        if choice.is_multiple_of(self.n) {
            self.usage.prompt += finish.usage.prompt;
            self.usage.cached += finish.usage.cached;
            self.prompts[choice / self.n].unscored = false;
        }
        let outcome = match finish.reason {
            FinishReason::Stop => Outcome::Stop,
            FinishReason::Length => Outcome::Length,
            FinishReason::Deadline => Outcome::Deadline,
            FinishReason::Error(_) => {
                self.meter.end(Outcome::Failed);
                // Nobody hears of the others any more.
                self.choices.clear();
                self.turn = 0;
                return;
            }
        };
        if self.outcome != Outcome::Deadline && outcome != Outcome::Stop {
            self.outcome = outcome;
        }
        if self.choices.iter().all(|choice| choice.ended) {
            self.meter.end(self.outcome);
        }
    }
}

/// Submits raw prompts.
///
/// # Errors
/// The engine's refusal of any of them; it is counted and none runs.
pub fn complete(
    model: &ServedModel,
    metrics: &Arc<Metrics>,
    request: CompletionRequest,
) -> Result<CompletionStream, RejectionCause> {
    let tokenizer = model.engine.tokenizer();
    let vary_seeds = request.vary_seeds;
    let prompts = request.prompts.into_iter().map(|prompt| match prompt {
        RawPrompt::Text(text) => {
            let mut tokens = tokenizer.encode_markup(&text);
            let opening = tokenizer.bos();
            tokens.splice(0..0, opening);
            Submission {
                text,
                tokens,
                opened: opening.is_some(),
                seed_offset: 0,
            }
        }
        RawPrompt::Tokens(tokens) => Submission {
            text: spelled::prompt_text(&tokens, &tokenizer),
            tokens,
            opened: false,
            seed_offset: 0,
        },
    });
    let prompts = prompts.zip(0..).map(|(submission, index)| Submission {
        seed_offset: if vary_seeds { index } else { 0 },
        ..submission
    });
    submit(model, metrics, prompts, request.n, &request.options)
        .map_err(|cause| rejected(metrics, cause))
}

/// Counts and logs a refusal.
pub(super) fn rejected(metrics: &Metrics, cause: RejectionCause) -> RejectionCause {
    let event = ChatRejected {
        reason: cause.reason(),
        cause: cause.loggable(),
    };
    event.emit(metrics);
    cause
}

/// A prompt on its way to the engine.
pub(super) struct Submission {
    /// Its text, for an echo.
    pub(super) text: String,
    pub(super) tokens: Vec<TokenId>,
    /// Whether the first token is not in the text.
    pub(super) opened: bool,
    /// Added to the request's seed.
    pub(super) seed_offset: u64,
}

/// Submits prompts. The first refusal cancels those before it.
pub(super) fn submit(
    model: &ServedModel,
    metrics: &Arc<Metrics>,
    prompts: impl Iterator<Item = Submission>,
    n: usize,
    options: &GenerateRequest,
) -> Result<CompletionStream, RejectionCause> {
    let tokenizer = model.engine.tokenizer();
    let (mut submitted, mut choices) = (Vec::new(), Vec::new());
    for prompt in prompts {
        let Submission {
            text,
            tokens,
            opened,
            seed_offset,
        } = prompt;
        let first = tokens.first().filter(|_| !opened);
        submitted.push(Prompt {
            text,
            first: first.map_or_else(Spelled::nothing, |first| Spelled::new(*first, &tokenizer)),
            tokens: tokens.len(),
            unscored: options.prompt_logprobs.is_some(),
        });
        let mut request = GenerateRequest {
            prompt: tokens,
            ..options.clone()
        };
        request.sampling.seed = request.sampling.seed.wrapping_add(seed_offset);
        let streams = model.engine.choices(request, n)?;
        choices.extend(streams.into_iter().map(|stream| Choice {
            stream,
            ended: false,
        }));
    }
    Ok(CompletionStream {
        prompts: submitted,
        choices,
        n,
        tokenizer,
        meter: metrics.accept_chat(),
        usage: Usage::default(),
        outcome: Outcome::Stop,
        turn: 0,
    })
}

#[cfg(test)]
#[path = "completion_tests.rs"]
mod tests;
