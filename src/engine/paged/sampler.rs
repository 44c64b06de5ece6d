//! Chooses the next token from logits: penalties, temperature, top-k, top-p, min-p, in this order, then one draw.
//! Draws are counter-based and ties go to the lower id, so a choice depends on the sequence alone.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::engine::Sampling;
use crate::tokenizer::TokenId;

/// Logits that no token can be chosen from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no token can be chosen: all {0} logits are NaN or minus infinity")]
pub(super) struct NoUsableLogit(usize);

/// Which draw of a request this is; equal counters give equal draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DrawCounter {
    pub(super) seed: u64,
    /// Index among the request's alternatives.
    pub(super) choice: u64,
    /// Index of the generated token.
    pub(super) position: u64,
}

/// Scratch memory, shared by all sequences of an engine.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    candidates: Vec<Candidate>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    logit: f32,
    token: TokenId,
    /// Relative to the most likely candidate, which has 1.
    weight: f32,
}

impl Sampler {
    /// Chooses a token; `logits` is one row over the vocabulary and may be changed.
    pub(super) fn sample(
        &mut self,
        logits: &mut [f32],
        sampling: &Sampling,
        penalties: &Penalties,
        counter: DrawCounter,
    ) -> Result<TokenId, NoUsableLogit> {
        penalties.apply(logits, sampling);
        let best = argmax(logits).ok_or(NoUsableLogit(logits.len()))?;
        let highest = logits[best as usize];
        let greedy = sampling.temperature == 0.0 || sampling.top_k == 1;
        if greedy || highest == f32::INFINITY {
            return Ok(best);
        }
        self.gather(logits);
        self.keep_top_k(sampling.top_k);
        self.weigh(highest, sampling.temperature);
        self.keep_top_p(sampling.top_p);
        self.candidates
            .retain(|candidate| candidate.weight >= sampling.min_p);
        Ok(self.draw(uniform(counter)).unwrap_or(best))
    }

    /// Fills `candidates` with the tokens that may be chosen at all, by ascending id.
    fn gather(&mut self, logits: &[f32]) {
        let usable = (0..)
            .zip(logits)
            .filter(|(_, logit)| **logit > f32::NEG_INFINITY);
        self.candidates.clear();
        self.candidates
            .extend(usable.map(|(token, logit)| Candidate {
                logit: *logit,
                token,
                weight: 0.0,
            }));
    }

    fn keep_top_k(&mut self, top_k: usize) {
        if top_k == 0 || top_k >= self.candidates.len() {
            return;
        }
        self.candidates.select_nth_unstable_by(top_k - 1, likelier);
        self.candidates.truncate(top_k);
        self.candidates
            .sort_unstable_by_key(|candidate| candidate.token);
    }

    /// Weighs the candidates and drops those that weigh nothing.
    fn weigh(&mut self, highest: f32, temperature: f32) {
        for candidate in &mut self.candidates {
            candidate.weight = ((candidate.logit - highest) / temperature).exp();
        }
        self.candidates.retain(|candidate| candidate.weight > 0.0);
    }

    fn total(&self) -> f64 {
        self.candidates
            .iter()
            .map(|candidate| f64::from(candidate.weight))
            .sum()
    }

    /// Keeps the smallest set whose share reaches `top_p`, most likely first.
    fn keep_top_p(&mut self, top_p: f32) {
        if top_p >= 1.0 {
            return;
        }
        let total = self.total();
        let goal = total * f64::from(top_p);
        // Tokens below this weigh less than 1 - top_p together, so none of them is needed: sort only the others.
        #[allow(clippy::cast_precision_loss)] // a vocabulary is far below 2^52
        let floor = (total - goal) / self.candidates.len() as f64;
        self.candidates
            .retain(|candidate| f64::from(candidate.weight) >= floor);
        self.candidates.sort_unstable_by(likelier);
        let mut sum = 0.0;
        let reaching = self.candidates.iter().position(|candidate| {
            sum += f64::from(candidate.weight);
            sum >= goal
        });
        self.candidates
            .truncate(reaching.map_or(usize::MAX, |last| last + 1));
    }

    /// The candidate at `point`, 0 to below 1, of all their weights laid end to end.
    fn draw(&self, point: f64) -> Option<TokenId> {
        let mut left = point * self.total();
        for candidate in &self.candidates {
            left -= f64::from(candidate.weight);
            if left < 0.0 {
                return Some(candidate.token);
            }
        }
        self.candidates.last().map(|candidate| candidate.token)
    }
}

/// Most likely first, the lower id on a tie.
fn likelier(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.token.cmp(&b.token))
}

/// The highest logit's id, the lowest of equals; `None` when all are NaN or minus infinity.
fn argmax(logits: &[f32]) -> Option<TokenId> {
    let mut best = None;
    let mut highest = f32::NEG_INFINITY;
    for (token, logit) in (0..).zip(logits) {
        if *logit > highest {
            highest = *logit;
            best = Some(token);
        }
    }
    best
}

/// A number from 0 to below 1 that depends on the counter only.
fn uniform(counter: DrawCounter) -> f64 {
    let mut state = scramble(counter.seed);
    state = scramble(state ^ counter.choice);
    state = scramble(state ^ counter.position);
    #[allow(clippy::cast_precision_loss)] // 53 bits are exact
    let numerator = (state >> 11) as f64;
    numerator / (1_u64 << 53) as f64
}

/// A step of the SplitMix64 generator (Steele, Lea, Flood 2014): every input bit reaches every output bit.
fn scramble(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// What one sequence's penalties depend on: which tokens it has seen, and how often it said them.
#[derive(Debug, Default)]
pub(super) struct Penalties {
    /// Occurrences in the output; 0 for tokens of the prompt only. Empty when no penalty is on.
    seen: HashMap<TokenId, u32>,
    on: bool,
}

impl Penalties {
    pub(super) fn new(sampling: &Sampling, prompt: &[TokenId]) -> Self {
        let repetition = sampling.repetition_penalty != 1.0;
        let on =
            repetition || sampling.presence_penalty != 0.0 || sampling.frequency_penalty != 0.0;
        let mut seen = HashMap::new();
        if repetition {
            seen.extend(prompt.iter().map(|token| (*token, 0)));
        }
        Self { seen, on }
    }

    /// Counts a generated token.
    pub(super) fn add(&mut self, token: TokenId) {
        if self.on {
            *self.seen.entry(token).or_insert(0) += 1;
        }
    }

    fn apply(&self, logits: &mut [f32], sampling: &Sampling) {
        for (token, said) in &self.seen {
            let Some(logit) = logits.get_mut(*token as usize) else {
                continue;
            };
            if *logit > 0.0 {
                *logit /= sampling.repetition_penalty;
            } else {
                *logit *= sampling.repetition_penalty;
            }
            if *said > 0 {
                #[allow(clippy::cast_precision_loss)] // counts stay below the context
                let times = *said as f32;
                *logit -= sampling.presence_penalty + sampling.frequency_penalty * times;
            }
        }
    }
}
