//! One request inside the engine, from the queue to its last event.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::choices::Choice;
use super::ending::Ending;
use super::kv::{BlockTable, KeySpace};
use super::logprobs::PromptScores;
use super::output::Output;
use super::sampler::{DrawCounter, NoUsableLogit, Penalties, Sampler};
use super::speculate::Speculation;
use crate::engine::{
    Finish, FinishReason, GenerateRequest, PinId, Priority, Sampling, StreamSender, Timings,
    TokenEvent, Usage,
};
use crate::telemetry::EngineStats;
use crate::tokenizer::{TokenId, Tokenizer};

/// What a sequence is computed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Its continuation.
    Generate,
    /// Its KV, for those that come later.
    Warm,
    /// Its KV, which then stays resident.
    Pin {
        /// The pin.
        id: PinId,
        /// Its share of the pins' budget.
        blocks: usize,
    },
}

/// Why a sequence is not computed any further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It ended as it should; its KV is good.
    Finished(FinishReason),
    /// Its computation failed; its KV is not to be trusted.
    Failed(String),
    /// Nobody listens any more.
    Dropped,
}

/// A request's state.
#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) purpose: Purpose,
    pub(super) priority: Priority,
    pub(super) deadline: Option<Instant>,
    pub(super) arrived: Instant,
    /// Order of arrival among all sequences of the engine.
    pub(super) serial: u64,
    /// Prompt and what was generated.
    pub(super) tokens: Vec<TokenId>,
    pub(super) table: BlockTable,
    /// Tokens that this step computes.
    pub(super) rows: usize,
    pub(super) preemptions: u32,
    pub(super) end: Option<End>,
    prompt: usize,
    max_tokens: usize,
    cached: usize,
    sampling: Sampling,
    penalties: Penalties,
    choice: Choice,
    ending: Ending,
    prompt_scores: Option<PromptScores>,
    output: Output,
    speculation: Speculation,
    sender: StreamSender,
    started_at: Option<Instant>,
    first_token_at: Option<Instant>,
    last_token_at: Option<Instant>,
    /// The first step that sampled a token for nobody.
    dropped_in: Option<u64>,
}

impl Sequence {
    /// A sequence that generates up to `max_tokens` tokens.
    pub(super) fn generate(
        mut request: GenerateRequest,
        choice: Choice,
        max_tokens: usize,
        sender: StreamSender,
        arrived: Instant,
    ) -> Self {
        let ending = Ending::new(&mut request);
        Self {
            purpose: Purpose::Generate,
            priority: request.priority,
            deadline: request.deadline,
            arrived,
            serial: 0,
            table: BlockTable::default(),
            rows: 0,
            preemptions: 0,
            end: None,
            prompt: request.prompt.len(),
            max_tokens,
            cached: 0,
            penalties: Penalties::new(&request.sampling, &request.prompt),
            sampling: request.sampling,
            tokens: request.prompt,
            choice,
            ending,
            prompt_scores: request.prompt_logprobs.map(PromptScores::new),
            output: Output::new(request.stop, request.logprobs),
            speculation: Speculation::default(),
            sender,
            started_at: None,
            first_token_at: None,
            last_token_at: None,
            dropped_in: None,
        }
    }

    /// A sequence that computes `prompt`, a number of whole blocks, for `purpose`, and says nothing.
    pub(super) fn warm(
        prompt: Vec<TokenId>,
        purpose: Purpose,
        sender: StreamSender,
        arrived: Instant,
    ) -> Self {
        let request = GenerateRequest {
            prompt,
            priority: Priority::Low,
            ..GenerateRequest::default()
        };
        let mut sequence = Self::generate(request, Choice::default(), 0, sender, arrived);
        sequence.purpose = purpose;
        sequence
    }

    /// Whether it is computed for later use only.
    pub(super) fn warms(&self) -> bool {
        self.purpose != Purpose::Generate
    }

    /// Whether its reader is gone.
    pub(super) fn is_abandoned(&self) -> bool {
        self.sender.is_closed()
    }

    /// The space whose cached prefixes it may use.
    pub(super) fn key_space(&self) -> KeySpace {
        KeySpace::default()
    }

    /// Tokens whose KV is not computed yet.
    pub(super) fn pending(&self) -> usize {
        self.tokens.len() - self.table.stored()
    }

    /// Tokens that may come from the cache: a generation computes at least its last one, for the logits, and a prompt
    /// that is to be scored whatever was not scored yet.
    pub(super) fn shareable(&self) -> &[TokenId] {
        match (self.purpose, &self.prompt_scores) {
            (Purpose::Warm | Purpose::Pin { .. }, _) => &self.tokens,
            (Purpose::Generate, Some(scores)) if scores.scored() + 1 < self.prompt => {
                &self.tokens[..scores.scored()]
            }
            (Purpose::Generate, _) => &self.tokens[..self.tokens.len() - 1],
        }
    }

