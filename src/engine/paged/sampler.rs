//! Chooses the next token from logits: penalties, bias, temperature, top-k, top-p, min-p, in this order, then one draw.
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
pub(super) struct NoUsableLogit(pub(super) usize);

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
    /// By token, for draws that top-k does not narrow down.
    weights: Vec<f32>,
    candidates: Vec<Candidate>,
    /// A row as the model gave it, for those who ask how likely a token was.
    pub(super) raw: Vec<f32>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    logit: f32,
    token: TokenId,
    /// Relative to the most likely token, which has 1.
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
        for (token, bias) in &sampling.logit_bias {
            if let Some(logit) = logits.get_mut(*token as usize) {
                *logit += bias;
            }
        }
        let best = argmax(logits).ok_or(NoUsableLogit(logits.len()))?;
        let highest = logits[best as usize];
        let greedy = sampling.temperature == 0.0 || sampling.top_k == 1;
        if greedy || highest == f32::INFINITY {
            return Ok(best);
        }
        let weigh = |logit: f32| exp((logit - highest) / sampling.temperature);
        let point = uniform(counter);
        let total = if (1..logits.len()).contains(&sampling.top_k) {
            self.gather_top_k(logits, sampling.top_k, weigh);
            sum(self.candidates.iter().map(|candidate| candidate.weight))
        } else {
            self.weights.clear();
            self.weights
                .extend(logits.iter().map(|logit| weigh(*logit)));
            let total = sum(self.weights.iter().copied());
            let floor = needed_weight(&self.weights, total, sampling);
            if floor == 0.0 {
                let weighed = self.weights.iter().copied().zip(0..);
                return Ok(draw(weighed, point * total).unwrap_or(best));
            }
            self.gather_above(logits, floor);
            total
        };
        self.keep_top_p(sampling.top_p, total);
        self.candidates
            .retain(|candidate| candidate.weight >= sampling.min_p);
        let kept = sum(self.candidates.iter().map(|candidate| candidate.weight));
        let weighed = self
            .candidates
            .iter()
            .map(|candidate| (candidate.weight, candidate.token));
        Ok(draw(weighed, point * kept).unwrap_or(best))
    }

    /// Fills `candidates` with the `top_k` most likely tokens.
    fn gather_top_k(&mut self, logits: &[f32], top_k: usize, weigh: impl Fn(f32) -> f32) {
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
        if top_k < self.candidates.len() {
            self.candidates.select_nth_unstable_by(top_k - 1, likelier);
            self.candidates.truncate(top_k);
        }
        self.candidates
            .sort_unstable_by_key(|candidate| candidate.token);
        for candidate in &mut self.candidates {
            candidate.weight = weigh(candidate.logit);
        }
    }

    /// Fills `candidates` with the tokens of at least `floor`, which is above 0.
    fn gather_above(&mut self, logits: &[f32], floor: f32) {
        let weighed = (0..).zip(&self.weights).zip(logits);
        let heavy = weighed.filter(|((_, weight), _)| **weight >= floor);
        self.candidates.clear();
        self.candidates
            .extend(heavy.map(|((token, weight), logit)| Candidate {
                logit: *logit,
                token,
                weight: *weight,
            }));
    }

    /// Keeps the smallest set whose share of `total` reaches `top_p`, most likely first.
    fn keep_top_p(&mut self, top_p: f32, total: f64) {
        if top_p >= 1.0 {
            return;
        }
        self.candidates.sort_unstable_by(likelier);
        let goal = total * f64::from(top_p);
        let mut sum = 0.0;
        let reaching = self.candidates.iter().position(|candidate| {
            sum += f64::from(candidate.weight);
            sum >= goal
        });
        self.candidates
            .truncate(reaching.map_or(usize::MAX, |last| last + 1));
    }
}

/// The weight below which top-p and min-p need no token: those below the mean of what top-p leaves out weigh less than
/// that together, so the set that top-p keeps is found, and sorted, among the others.
fn needed_weight(weights: &[f32], total: f64, sampling: &Sampling) -> f32 {
    if sampling.top_p >= 1.0 {
        return sampling.min_p;
    }
    // Rounding a bound down is safe
    let left_out = (total * f64::from(1.0 - sampling.top_p) / weights.len() as f64 * 0.999) as f32;
    sampling.min_p.max(left_out)
}

fn sum(weights: impl Iterator<Item = f32>) -> f64 {
    weights.map(f64::from).sum()
}

/// The token at `point` of all weights laid end to end; by rounding it may lie past the end.
fn draw(weighed: impl Iterator<Item = (f32, TokenId)>, point: f64) -> Option<TokenId> {
    let mut left = point;
    let mut last = None;
    for (weight, token) in weighed {
        left -= f64::from(weight);
        if left < 0.0 {
            return Some(token);
        }
        if weight > 0.0 {
            last = Some(token);
        }
    }
    last
}

/// Most likely first, the lower id on a tie.
fn likelier(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.token.cmp(&b.token))
}

/// The highest logit's id, the lowest of equals; `None` when all are NaN or minus infinity.
pub(super) fn argmax(logits: &[f32]) -> Option<TokenId> {
    /// Running maxima side by side, which vector instructions compute at once.
    const LANES: usize = 16;
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let raise = |highest: &mut f32, logit: &f32| {
        if *logit > *highest {
            *highest = *logit;
        }
    };
    let (chunks, rest) = logits.as_chunks::<LANES>();
    for chunk in chunks {
        lanes
            .iter_mut()
            .zip(chunk)
            .for_each(|(highest, logit)| raise(highest, logit));
    }
    lanes
        .iter_mut()
        .zip(rest)
        .for_each(|(highest, logit)| raise(highest, logit));
    let highest = lanes.into_iter().fold(f32::NEG_INFINITY, f32::max);
    let usable = (0..)
        .zip(logits)
        .filter(|(_, logit)| **logit > f32::NEG_INFINITY);
    let mut best = usable.filter(|(_, logit)| **logit == highest);
    best.next().map(|(token, _)| token)
}

/// The exponential of a number up to 0, to 3e-7 of its value; 0 below -87 and for NaN. Made of additions and
/// multiplications, so that it is the same on every machine and computes several at once.
pub(super) fn exp(x: f32) -> f32 {
    /// Adding it rounds to a whole number, which then is in the low bits.
    const SHIFT: f32 = 12_582_912.0;
    // ln 2 in two parts: the first has few bits, so that its multiples are exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let shifted = x * std::f32::consts::LOG2_E + SHIFT;
    let whole = shifted - SHIFT;
    let rest = x - whole * LN_2_HIGH - whole * LN_2_LOW;
    let series = [
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ];
    let power = series
        .into_iter()
        .fold(0.0, |sum, factor| sum * rest + factor);
    let exponent = shifted
        .to_bits()
        .wrapping_sub(SHIFT.to_bits())
        .wrapping_add(127);
    let scale = f32::from_bits(exponent << 23);
    if x > -87.0 { power * scale } else { 0.0 }
}

/// A number from 0 to below 1 that depends on the counter only.
fn uniform(counter: DrawCounter) -> f64 {
    let mut state = scramble(counter.seed);
    state = scramble(state ^ counter.choice);
    state = scramble(state ^ counter.position);
    // 53 bits are exact
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
                // Counts stay below the context
                let times = *said as f32;
                *logit -= sampling.presence_penalty + sampling.frequency_penalty * times;
            }
        }
    }
}
