//! How many rooms there are, how long, and who may wait in one.

use std::time::Duration;

/// Settings of all rooms.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Most rooms that are known at a time; above 0. A new one takes the place of the one that was idle longest.
    pub most: usize,
    /// How long a room without turns is known, in milliseconds; above 0.
    pub idle_ms: u64,
    /// Most turns that wait in one room while another one speaks.
    pub waiting: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            most: 1024,
            idle_ms: 1_800_000,
            waiting: 8,
        }
    }
}

impl Config {
    /// Each setting, whether it can be used, and what it must be.
    pub(in crate::turn) fn checks(&self) -> [(&'static str, bool, &'static str); 2] {
        [
            ("rooms.most", self.most > 0, "above 0"),
            ("rooms.idle_ms", self.idle_ms > 0, "above 0"),
        ]
    }

    pub(super) fn idle(&self) -> Duration {
        Duration::from_millis(self.idle_ms)
    }
}
