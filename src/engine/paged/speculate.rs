//! Guesses the next tokens of a stream, so that one step can check several: prompt lookup, after Saxena's "Prompt Lookup
//! Decoding" (2023).
//!
//! An answer repeats its prompt: names, facts, whole sentences. What followed the latest tokens where they stood before
//! is guessed to follow again. A guess costs a row of a step and is kept only if it is what sampling chooses there, so it
//! changes how many steps an answer takes and never what it says.

use crate::tokenizer::TokenId;

/// Latest tokens that must have stood before, longest first.
const KEYS: [usize; 2] = [3, 2];
/// Tokens that are looked through for them, so that a step's work is bounded.
const WINDOW: usize = 8192;
/// How often a guess is right before anything is known.
const PRIOR: f32 = 0.7;
/// Weight of the newest guess.
const NEWEST: f32 = 0.15;
/// How much of the prior comes back with each step that guesses nothing, so that a stream gets another chance.
const FORGET: f32 = 0.02;
/// What a step costs besides its rows, in rows of a decode.
const STEP: f32 = 3.0;

/// What one stream guesses, and how well.
#[derive(Debug)]
pub(super) struct Speculation {
    guess: Vec<TokenId>,
    /// How often guesses were right lately, 0 to 1.
    right: f32,
}

impl Default for Speculation {
    fn default() -> Self {
        Self {
            guess: Vec::new(),
            right: PRIOR,
        }
    }
}

impl Speculation {
    /// The tokens guessed for this step.
    pub(super) fn guess(&self) -> &[TokenId] {
        &self.guess
    }

    /// Guesses nothing.
    pub(super) fn clear(&mut self) {
        self.guess.clear();
    }

    /// Guesses up to `most` tokens that follow `tokens`, in a step that continues `streams` streams.
    pub(super) fn look_up(&mut self, tokens: &[TokenId], most: usize, streams: usize) {
        self.guess.clear();
        let worthwhile = self.worthwhile(streams).min(most);
        if worthwhile > 0
            && let Some(follows) = follows(tokens)
        {
            let end = (follows + worthwhile).min(tokens.len());
            self.guess.extend_from_slice(&tokens[follows..end]);
        } else {
            self.right += FORGET * (PRIOR - self.right);
        }
    }

    /// Guesses that are worth their rows: each needs all before it to be right, and a row costs what `streams` streams
    /// could have used it for.
    fn worthwhile(&self, streams: usize) -> usize {
        let streams = streams as f32;
        let worth = streams / (STEP + streams);
        let mut chance = self.right;
        let mut count = 0;
        while chance >= worth && count < LONGEST {
            count += 1;
            chance *= self.right;
        }
        count
    }

    /// Learns how many of the guesses were right before the first wrong one; `stopped` says that the rest was not
    /// looked at.
    pub(super) fn learn(&mut self, right: usize, stopped: bool) {
        for _ in 0..right {
            self.right += NEWEST * (1.0 - self.right);
        }
        if right < self.guess.len() && !stopped {
            self.right -= NEWEST * self.right;
        }
    }
}

/// Most tokens of one guess.
pub(super) const LONGEST: usize = 16;

/// Where what followed the latest tokens begins: at their last occurrence before this one, of the longest key that has
/// one.
fn follows(tokens: &[TokenId]) -> Option<usize> {
    let start = tokens.len().saturating_sub(WINDOW);
    let tokens = &tokens[start..];
    let found = KEYS.iter().find_map(|key| {
        let split = tokens.len().checked_sub(*key)?;
        let latest = &tokens[split..];
        // The latest tokens themselves are not looked at, but an occurrence may reach into them.
        let before = &tokens[..tokens.len() - 1];
        let at = before.windows(*key).rposition(|window| window == latest)?;
        Some(at + key)
    })?;
    Some(start + found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(tokens: &[TokenId], most: usize, streams: usize) -> Vec<TokenId> {
        let mut speculation = Speculation::default();
        speculation.look_up(tokens, most, streams);
        speculation.guess().to_vec()
    }

    #[test]
    fn what_followed_last_time_is_guessed() {
        assert_eq!(guessed(&[1, 2, 3, 4, 5, 9, 1, 2, 3], 2, 1), [4, 5]);
        // Of several places the latest one.
        assert_eq!(guessed(&[1, 2, 7, 0, 1, 2, 8, 0, 1, 2], 1, 1), [8]);
        // A longer match before a later one.
        assert_eq!(guessed(&[5, 1, 2, 7, 0, 1, 2, 8, 5, 1, 2], 1, 1), [7]);
    }

    #[test]
    fn a_repetition_is_guessed_to_go_on() {
        assert_eq!(guessed(&[4, 4, 4, 4], 3, 1), [4]);
        assert_eq!(guessed(&[1, 2, 1, 2, 1, 2], 3, 1), [1, 2]);
    }

    #[test]
    fn nothing_is_guessed_of_what_is_new_or_short() {
        assert!(guessed(&[], 4, 1).is_empty());
        assert!(guessed(&[1], 4, 1).is_empty());
        assert!(guessed(&[1, 1], 4, 1).is_empty());
        assert!(guessed(&[1, 2, 3, 4, 5, 6], 4, 1).is_empty());
        assert!(guessed(&[1, 2, 3, 1, 2], 0, 1).is_empty());
    }

    #[test]
    fn more_streams_leave_less_room_for_guesses() {
        let speculation = Speculation::default();
        let counts = [1, 2, 4, 8, 32].map(|streams| speculation.worthwhile(streams));
        assert!(counts.is_sorted_by(|a, b| a >= b), "{counts:?}");
        assert!(counts[0] >= 3 && counts[4] == 0, "{counts:?}");
    }

    #[test]
    fn a_stream_that_never_repeats_stops_guessing_and_is_tried_again() {
        let tokens = [1, 2, 3, 4, 1, 2];
        let mut speculation = Speculation::default();
        let mut tried = Vec::new();
        for _ in 0..200 {
            speculation.look_up(&tokens, 8, 1);
            tried.push(speculation.guess().len());
            speculation.learn(0, false);
        }
        let late = &tried[100..];
        assert!(late.iter().sum::<usize>() < 40, "{late:?}");
        assert!(late.iter().any(|guessed| *guessed > 0), "{late:?}");
        for _ in 0..20 {
            speculation.learn(1, true);
        }
        assert_eq!(speculation.worthwhile(1), LONGEST);
    }

    #[test]
    fn only_the_window_is_looked_through() {
        let mut tokens: Vec<TokenId> = vec![1, 2, 3, 4];
        tokens.extend((0..WINDOW as u32).map(|token| token + 10));
        tokens.extend([1, 2, 3]);
        assert!(guessed(&tokens, 4, 1).is_empty());
    }
}
