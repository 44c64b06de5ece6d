//! What of the HTTP service can be set. Everything has a default; unknown keys are errors.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde::Deserialize;

/// The HTTP service's settings.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Address and port to listen on; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// Allows a `listen` address that other machines reach. Requests carry no keys, so this is for networks where
    /// everyone may use the service.
    pub allow_remote: bool,
    /// Bounds on what one client may ask.
    pub limits: Limits,
    /// Most time that running turns get to finish after the first request to stop.
    pub drain_ms: u64,
    /// A comment is sent on a stream that was silent for so long.
    pub keep_alive_ms: u64,
    /// `/livez` fails when the engine has work and made no step for so long.
    pub stall_ms: u64,
}

/// Bounds on what one client may ask.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Most bytes of a body.
    pub body_bytes: usize,
    /// Most objects and arrays inside one another in a body.
    pub json_depth: usize,
    /// Most time from a connection's start (or the end of its last response) to a request's whole head.
    pub header_read_ms: u64,
    /// Most time to a request's whole body.
    pub body_read_ms: u64,
    /// A connection whose client takes nothing of its response for so long is closed.
    pub write_stall_ms: u64,
    /// Most connections. A new one beyond them takes the place of the longest idle one, or is refused.
    pub connections: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080),
            allow_remote: false,
            limits: Limits::default(),
            drain_ms: 30_000,
            keep_alive_ms: 10_000,
            stall_ms: 30_000,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 1024 * 1024,
            json_depth: 64,
            header_read_ms: 10_000,
            body_read_ms: 10_000,
            write_stall_ms: 30_000,
            connections: 1024,
        }
    }
}

/// A setting that the service cannot start with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct ConfigError {
    /// The key, dotted from the service's section.
    pub key: &'static str,
    /// What is wrong with its value.
    pub reason: String,
}

/// JSON parsing recurses; deeper than this the parser itself refuses.
const MAX_JSON_DEPTH: usize = 100;

impl Config {
    /// Checks what serde cannot.
    ///
    /// # Errors
    /// Names the first key whose value cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let fail = |key, reason: String| Err(ConfigError { key, reason });
        if !self.listen.ip().is_loopback() && !self.allow_remote {
            let reason = format!(
                "{} is reachable from other machines and requests carry no keys; \
                 set allow_remote = true if everyone there may use the service",
                self.listen
            );
            return fail("listen", reason);
        }
        if !(1..=MAX_JSON_DEPTH).contains(&self.limits.json_depth) {
            let reason = format!("must be from 1 to {MAX_JSON_DEPTH}");
            return fail("limits.json_depth", reason);
        }
        let positive = [
            ("limits.body_bytes", self.limits.body_bytes as u64),
            ("limits.header_read_ms", self.limits.header_read_ms),
            ("limits.body_read_ms", self.limits.body_read_ms),
            ("limits.write_stall_ms", self.limits.write_stall_ms),
            ("limits.connections", self.limits.connections as u64),
            ("keep_alive_ms", self.keep_alive_ms),
            ("stall_ms", self.stall_ms),
        ];
        for (key, value) in positive {
            if value == 0 {
                return fail(key, "must be at least 1".to_owned());
            }
        }
        Ok(())
    }

    pub(super) fn keep_alive(&self) -> Duration {
        Duration::from_millis(self.keep_alive_ms)
    }

    pub(super) fn drain(&self) -> Duration {
        Duration::from_millis(self.drain_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Config {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn an_empty_section_is_the_default_and_works() {
        assert_eq!(parsed(""), Config::default());
        Config::default().validate().unwrap();
    }

    #[test]
    fn unknown_keys_are_errors() {
        assert!(toml::from_str::<Config>("listn = \"127.0.0.1:1\"").is_err());
        assert!(toml::from_str::<Config>("[limits]\nbody = 1").is_err());
    }

    #[test]
    fn an_open_door_must_be_meant() {
        for listen in ["0.0.0.0:80", "[::]:80", "192.168.1.2:80"] {
            let mut config = parsed(&format!("listen = {listen:?}"));
            assert_eq!(config.validate().unwrap_err().key, "listen");
            config.allow_remote = true;
            config.validate().unwrap();
        }
        parsed("listen = \"[::1]:80\"").validate().unwrap();
    }

    #[test]
    fn limits_of_zero_are_refused_by_key() {
        let config = parsed("[limits]\nconnections = 0");
        assert_eq!(config.validate().unwrap_err().key, "limits.connections");
    }
}