    /// Most rows that one step may compute of it.
    pub(super) fn most_rows(&self) -> usize {
        let scores = self.prompt_scores.as_ref();
        scores.map_or(usize::MAX, |scores| scores.most_rows(self.prompt))
    }

    /// Those of this step's rows whose logits score the prompt's next token; the first row is 0.
    pub(super) fn rows_to_score(&self) -> Range<usize> {
        let Some(scores) = &self.prompt_scores else {
            return 0..0;
        };
        let stored = self.table.stored();
        let start = scores.scored().max(stored);
        let end = (stored + self.rows).min(self.prompt - 1).max(start);
        start - stored..end - stored
    }

    /// Reads the logits of [`Sequence::rows_to_score`].
    pub(super) fn score_prompt<'a>(
        &mut self,
        rows: impl Iterator<Item = &'a mut [f32]>,
    ) -> Result<(), NoUsableLogit> {
        if let Some(scores) = &mut self.prompt_scores {
            for logits in rows {
                scores.read(self.tokens[scores.scored() + 1], logits)?;
            }
        }
        Ok(())
    }

    /// Whether it waits for the first of its request's choices.
    pub(super) fn is_held(&self) -> bool {
        self.choice.is_held()
    }

    /// Why it ends when all its KV is computed and no token is wanted: a pin is whole, a prompt was only to be scored.
    pub(super) fn reason_when_computed(&self) -> FinishReason {
        match self.purpose {
            Purpose::Warm | Purpose::Pin { .. } => FinishReason::Stop,
            Purpose::Generate => FinishReason::Length,
        }
    }

    /// Whether it said something and needs just its next token.
    pub(super) fn decodes(&self) -> bool {
        self.completion() > 0 && self.pending() == 1
    }

    /// Whether this step's rows reach the end of what is known, so that the next token can be chosen.
    pub(super) fn wants_logits(&self) -> bool {
        self.rows > 0 && self.known_rows() == self.pending() && self.completion() < self.max_tokens
    }

    /// Makes this step compute its next token, and up to `most` guessed ones with it, one of `streams` streams.
    pub(super) fn decode(&mut self, most: usize, streams: usize) {
        let left = self.max_tokens - self.completion() - 1;
        let most = most.min(left);
        self.speculation.look_up(&self.tokens, most, streams);
        self.rows = 1 + self.speculation.guess().len();
    }

    /// Makes this step compute nothing of it, unless it is said otherwise.
    pub(super) fn rest(&mut self) {
        self.rows = 0;
        self.speculation.clear();
    }

    /// Tokens that this step computes without knowing whether they will be said; the last of its rows.
    pub(super) fn guess(&self) -> &[TokenId] {
        self.speculation.guess()
    }

    /// Those of this step's rows whose tokens are known.
    pub(super) fn known_rows(&self) -> usize {
        self.rows - self.guess().len()
    }

    /// Whether the token just accepted is the guess of that index, so that the row computed for it counts.
    pub(super) fn guessed_right(&self, index: usize) -> bool {
        self.end.is_none() && self.tokens.last() == self.guess().get(index)
    }

    /// Notes how many of the guesses were right.
    pub(super) fn end_guess(&mut self, right: usize, stats: &EngineStats) {
        add(&stats.speculated_tokens, self.guess().len());
        add(&stats.speculated_right_tokens, right);
        self.speculation.learn(right, self.end.is_some());
        self.speculation.clear();
    }

    /// Most tokens that it can come to need room for.
    pub(super) fn most_tokens(&self) -> usize {
        self.prompt + self.max_tokens
    }

    /// Tokens generated.
    pub(super) fn completion(&self) -> usize {
        self.tokens.len() - self.prompt
    }

    /// Whether the engine never worked on it.
    pub(super) fn is_new(&self) -> bool {
        self.started_at.is_none()
    }

    /// Notes the first step that works on it.
    pub(super) fn start(&mut self, now: Instant, stats: &EngineStats) {
        self.started_at = Some(now);
        let room = self.most_tokens() - self.tokens.len();
        self.tokens.reserve_exact(room);
        if self.choice.is_first() {
            add(&stats.prompt_tokens, self.prompt);
            add(&stats.prefix_query_tokens, self.prompt);
        }
    }

    /// Notes `tokens` of its context that came from the cache. What is found again after a preemption does not count,
    /// nor what one choice finds of another.
    pub(super) fn count_cached(&mut self, tokens: usize, stats: &EngineStats) {
        if self.preemptions == 0 && self.choice.is_first() {
            self.cached += tokens;
            add(&stats.prefix_hit_tokens, tokens);
        }
    }

    /// Ends it when its reader is gone or its deadline passed.
    pub(super) fn expire(&mut self, now: Instant) {
        if self.end.is_some() {
            return;
        }
        if self.sender.is_closed() {
            self.end = Some(End::Dropped);
        } else if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.end = Some(End::Finished(FinishReason::Deadline));
        }
    }

    /// Chooses its next token from `logits`.
    pub(super) fn choose(
        &mut self,
        sampler: &mut Sampler,
        tokenizer: &Tokenizer,
        logits: &mut [f32],
    ) -> Result<TokenId, NoUsableLogit> {
        if let Some(scores) = self.output.scores() {
            scores.read(logits, &mut sampler.raw)?;
        }
        let said = self.completion();
        self.ending.suppress(said, tokenizer, logits);
        let counter = DrawCounter {
            seed: self.sampling.seed,
            choice: self.choice.index(),
            position: said as u64,
        };
        let token = sampler.sample(logits, &self.sampling, &self.penalties, counter)?;
        if let Some(scores) = self.output.scores() {
            scores.choose(token, &sampler.raw);
        }
        Ok(token)
    }

    /// Adds a chosen token and decides whether it is the last.
    pub(super) fn accept(
        &mut self,
        token: TokenId,
        tokenizer: &Tokenizer,
        now: Instant,
        stats: &EngineStats,
    ) {
        self.tokens.push(token);
        self.penalties.add(token);
        self.choice.release_others();
        add(&stats.generation_tokens, 1);
        match self.last_token_at.replace(now) {
            Some(last) => stats
                .inter_token
                .observe_duration(now.saturating_duration_since(last)),
            None => {
                self.first_token_at = Some(now);
                if self.choice.is_first() {
                    stats
                        .time_to_first_token
                        .observe_duration(now.saturating_duration_since(self.arrived));
                }
            }
        }
        if self.say(token, tokenizer) {
            self.end = Some(End::Finished(FinishReason::Stop));
        } else if self.completion() >= self.max_tokens {
            self.end = Some(End::Finished(FinishReason::Length));
        }
    }

    /// Makes text of a token; `true` when it ends the generation.
    fn say(&mut self, token: TokenId, tokenizer: &Tokenizer) -> bool {
        if self.ending.ends(token, tokenizer) {
            return true;
        }
        let search = self.ending.searches(self.completion());
        let bytes = if self.completion() == 1 {
            tokenizer.first_token_bytes(token)
        } else {
            tokenizer.token_bytes(token)
        };
        self.output.push(bytes, search)
    }

    /// Counts a token sampled in `step` though the reader was gone in an earlier step already.
    pub(super) fn count_zombie(&mut self, step: u64, stats: &EngineStats) {
        if self.sender.is_closed() && *self.dropped_in.get_or_insert(step) < step {
            add(&stats.zombie_tokens, 1);
        }
    }

    /// Hands over what became final in this step; an ended sequence does so with its last event.
    pub(super) fn deliver(&mut self) {
        if self.end.is_none() && !self.tell() {
            self.end = Some(End::Dropped);
        }
    }

    /// Sends what is final and was not sent yet; `false` when nobody listens.
    fn tell(&mut self) -> bool {
        let prompt = self.prompt_scores.as_mut();
        if let Some(scores) = prompt.and_then(|scores| scores.take_whole(self.prompt))
            && !self.sender.send(TokenEvent::Prompt(scores))
        {
            return false;
        }
        let event = self.output.take_event();
        event.is_none_or(|event| self.sender.send(event))
    }

    /// Sends what is left to say and the terminal event; `false` when nobody listens.
    pub(super) fn finish(mut self, reason: FinishReason, now: Instant) -> bool {
        self.output.finish();
        if !self.tell() {
            return false;
        }
        let finish = Finish {
            reason,
            usage: Usage {
                prompt: self.prompt,
                cached: self.cached,
                completion: self.completion(),
            },
            timings: Timings {
                queue: self.since_arrival(self.started_at.unwrap_or(now)),
                first_token: self
                    .first_token_at
                    .map_or(Duration::ZERO, |at| self.since_arrival(at)),
                total: self.since_arrival(now),
            },
        };
        self.sender.send(TokenEvent::Finished(finish))
    }

    fn since_arrival(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.arrived)
    }
}

fn add(counter: &std::sync::atomic::AtomicU64, count: usize) {
    counter.fetch_add(count as u64, std::sync::atomic::Ordering::Relaxed);
}
