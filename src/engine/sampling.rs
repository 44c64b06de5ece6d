//! How the next token is chosen, and which values mean something.

use crate::tokenizer::TokenId;

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
    /// Added to the logits of these tokens, each named once, -100 to 100. As good as forbids or forces them.
    pub logit_bias: Vec<(TokenId, f32)>,
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
            logit_bias: Vec::new(),
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
            (
                "logit_bias",
                self.logit_bias
                    .iter()
                    .all(|(_, bias)| (-100.0..=100.0).contains(bias)),
                "numbers from -100 to 100",
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
