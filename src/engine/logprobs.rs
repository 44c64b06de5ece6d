//! How likely tokens were, as readers get it. Entries have a fixed size, so that making one allocates nothing.

use std::fmt;

use crate::tokenizer::TokenId;

/// Most tokens that may be asked for in one place.
pub const MAX_TOP_LOGPROBS: usize = 20;

/// How likely the model found one token, and which it found the most likely in its place.
///
/// Of the model's own distribution, the log-softmax of its logits: before penalties, bias, temperature and truncation.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprob {
    /// The token that stands there.
    pub token: TokenId,
    /// Its log-probability, at most 0; minus infinity for what the model rules out.
    pub logprob: f32,
    /// The most likely tokens, as many as were asked for, if the model allows so many.
    pub top: TopTokens,
}

/// Up to [`MAX_TOP_LOGPROBS`] tokens with their log-probabilities, most likely first, the lower id on a tie.
#[derive(Clone, Copy)]
pub struct TopTokens {
    tokens: [(TokenId, f32); MAX_TOP_LOGPROBS],
    len: usize,
}

impl TopTokens {
    /// The tokens, each with a number: its log-probability.
    #[must_use]
    pub fn as_slice(&self) -> &[(TokenId, f32)] {
        &self.tokens[..self.len]
    }

    /// The `most` highest of `values`, which are numbered by token; what is not above minus infinity is left out.
    pub(super) fn of(values: &[f32], most: usize) -> Self {
        let mut top = Self::default();
        let most = most.min(MAX_TOP_LOGPROBS);
        if most == 0 {
            return top;
        }
        let mut floor = f32::NEG_INFINITY;
        for (token, value) in (0..).zip(values) {
            if *value > floor {
                top.insert(token, *value, most);
                if top.len == most {
                    floor = top.tokens[most - 1].1;
                }
            }
        }
        top
    }

    /// Replaces each number.
    pub(super) fn map(mut self, change: impl Fn(f32) -> f32) -> Self {
        for (_, value) in &mut self.tokens[..self.len] {
            *value = change(*value);
        }
        self
    }

    /// Puts a token behind those that are as high; the last of `most` falls out.
    fn insert(&mut self, token: TokenId, value: f32, most: usize) {
        let place = self.tokens[..self.len].partition_point(|(_, other)| *other >= value);
        self.len = (self.len + 1).min(most);
        self.tokens.copy_within(place..self.len - 1, place + 1);
        self.tokens[place] = (token, value);
    }
}

impl Default for TopTokens {
    fn default() -> Self {
        Self {
            tokens: [(0, 0.0); MAX_TOP_LOGPROBS],
            len: 0,
        }
    }
}

impl PartialEq for TopTokens {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl fmt::Debug for TopTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_highest_are_found_in_order(
            values in prop::collection::vec(
                prop_oneof![9 => (-9..9_i8).prop_map(f32::from), 1 => Just(f32::NAN), 1 => Just(f32::NEG_INFINITY)],
                0..60,
            ),
            most in 0..25_usize,
        ) {
            let mut sorted: Vec<(TokenId, f32)> = (0..).zip(values.iter().copied()).collect();
            sorted.retain(|(_, value)| *value > f32::NEG_INFINITY);
            sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            sorted.truncate(most.min(MAX_TOP_LOGPROBS));
            let top = TopTokens::of(&values, most);
            prop_assert_eq!(top.as_slice(), sorted);
        }
    }
}
