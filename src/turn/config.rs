//! How turns are spoken when the request does not say.

use std::time::Duration;

use super::room;
use crate::engine::{Sampling, SamplingError};

/// Settings of all turns.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Deadline of a request that names none, in milliseconds.
    pub deadline_ms: u64,
    /// Most characters of an answer whose request names no limit.
    pub max_chars: usize,
    /// What is said when there is no answer; not blank.
    pub fallback: String,
    /// How long before its deadline an answer is cut, in milliseconds; at most a tenth of the deadline.
    pub deadline_margin_ms: u64,
    /// Silence of the model after which the last clause is spoken, in milliseconds; above 0.
    pub quiet_ms: u64,
    /// 0 is greedy, up to 2.
    pub temperature: f32,
    /// Above 0 up to 1.
    pub top_p: f32,
    /// 0 keeps all tokens.
    pub top_k: usize,
    /// 0 to 1.
    pub min_p: f32,
    /// Above 0 up to 10; 1 is off, the default, since answers repeat facts of the prompt.
    pub repetition_penalty: f32,
    /// Live rooms.
    pub rooms: room::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            deadline_ms: 6000,
            max_chars: 120,
            fallback: "Sorry, could you ask me that again?".to_owned(),
            deadline_margin_ms: 200,
            quiet_ms: 400,
            temperature: 0.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            rooms: room::Config::default(),
        }
    }
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// A sampling parameter is outside its range.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// Another setting is.
    #[error("{field} must be {expected}")]
    Field {
        /// The setting's name.
        field: &'static str,
        /// What it must be, in words.
        expected: &'static str,
    },
}

impl Config {
    /// Checks every setting.
    ///
    /// # Errors
    /// Names the first one that cannot be used.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let checks = [
            (
                "deadline_ms",
                (100..=120_000).contains(&self.deadline_ms),
                "from 100 to 120000",
            ),
            (
                "max_chars",
                (1..=10_000).contains(&self.max_chars),
                "from 1 to 10000",
            ),
            (
                "fallback",
                self.fallback.chars().any(char::is_alphanumeric),
                "a line with words",
            ),
            ("quiet_ms", self.quiet_ms > 0, "above 0"),
        ];
        for (field, ok, expected) in checks.into_iter().chain(self.rooms.checks()) {
            if !ok {
                return Err(ConfigError::Field { field, expected });
            }
        }
        Ok(self.sampling().validate()?)
    }

    /// The sampling of every turn.
    #[must_use]
    pub fn sampling(&self) -> Sampling {
        Sampling {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            ..Sampling::default()
        }
    }

    /// Time kept free before `deadline` to end the answer in.
    pub(super) fn margin(&self, deadline: Duration) -> Duration {
        Duration::from_millis(self.deadline_margin_ms).min(deadline / 10)
    }

    pub(super) fn quiet(&self) -> Duration {
        Duration::from_millis(self.quiet_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid_and_each_bad_setting_is_named() {
        assert_eq!(Config::default().validate(), Ok(()));
        let bad = [
            (
                "fallback",
                Config {
                    fallback: " ！ ".to_owned(),
                    ..Config::default()
                },
            ),
            (
                "max_chars",
                Config {
                    max_chars: 0,
                    ..Config::default()
                },
            ),
            (
                "deadline_ms",
                Config {
                    deadline_ms: 99,
                    ..Config::default()
                },
            ),
            (
                "quiet_ms",
                Config {
                    quiet_ms: 0,
                    ..Config::default()
                },
            ),
            (
                "rooms.idle_ms",
                Config {
                    rooms: room::Config {
                        idle_ms: 0,
                        ..room::Config::default()
                    },
                    ..Config::default()
                },
            ),
            (
                "temperature",
                Config {
                    temperature: f32::NAN,
                    ..Config::default()
                },
            ),
        ];
        for (field, config) in bad {
            let error = config.validate().unwrap_err().to_string();
            assert!(error.starts_with(field), "{error}");
        }
    }
}
