//! Runs the tools of a round: every call in parallel, bounded, results in the order of the calls. Whatever goes wrong
//! in one call is that call's result, for the model to read.

mod catalog;
mod config;
pub mod http;
pub mod mcp;
mod round;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::harness::tool::{Catalog, Tool};

pub use config::{Config, McpServer, SetupError};

/// Executes calls of one kind of tool.
pub(crate) trait Executor: Send + Sync {
    /// One call; `arguments` fit the tool's schema. Dropping the future ends it.
    fn call<'a>(&'a self, tool: &'a Tool, arguments: &'a Map<String, Value>) -> Pending<'a>;
}

/// A call under way.
pub(crate) type Pending<'a> = Pin<Box<dyn Future<Output = Result<Value, ToolError>> + Send + 'a>>;

/// A call that a model made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Names the call in its round.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// Its arguments as the model wrote them: JSON. Empty means `{}`.
    pub arguments: String,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallResult {
    /// The call's id.
    pub id: String,
    /// The tool's name, as it was called.
    pub name: String,
    /// Result, action or error.
    pub outcome: Outcome,
    /// From the start of the call to its end, waiting for its place included.
    pub duration: Duration,
}

/// Result, action or error of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// What the tool answered.
    Result(Value),
    /// For the front end to do; the arguments fit its schema.
    Action(Value),
    /// Why there is no result.
    Error(ToolError),
}

/// Why a call has no result. The message is for the model to read: never empty, no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ToolError {
    /// A word for programs and metrics.
    pub code: &'static str,
    /// What went wrong.
    pub message: String,
}

impl ToolError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl CallResult {
    /// Whether it is no error.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        !matches!(self.outcome, Outcome::Error(_))
    }

    /// What goes back to the model: JSON, never empty.
    #[must_use]
    pub fn content(&self) -> String {
        match &self.outcome {
            Outcome::Result(value) => value.to_string(),
            Outcome::Action(_) => "{\"status\":\"shown\"}".to_owned(),
            Outcome::Error(error) => {
                serde_json::json!({"error": error.code, "message": error.message}).to_string()
            }
        }
    }
}

/// What of a harness a round may call.
#[derive(Clone, Debug, Default)]
pub struct Offer {
    /// Tools by name.
    pub tools: Arc<BTreeMap<String, Tool>>,
    /// Product facts for the catalog tool.
    pub catalog: Arc<Catalog>,
}

/// Everything that runs tools. Cheap to clone.
#[derive(Clone)]
pub struct Tools {
    http: Arc<http::Http>,
    mcp: Arc<mcp::Mcp>,
    parallel: usize,
    most_calls: usize,
}

impl Tools {
    /// Sets up what `config` allows. `secrets` are the values of [`Config::secrets`], by name.
    ///
    /// # Errors
    /// Names the setting that cannot be used.
    pub fn new(config: &Config, secrets: BTreeMap<String, String>) -> Result<Self, SetupError> {
        let client = http::Client::new(config)?;
        let mcp = mcp::Mcp::new(config, &client, &secrets)?;
        Ok(Self {
            http: Arc::new(http::Http::new(client, secrets)),
            mcp: Arc::new(mcp),
            parallel: config.parallel.max(1),
            most_calls: config.calls_per_round,
        })
    }

    /// Runs the calls of one round; results are in their order. Dropping the future ends every call.
    pub async fn run_round(&self, offer: &Offer, calls: Vec<Call>) -> Vec<CallResult> {
        round::run(self, offer, calls).await
    }

    /// What a tool needs that this setup does not have: a host off the list, a secret or server that nobody declared.
    #[must_use]
    pub fn missing(&self, tool: &Tool) -> Option<String> {
        use crate::harness::tool::Kind;
        match &tool.kind {
            Kind::Http(http) => self.http.missing(http),
            Kind::Mcp { server, .. } => self.mcp.missing(server),
            Kind::Catalog | Kind::Action => None,
        }
    }

    /// Names of MCP servers whose list of tools changed since this was last asked.
    #[must_use]
    pub fn changed_servers(&self) -> Vec<String> {
        self.mcp.changed()
    }
}

#[cfg(test)]
mod tests;
