//! Tools as files: `tools/<name>.json` read, checked and their schemas compiled. Running them is `tools`'.

pub mod catalog;
mod file;
mod http;
pub mod json;
pub mod schema;
pub mod template;

use std::sync::Arc;
use std::time::Duration;

use super::Problem;

pub use catalog::Catalog;
pub use http::{Http, Method};

/// What begins the name of a place in a header that a secret fills: `{secret:NAME}`.
pub const SECRET: &str = http::SECRET;
pub use schema::{Fault, Schema};

/// One tool, ready to be offered and called. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tool {
    /// What the model calls it; fits `^[a-zA-Z0-9_-]{1,64}$`.
    pub name: Arc<str>,
    /// What the model is told of it.
    pub description: Arc<str>,
    /// Its arguments: an object schema.
    pub input: Schema,
    /// Its results, where that is promised.
    pub output: Option<Schema>,
    /// What a mistaken call costs.
    pub risk: Risk,
    /// Who runs it.
    pub kind: Kind,
    /// Longest call, retries included.
    pub timeout: Duration,
}

/// What a mistaken call costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Nothing: it only looks.
    #[default]
    Read,
    /// Something that can be taken back.
    Write,
    /// Money or trust.
    High,
}

/// Who runs a tool.
#[derive(Clone, Debug)]
pub enum Kind {
    /// An HTTP endpoint.
    Http(Arc<Http>),
    /// A tool of a Model Context Protocol server.
    Mcp {
        /// Its name in the configuration.
        server: Arc<str>,
        /// The tool's name there.
        tool: Arc<str>,
    },
    /// The product facts of the harness.
    Catalog,
    /// The front end: checked here, done there.
    Action,
}

/// Reads one tool file; `None` when there is a problem, which is then in `problems`. `path` is relative to the harness.
#[must_use]
pub fn read(path: &str, bytes: &[u8], problems: &mut Vec<Problem>) -> Option<Tool> {
    file::read(path, bytes, problems)
}

/// What constrained decoding cannot promise of this tool's arguments, to be shown by lint: they are checked after it.
#[must_use]
pub fn lint(path: &str, tool: &Tool) -> Vec<Problem> {
    let unenforced = tool.input.unenforced();
    let warn = |(place, keyword): (String, String)| {
        let reason = format!(
            "input_schema{place}: {keyword} is checked after decoding, the model is not held to it"
        );
        Problem::of(path, reason)
    };
    unenforced.into_iter().map(warn).collect()
}

#[cfg(test)]
mod tests;
