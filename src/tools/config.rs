//! What tools may reach, and how much of it.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Settings of tools.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Hosts that tools may call: `shop.example.com` means its default ports and public addresses; `10.0.0.5:8080`
    /// means exactly that port, and then a private address too.
    pub allow_hosts: Vec<String>,
    /// Names of environment variables that headers may use as `{secret:NAME}`.
    pub secrets: Vec<String>,
    /// Servers of the Model Context Protocol, by name.
    pub mcp: BTreeMap<String, McpServer>,
    /// Calls of a round that run at once.
    pub parallel: usize,
    /// Calls of a round; further ones get an error.
    pub calls_per_round: usize,
    /// Longest answer of a tool, in bytes.
    pub max_response_bytes: usize,
}

/// A server of the Model Context Protocol, reached by streamable HTTP.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct McpServer {
    /// Its address; its host must be allowed too.
    pub url: String,
    /// Headers; values may hold `{secret:NAME}`.
    pub headers: BTreeMap<String, String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            allow_hosts: Vec::new(),
            secrets: Vec::new(),
            mcp: BTreeMap::new(),
            parallel: 4,
            calls_per_round: 16,
            max_response_bytes: 1 << 20,
        }
    }
}

/// A setting that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("tools.{field}: {reason}")]
pub struct SetupError {
    /// Which.
    pub field: String,
    /// Why.
    pub reason: String,
}

impl SetupError {
    pub(crate) fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            reason: reason.into(),
        }
    }
}
