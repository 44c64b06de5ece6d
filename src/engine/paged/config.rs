//! What an operator may set of the paged engine. The size of the KV memory is the runner's business.

use std::time::Duration;

use serde::Deserialize;

use super::order::Policy;

/// Longer waits are nobody's intention, and sums of times stay in range.
const DAY_MS: u64 = 86_400_000;
/// Each row takes logits of the whole vocabulary.
const MOST_SPECULATED: usize = 256;

/// Settings of the paged engine; every one has a default.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Most tokens computed in one step while nobody decodes.
    pub step_tokens: usize,
    /// Most tokens computed in one step beside decoding streams, as long as nothing was measured. It bounds the gap
    /// between their tokens: at 1,500 prompt tokens a second, 128 are 85 ms.
    pub mixed_step_tokens: usize,
    /// What a step beside decoding streams shall take, in milliseconds: from the measured speed follows how much of a
    /// prompt it computes. 0 keeps to `mixed_step_tokens`.
    pub target_step_ms: u64,
    /// Most rows of a step that continues streams, one a stream and the rest for tokens that are guessed from the prompt and
    /// checked in the same step. Guesses change the speed of an answer, never the answer. 0 guesses nothing.
    pub speculate_rows: usize,
    /// Most sequences with KV blocks at a time; less than both step sizes, so that prompts always advance.
    pub max_running: usize,
    /// Most requests waiting; more are refused at once.
    pub queue: usize,
    /// Share of the KV blocks that pinned prefixes may hold, 0 to below 1. What they leave is the most that one
    /// sequence may need, so that every accepted request can run.
    pub pin_share: f64,
    /// A waiting request rises by one priority each time this passes, in milliseconds; 1 to a day.
    pub aging_ms: u64,
    /// A request is ordered by its deadline or by the end of this after its arrival, whichever is earlier, so that
    /// those without a deadline get their turn; in milliseconds, up to a day.
    pub patience_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            step_tokens: 512,
            mixed_step_tokens: 128,
            target_step_ms: 100,
            speculate_rows: 16,
            max_running: 32,
            queue: 256,
            pin_share: 0.25,
            aging_ms: 5_000,
            patience_ms: 30_000,
        }
    }
}

/// An engine that cannot be started as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// A setting outside its range.
    #[error("{field} must be {expected}")]
    Config {
        /// The setting's name.
        field: &'static str,
        /// The accepted range in words.
        expected: &'static str,
    },
    /// Limits of a runner that cannot hold a single sequence.
    #[error("the runner declares {field} {value}, which must be {expected}")]
    Runner {
        /// The limit's name.
        field: &'static str,
        /// What the runner declares.
        value: usize,
        /// The accepted range in words.
        expected: &'static str,
    },
    /// The operating system gave no thread.
    #[error("cannot start the engine thread: {0}")]
    Thread(String),
}

impl Config {
    /// Checks every setting's range.
    ///
    /// # Errors
    /// Names the first one that is outside.
    pub fn validate(&self) -> Result<(), StartError> {
        let smaller_step = self.step_tokens.min(self.mixed_step_tokens);
        let checks = [
            ("max_running", self.max_running > 0, "at least 1"),
            (
                "max_running",
                self.max_running < smaller_step,
                "less than step_tokens and mixed_step_tokens",
            ),
            (
                "speculate_rows",
                self.speculate_rows <= MOST_SPECULATED,
                "at most 256",
            ),
            ("queue", self.queue > 0, "at least 1"),
            (
                "pin_share",
                (0.0..1.0).contains(&self.pin_share),
                "a number from 0 to below 1",
            ),
            (
                "target_step_ms",
                self.target_step_ms <= DAY_MS,
                "at most 86400000",
            ),
            (
                "aging_ms",
                (1..=DAY_MS).contains(&self.aging_ms),
                "from 1 to 86400000",
            ),
            (
                "patience_ms",
                self.patience_ms <= DAY_MS,
                "at most 86400000",
            ),
        ];
        for (field, ok, expected) in checks {
            if !ok {
                return Err(StartError::Config { field, expected });
            }
        }
        Ok(())
    }

    /// Blocks of `blocks` that pins may hold.
    pub(super) fn pin_blocks(&self, blocks: usize) -> usize {
        // A share below 1 of a count far below 2^52
        (blocks as f64 * self.pin_share) as usize
    }

    pub(super) fn policy(&self) -> Policy {
        Policy {
            aging: Duration::from_millis(self.aging_ms),
            patience: Duration::from_millis(self.patience_ms),
        }
    }
}
