//! Where harnesses lie and how changes go live. Not part of any harness: an edit must not be able to switch its guard off.

use std::path::PathBuf;
use std::time::Duration;

use super::watch::Timing;

/// Settings of the registry.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The folder of harnesses, one folder each.
    pub directory: PathBuf,
    /// Where snapshots, labels and the audit log are kept.
    pub state: Option<PathBuf>,
    /// The harness of requests that name none.
    pub default: String,
    /// What a valid change does.
    pub mode: Mode,
    /// How long a folder must stay as it is before it counts, in milliseconds.
    pub debounce_ms: u64,
    /// How often folders are read although no event came, in milliseconds.
    pub poll_ms: u64,
    /// A text file that says who the avatar is; the default is the shipped live room's persona.
    pub persona: Option<PathBuf>,
}

/// What a valid change of a folder does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It becomes production.
    #[default]
    Auto,
    /// It is staged until somebody promotes it.
    Manual,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            directory: PathBuf::from("harness"),
            state: None,
            default: "live-room".to_owned(),
            mode: Mode::default(),
            debounce_ms: 200,
            poll_ms: 5000,
            persona: None,
        }
    }
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} must be {expected}")]
pub struct ConfigError {
    /// The setting's name.
    pub field: &'static str,
    /// What it must be, in words.
    pub expected: &'static str,
}

impl Config {
    /// Checks every setting.
    ///
    /// # Errors
    /// Names the first one that cannot be used.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let checks = [
            (
                "default",
                !self.default.trim().is_empty(),
                "the name of a harness",
            ),
            (
                "debounce_ms",
                (10..=10_000).contains(&self.debounce_ms),
                "from 10 to 10000",
            ),
            (
                "poll_ms",
                (100..=3_600_000).contains(&self.poll_ms),
                "from 100 to 3600000",
            ),
        ];
        match checks.into_iter().find(|(_, ok, _)| !ok) {
            Some((field, _, expected)) => Err(ConfigError { field, expected }),
            None => Ok(()),
        }
    }

    pub(super) fn timing(&self) -> Timing {
        Timing {
            debounce: Duration::from_millis(self.debounce_ms),
            poll: Duration::from_millis(self.poll_ms),
        }
    }
}
