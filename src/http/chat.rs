//! `POST /v1/chat/completions`: OpenAI's chat, as chunks or as one object.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::error::{ApiError, Code};
use super::ids::{RequestId, draw};
use super::sse::{self, Frames};
use super::wire::chat::ChatCall;
use super::wire::completion::Answer;
use super::{Shared, body, models};
use crate::engine::{Finish, FinishReason, Priority};
use crate::shutdown::Phase;
use crate::telemetry::events::ChatRejected;
use crate::turn::ServedModel;
use crate::turn::chat::{ChatEvent, ChatRequest, ChatStream, chat};

/// What ends a stream that is whole.
const DONE: &str = "data: [DONE]\n\n";

/// Continues a conversation.
pub(super) async fn completions(
    State(shared): State<Arc<Shared>>,
    Extension(request_id): Extension<RequestId>,
    request: Request,
) -> Result<Response, ApiError> {
    let (model, call) = accept(&shared, request).await.inspect_err(|error| {
        // Without the message, which may quote the request.
        let event = ChatRejected::<String> {
            reason: error.word(),
            cause: None,
        };
        event.emit(&shared.metrics);
    })?;
    let answer = Answer {
        id: format!("chatcmpl-{:016x}", draw()),
        created: now(),
        model: model.id.clone(),
        include_usage: call.include_usage,
    };
    let asked = ChatRequest {
        messages: call.messages,
        max_tokens: call.max_tokens,
        sampling: call.sampling,
        stop: call.stop,
        priority: Priority::Normal,
        deadline: None,
    };
    let stream = chat(model, &shared.metrics, asked)?;
    let events = Events {
        stream,
        shared: Arc::clone(&shared),
    };
    if !call.stream {
        return Ok(events.buffered(&answer).await?.into_response());
    }
    let chunks = Chunks {
        waiting: VecDeque::from([sse::frame(None, None, &answer.opening())]),
        events: Some(events),
        answer,
        request_id: request_id.clone(),
    };
    Ok(sse::respond(chunks, shared.config.keep_alive()))
}

/// What is asked, and of which model.
async fn accept(shared: &Shared, request: Request) -> Result<(&ServedModel, ChatCall), ApiError> {
    let body = body::required(request, &shared.config.limits).await?;
    let backend = shared.accepting()?;
    let call = ChatCall::read(body, draw)?;
    let model = models::find(&backend.model, &call.model)?;
    Ok((model, call))
}

fn now() -> u64 {
    // A clock before 1970 is wrong anyway.
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// A completion's events, cut short when the process may not wait for it.
struct Events {
    stream: ChatStream,
    shared: Arc<Shared>,
}

/// What a completion says next.
enum Next {
    Text(String),
    End(Finish),
}

impl Events {
    /// The next event. Whatever is not a normal end is an error.
    async fn next(&mut self) -> Result<Next, ApiError> {
        let event = tokio::select! {
            event = self.stream.next() => event,
            () = self.shared.shutdown.reached(Phase::Ending) => {
                let message = "the server stopped before the answer was whole";
                return Err(ApiError::new(Code::ShuttingDown, message));
            }
        };
        match event {
            Some(ChatEvent::Delta(text)) => Ok(Next::Text(text)),
            Some(ChatEvent::Finished(finish)) => match finish.reason {
                FinishReason::Error(message) => Err(ApiError::new(Code::EngineError, message)),
                _ => Ok(Next::End(finish)),
            },
            None => Err(ApiError::new(Code::Internal, "the answer has no end")),
        }
    }

    async fn buffered(mut self, answer: &Answer) -> Result<Json<Value>, ApiError> {
        let mut text = String::new();
        loop {
            match self.next().await? {
                Next::Text(more) => text.push_str(&more),
                Next::End(finish) => {
                    return Ok(Json(answer.whole(&text, &finish.reason, finish.usage)));
                }
            }
        }
    }
}

/// A completion as chunks.
struct Chunks {
    /// What is said before the next event is asked for.
    waiting: VecDeque<String>,
    /// `None` after the end.
    events: Option<Events>,
    answer: Answer,
    request_id: RequestId,
}

impl Chunks {
    fn error(&self, error: &ApiError) -> String {
        sse::frame(None, None, &error.body(self.request_id.as_str()))
    }

    fn end(&mut self, finish: &Finish) {
        self.events = None;
        let closing = self.answer.closing(&finish.reason);
        self.waiting.push_back(sse::frame(None, None, &closing));
        if self.answer.include_usage {
            let counts = self.answer.counts(finish.usage);
            self.waiting.push_back(sse::frame(None, None, &counts));
        }
        self.waiting.push_back(DONE.to_owned());
    }
}

impl Frames for Chunks {
    async fn next(&mut self) -> Option<String> {
        if let Some(frame) = self.waiting.pop_front() {
            return Some(frame);
        }
        match self.events.as_mut()?.next().await {
            Ok(Next::Text(text)) => Some(sse::frame(None, None, &self.answer.text(&text))),
            Ok(Next::End(finish)) => {
                self.end(&finish);
                self.waiting.pop_front()
            }
            Err(error) => {
                self.events = None;
                Some(self.error(&error))
            }
        }
    }

    fn broken(&self) -> String {
        let message = "the request failed inside the server";
        self.error(&ApiError::new(Code::Internal, message))
    }
}
