//! Tools that are HTTP endpoints: a URL template and arguments become a request, its JSON answer the result.

mod address;
mod cache;
mod client;
mod guard;
mod request;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use self::cache::Cache;
pub(crate) use self::client::{Answer, Client, Request};
use super::{Executor, Pending, ToolError};
use crate::harness::tool::{self, Kind, Tool, json};
pub(crate) use reqwest::header::{HeaderName, HeaderValue};

/// Characters of an answer that an error quotes.
const QUOTED: usize = 300;

/// Runs tools of kind `http`.
pub(crate) struct Http {
    client: Client,
    secrets: BTreeMap<String, String>,
    cache: Cache,
}

impl Http {
    pub(crate) fn new(client: Client, secrets: BTreeMap<String, String>) -> Self {
        Self {
            client,
            secrets,
            cache: Cache::default(),
        }
    }

    /// What of `http` this setup does not have.
    pub(crate) fn missing(&self, http: &tool::Http) -> Option<String> {
        let missing = request::secrets(http).find(|name| !self.secrets.contains_key(*name));
        if let Some(name) = missing {
            return Some(format!("secret {name} is not declared, or not set"));
        }
        let url = request::base(http);
        self.client.check(&url).err().map(|error| error.message)
    }

    async fn fetch(&self, tool: &Tool, arguments: &Map<String, Value>) -> Result<Value, ToolError> {
        let Kind::Http(http) = &tool.kind else {
            return Err(ToolError::new("tool_failed", "no HTTP tool"));
        };
        let request = request::build(http, arguments, &self.secrets)?;
        if let Some(value) = self.cache.get(&request) {
            return Ok(value);
        }
        let mut attempt = 0;
        let value = loop {
            let result = self.once(&request).await;
            match result {
                Err(error) if attempt < http.retries && is_passing(&error) => attempt += 1,
                result => break result?,
            }
        };
        self.cache.put(&request, &value, http.cache);
        Ok(value)
    }

    async fn once(&self, request: &Request) -> Result<Value, ToolError> {
        let answer = self.client.send(request).await?;
        let status = answer.status();
        let kind = answer
            .header("content-type")
            .unwrap_or_default()
            .to_ascii_lowercase();
        let body = answer.body().await?;
        if !(200..300).contains(&status) {
            let code = if matches!(status, 429 | 502..=504) {
                "unavailable"
            } else {
                "http_status"
            };
            return Err(ToolError::new(
                code,
                format!("the endpoint answered {status}{}", quoted(&body, &kind)),
            ));
        }
        if body.is_empty() {
            return Ok(Value::Null);
        }
        if kind.contains("html") {
            return Err(ToolError::new(
                "invalid_answer",
                "the endpoint answered with a web page, not JSON",
            ));
        }
        if std::str::from_utf8(&body).is_err() {
            return Err(ToolError::new(
                "invalid_answer",
                "the endpoint's answer is not UTF-8",
            ));
        }
        json::parse(&body).map_err(|fault| {
            ToolError::new(
                "invalid_answer",
                format!(
                    "the endpoint's answer is not JSON: {} in line {}",
                    fault.reason, fault.line
                ),
            )
        })
    }
}

impl Executor for Http {
    fn call<'a>(&'a self, tool: &'a Tool, arguments: &'a Map<String, Value>) -> Pending<'a> {
        Box::pin(self.fetch(tool, arguments))
    }
}

/// Whether another attempt may succeed.
fn is_passing(error: &ToolError) -> bool {
    matches!(error.code, "unreachable" | "unavailable")
}

/// The beginning of an answer, where it is readable.
fn quoted(body: &[u8], kind: &str) -> String {
    match std::str::from_utf8(body) {
        Ok(text) if !text.trim().is_empty() && !kind.contains("html") => {
            let start: String = text.trim().chars().take(QUOTED).collect();
            format!(": {start}")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
