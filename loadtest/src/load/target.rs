//! The servers that can be loaded: our avatar route, and any server with OpenAI's routes.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::answer::{Answer, Fault};
use super::drive::Target;
use super::sse::{Event, Events};
use crate::Failure;

/// A route and the protocol that it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Route {
    /// `/v1/avatar/respond`: segments cut by the server.
    Respond,
    /// `/v1/completions`: a raw prompt of token ids; the text is cut here.
    Completions,
    /// `/v1/chat/completions`: the same conversation, rendered by the server; the text is cut here.
    Chat,
}

impl Route {
    fn path(self) -> &'static str {
        match self {
            Self::Respond => "/v1/avatar/respond",
            Self::Completions => "/v1/completions",
            Self::Chat => "/v1/chat/completions",
        }
    }
}

/// A server over HTTP. Each request takes a connection of its own, so that no server waits on idle ones.
pub(crate) struct Http {
    client: reqwest::Client,
    url: String,
    route: Route,
}

/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(10);

impl Http {
    /// The server at `base`, such as `http://127.0.0.1:8080`.
    pub(crate) fn new(base: &str, route: Route) -> Result<Self, Failure> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .http1_only()
            .tcp_nodelay(true)
            .connect_timeout(CONNECT)
            .pool_max_idle_per_host(0)
            .build()?;
        Ok(Self {
            client,
            url: format!("{}{}", base.trim_end_matches('/'), route.path()),
            route,
        })
    }
}

impl Target for Http {
    async fn ask(&self, body: String, answer: &mut Answer) -> Result<(), Fault> {
        let request = self
            .client
            .post(&self.url)
            .header("content-type", "application/json")
            .body(body);
        let mut response = request.send().await.map_err(|error| lost(&error))?;
        if !response.status().is_success() {
            return Err(Fault::Status(response.status().as_u16()));
        }
        let mut events = Events::default();
        while let Some(bytes) = response.chunk().await.map_err(|error| lost(&error))? {
            for event in events.push(&bytes) {
                let over = match self.route {
                    Route::Respond => read_turn(&event, answer)?,
                    Route::Completions | Route::Chat => read_text(&event, answer)?,
                };
                if over {
                    return Ok(());
                }
            }
        }
        Err(Fault::Cut)
    }
}

fn lost(error: &reqwest::Error) -> Fault {
    if error.is_connect() {
        Fault::Connect
    } else {
        Fault::Cut
    }
}

fn parse(data: &str) -> Result<Value, Fault> {
    serde_json::from_str(data).map_err(|_| Fault::Protocol("data that is no JSON".to_owned()))
}

/// Reads an event of the avatar route; whether it was the last.
fn read_turn(event: &Event, answer: &mut Answer) -> Result<bool, Fault> {
    match event.name.as_str() {
        "segment" => answer.segment(),
        // A turn that was cut at its deadline or ended by somebody else said less than it was asked to.
        "response.completed" => {
            let data = parse(&event.data)?;
            return match data["finish_reason"].as_str() {
                Some("stop" | "length") => Ok(true),
                other => Err(Fault::Failed(
                    other.unwrap_or("no finish_reason").to_owned(),
                )),
            };
        }
        "response.failed" => return Err(failed(&parse(&event.data)?["code"])),
        _ => {}
    }
    Ok(false)
}

/// Reads a chunk of OpenAI's streams; whether it was the last.
fn read_text(event: &Event, answer: &mut Answer) -> Result<bool, Fault> {
    if event.data == "[DONE]" {
        return Ok(true);
    }
    let data = parse(&event.data)?;
    if !data["error"].is_null() {
        return Err(failed(&data["error"]["code"]));
    }
    let choice = &data["choices"][0];
    let text = choice["text"]
        .as_str()
        .or(choice["delta"]["content"].as_str());
    answer.text(text.unwrap_or_default());
    Ok(false)
}

fn failed(code: &Value) -> Fault {
    let code = code
        .as_str()
        .map_or_else(|| code.to_string(), str::to_owned);
    Fault::Failed(code)
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
