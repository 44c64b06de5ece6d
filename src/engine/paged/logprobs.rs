//! Log-probabilities, read off a model's logits before anything changes them, where somebody asked for them; kept until
//! the text that they belong to is final.

use std::collections::VecDeque;

use super::sampler::{NoUsableLogit, argmax, exp};
use crate::engine::{TokenLogprob, TopTokens};
use crate::tokenizer::TokenId;

/// Rows of one sequence whose logits one step computes to score a prompt. They are as wide as the vocabulary: at 49,152
/// tokens 32 rows take 6 MiB.
const ROWS: usize = 32;

/// What turns one row's logits into log-probabilities: the log-softmax, summed in a fixed order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Distribution {
    highest: f32,
    /// Natural logarithm of the sum of all `e^(logit - highest)`.
    log_total: f64,
}

impl Distribution {
    fn of(logits: &[f32]) -> Result<Self, NoUsableLogit> {
        /// Sums side by side, which vector instructions compute at once.
        const LANES: usize = 16;
        let best = argmax(logits).ok_or(NoUsableLogit(logits.len()))?;
        let highest = logits[best as usize];
        let mut lanes = [0.0_f64; LANES];
        let (chunks, rest) = logits.as_chunks::<LANES>();
        let add = |(sum, logit): (&mut f64, &f32)| *sum += f64::from(exp(below(highest, *logit)));
        for chunk in chunks {
            lanes.iter_mut().zip(chunk).for_each(add);
        }
        lanes.iter_mut().zip(rest).for_each(add);
        Ok(Self {
            highest,
            log_total: lanes.iter().sum::<f64>().ln(),
        })
    }

    /// At most 0; minus infinity where the logit is or is no number.
    fn logprob(&self, logit: f32) -> f32 {
        let exact = f64::from(below(self.highest, logit)) - self.log_total;
        // A log-probability has no more digits than the logits. Adding 0 takes the sign off a zero.
        (exact as f32).max(f32::NEG_INFINITY) + 0.0
    }

    fn top(&self, logits: &[f32], most: usize) -> TopTokens {
        TopTokens::of(logits, most).map(|logit| self.logprob(logit))
    }
}

/// How far a logit is below the highest, also where that is infinite.
fn below(highest: f32, logit: f32) -> f32 {
    if logit == highest {
        return 0.0;
    }
    logit - highest
}

/// Log-probabilities of a prompt's tokens from the second on, filled as its rows are computed.
#[derive(Debug)]
pub(super) struct PromptScores {
    most: usize,
    /// How many tokens were scored.
    scored: usize,
    /// Their scores, until they are told.
    scores: Vec<TokenLogprob>,
    told: bool,
}

impl PromptScores {
    /// `most` is the number of most likely tokens in each place.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            scored: 0,
            scores: Vec::new(),
            told: false,
        }
    }

    /// Positions whose logits were read: their KV may come from a cache from now on.
    pub(super) fn scored(&self) -> usize {
        self.scored
    }

    /// Most rows that a step may compute of a prompt of `prompt` tokens.
    pub(super) fn most_rows(&self, prompt: usize) -> usize {
        if self.scored + 1 < prompt {
            ROWS
        } else {
            usize::MAX
        }
    }

    /// Reads the logits of the next position, after which `token` stands.
    pub(super) fn read(&mut self, token: TokenId, logits: &[f32]) -> Result<(), NoUsableLogit> {
        let distribution = Distribution::of(logits)?;
        self.scored += 1;
        self.scores.push(TokenLogprob {
            token,
            logprob: distribution.logprob(logits[token as usize]),
            top: distribution.top(logits, self.most),
        });
        Ok(())
    }

    /// All scores of a prompt of `prompt` tokens, once, when they are there.
    pub(super) fn take_whole(&mut self, prompt: usize) -> Option<Vec<TokenLogprob>> {
        if self.told || self.scored + 1 < prompt {
            return None;
        }
        self.told = true;
        Some(std::mem::take(&mut self.scores))
    }
}

/// Log-probabilities of generated tokens on their way out.
#[derive(Debug)]
pub(super) struct OutputScores {
    most: usize,
    distribution: Distribution,
    top: TopTokens,
    chosen: Option<TokenLogprob>,
    /// Each with the bytes of text that must be final before it may be shown.
    waiting: VecDeque<(usize, TokenLogprob)>,
}

impl OutputScores {
    /// `most` is the number of most likely tokens in each place.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            distribution: Distribution::default(),
            top: TopTokens::default(),
            chosen: None,
            waiting: VecDeque::new(),
        }
    }

    /// Reads a row before it is changed, and keeps a copy of it in `raw`.
    pub(super) fn read(&mut self, logits: &[f32], raw: &mut Vec<f32>) -> Result<(), NoUsableLogit> {
        self.distribution = Distribution::of(logits)?;
        self.top = self.distribution.top(logits, self.most);
        raw.clear();
        raw.extend_from_slice(logits);
        Ok(())
    }

    /// `token` was chosen from the row that was read last.
    pub(super) fn choose(&mut self, token: TokenId, raw: &[f32]) {
        self.chosen = Some(TokenLogprob {
            token,
            logprob: self.distribution.logprob(raw[token as usize]),
            top: self.top,
        });
    }

    /// The chosen token is part of the output, and shown when `bytes` bytes of text are final.
    pub(super) fn wait(&mut self, bytes: usize) {
        self.waiting
            .extend(self.chosen.take().map(|chosen| (bytes, chosen)));
    }

    /// What may be shown once `bytes` bytes are final.
    pub(super) fn take(&mut self, bytes: usize) -> Vec<TokenLogprob> {
        let ready = self.waiting.partition_point(|(needed, _)| *needed <= bytes);
        self.waiting
            .drain(..ready)
            .map(|(_, score)| score)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn logprobs(logits: &[f32]) -> Vec<f32> {
        let distribution = Distribution::of(logits).unwrap();
        logits
            .iter()
            .map(|logit| distribution.logprob(*logit))
            .collect()
    }

    proptest! {
        #[test]
        fn they_are_the_log_softmax(logits in prop::collection::vec(-40.0..40.0_f32, 1..100)) {
            let highest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            let total: f64 = logits.iter().map(|logit| (f64::from(*logit) - highest).exp()).sum();
            for (logit, got) in logits.iter().zip(logprobs(&logits)) {
                let exact = f64::from(*logit) - highest - total.ln();
                prop_assert!((f64::from(got) - exact).abs() < 1e-5, "{got} {exact}");
                prop_assert!(got <= 0.0);
            }
        }
    }

    /// Fault: what the model rules out has a log-probability that is no number.
    #[test]
    fn what_is_ruled_out_is_minus_infinity_and_what_is_certain_is_zero() {
        let none = f32::NEG_INFINITY;
        assert_eq!(logprobs(&[none, 3.0, f32::NAN]), [none, 0.0, none]);
        assert_eq!(logprobs(&[1.0, f32::INFINITY, none]), [none, 0.0, none]);
        assert!(logprobs(&[5.0])[0].is_sign_positive());
        assert_eq!(Distribution::of(&[f32::NAN, none]), Err(NoUsableLogit(2)));
    }
}
