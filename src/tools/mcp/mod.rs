//! Tools of Model Context Protocol servers, reached by streamable HTTP through the guarded client. A server is
//! connected to when it is first called; one that went away is connected to again at the next call.

mod transport;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::handler::client::ClientHandler;
use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::{
    NotificationContext, RoleClient, RunningService, ServiceError, ServiceExt as _,
};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use self::transport::Transport;
use super::http::Client;
use super::{Config, Executor, Pending, SetupError, ToolError};
use crate::harness::tool::template::{Piece, pieces};
use crate::harness::tool::{Kind, SECRET, Tool, json};

/// Runs tools of kind `mcp`.
pub(crate) struct Mcp {
    servers: BTreeMap<String, Server>,
}

struct Server {
    transport: Transport,
    url: String,
    session: Mutex<Option<Arc<Session>>>,
    changed: Arc<AtomicBool>,
}

type Session = RunningService<RoleClient, Watcher>;

/// Notes what a server tells unasked.
struct Watcher {
    changed: Arc<AtomicBool>,
}

impl ClientHandler for Watcher {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.store(true, Ordering::Relaxed);
    }
}

impl Mcp {
    pub(crate) fn new(
        config: &Config,
        client: &Client,
        secrets: &BTreeMap<String, String>,
    ) -> Result<Self, SetupError> {
        let mut servers = BTreeMap::new();
        for (name, server) in &config.mcp {
            let wrong = |field: &str, reason: String| {
                SetupError::new(format!("mcp.{name}.{field}"), reason)
            };
            client
                .check(&server.url)
                .map_err(|error| wrong("url", error.message))?;
            let mut headers = Vec::with_capacity(server.headers.len());
            for (header, value) in &server.headers {
                let value = filled(value, secrets)
                    .map_err(|reason| wrong("headers", format!("{header}: {reason}")))?;
                headers.push((header.to_ascii_lowercase(), value));
            }
            let server = Server {
                transport: Transport {
                    client: client.clone(),
                    headers: headers.into(),
                },
                url: server.url.clone(),
                session: Mutex::default(),
                changed: Arc::default(),
            };
            servers.insert(name.clone(), server);
        }
        Ok(Self { servers })
    }

    pub(crate) fn missing(&self, server: &str) -> Option<String> {
        (!self.servers.contains_key(server))
            .then(|| format!("MCP server {server:?} is not configured"))
    }

    pub(crate) fn changed(&self) -> Vec<String> {
        let changed = self
            .servers
            .iter()
            .filter(|(_, server)| server.changed.swap(false, Ordering::Relaxed));
        changed.map(|(name, _)| name.clone()).collect()
    }

    async fn ask(&self, tool: &Tool, arguments: &Map<String, Value>) -> Result<Value, ToolError> {
        let Kind::Mcp { server, tool } = &tool.kind else {
            return Err(ToolError::new("tool_failed", "no MCP tool"));
        };
        let Some(known) = self.servers.get(&**server) else {
            return Err(ToolError::new(
                "refused",
                format!("MCP server {server:?} is not configured"),
            ));
        };
        let session = known.session().await?;
        let request =
            CallToolRequestParams::new(tool.to_string()).with_arguments(arguments.clone());
        match session.call_tool(request).await {
            Ok(result) => answer(result),
            Err(ServiceError::McpError(error)) => {
                Err(ToolError::new("tool_error", error.message.to_string()))
            }
            Err(error) => {
                // Whether the server did it is not known, so it is not asked again now.
                known.forget(&session).await;
                Err(ToolError::new(
                    "unreachable",
                    format!("MCP server {server:?}: {error}"),
                ))
            }
        }
    }
}

impl Server {
    async fn session(&self) -> Result<Arc<Session>, ToolError> {
        let mut session = self.session.lock().await;
        if let Some(open) = session.as_ref().filter(|open| !open.is_closed()) {
            return Ok(Arc::clone(open));
        }
        let watcher = Watcher {
            changed: Arc::clone(&self.changed),
        };
        let transport = self.transport.open(&self.url);
        let opened = watcher.serve(transport).await;
        let opened = opened
            .map_err(|error| ToolError::new("unreachable", format!("no MCP session: {error}")))?;
        let opened = Arc::new(opened);
        *session = Some(Arc::clone(&opened));
        Ok(opened)
    }

    async fn forget(&self, failed: &Arc<Session>) {
        let mut session = self.session.lock().await;
        if session
            .as_ref()
            .is_some_and(|open| Arc::ptr_eq(open, failed))
        {
            *session = None;
        }
    }
}

impl Executor for Mcp {
    fn call<'a>(&'a self, tool: &'a Tool, arguments: &'a Map<String, Value>) -> Pending<'a> {
        Box::pin(self.ask(tool, arguments))
    }
}

/// Structured content is the result; else the text, as JSON where it is JSON.
fn answer(result: CallToolResult) -> Result<Value, ToolError> {
    let texts: Vec<&str> = result
        .content
        .iter()
        .filter_map(|block| block.as_text())
        .map(|text| text.text.as_str())
        .collect();
    let text = texts.join("\n");
    if result.is_error == Some(true) {
        let message = if text.trim().is_empty() {
            "the tool failed without saying why"
        } else {
            &text
        };
        return Err(ToolError::new("tool_error", message));
    }
    if let Some(value) = result.structured_content {
        return Ok(value);
    }
    Ok(json::parse(text.as_bytes()).unwrap_or(Value::String(text)))
}

fn filled(value: &str, secrets: &BTreeMap<String, String>) -> Result<String, String> {
    let mut out = String::new();
    for piece in pieces(value)? {
        match piece {
            Piece::Text(text) => out.push_str(&text),
            Piece::Place(place) => {
                let name = place
                    .strip_prefix(SECRET)
                    .ok_or_else(|| format!("{{{place}}} must be {{secret:NAME}}"))?;
                out.push_str(
                    secrets
                        .get(name)
                        .ok_or_else(|| format!("secret {name} is not set"))?,
                );
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
