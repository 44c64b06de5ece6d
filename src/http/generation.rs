//! What chat and text completions share on their way out: events to chunks or to one object, cut short when the
//! process may not wait for them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::Shared;
use super::error::{ApiError, Code};
use super::ids::RequestId;
use super::sse::{self, Frames};
use crate::engine::{FinishReason, Usage};
use crate::shutdown::Phase;
use crate::turn::ScoredToken;
use crate::turn::completion::{CompletionEvent, CompletionStream};

/// What ends a stream that is whole.
const DONE: &str = "data: [DONE]\n\n";

/// How one route writes its answers.
pub(super) trait Answer: Send + 'static {
    /// The chunks before the first event, each to be sent as an event of its own.
    fn opening(&mut self) -> Vec<Value>;

    /// The chunks of an event.
    fn chunks(&mut self, event: CompletionEvent) -> Vec<Value>;

    /// The chunk of token counts, if it is wanted.
    fn counts(&self, usage: Usage) -> Option<Value>;

    /// One object of everything.
    fn whole(&self, said: &Said, usage: Usage) -> Value;
}

/// All that was said.
#[derive(Debug)]
pub(super) struct Said {
    /// In order.
    pub(super) choices: Vec<SaidChoice>,
    /// How likely each prompt's tokens were; empty where nobody asked.
    pub(super) prompts: Vec<Vec<ScoredToken>>,
}

/// One choice, whole.
#[derive(Debug)]
pub(super) struct SaidChoice {
    pub(super) text: String,
    /// Where they were asked for.
    pub(super) tokens: Vec<ScoredToken>,
    pub(super) reason: FinishReason,
}

/// The response that gives `stream` in the way of `answer`.
pub(super) async fn respond(
    stream: CompletionStream,
    shared: &Arc<Shared>,
    request_id: RequestId,
    answer: impl Answer,
    streamed: bool,
) -> Result<Response, ApiError> {
    let events = Events {
        stream,
        shared: Arc::clone(shared),
    };
    if !streamed {
        return Ok(events.buffered(&answer).await?.into_response());
    }
    let mut chunks = Chunks {
        waiting: VecDeque::new(),
        events: Some(events),
        answer,
        request_id,
    };
    let opening = chunks.answer.opening();
    chunks.queue(opening);
    Ok(sse::respond(chunks, shared.config.keep_alive()))
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    // A clock before 1970 is wrong anyway.
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// A completion's events.
struct Events {
    stream: CompletionStream,
    shared: Arc<Shared>,
}

impl Events {
    /// The next event; `None` after the last. Whatever is not a normal end is an error.
    async fn next(&mut self) -> Result<Option<CompletionEvent>, ApiError> {
        let event = tokio::select! {
            event = self.stream.next() => event,
            () = self.shared.shutdown.reached(Phase::Ending) => {
                let message = "the server stopped before the answer was whole";
                return Err(ApiError::new(Code::ShuttingDown, message));
            }
        };
        if let Some(CompletionEvent::Finished { finish, .. }) = &event
            && let FinishReason::Error(message) = &finish.reason
        {
            return Err(ApiError::new(Code::EngineError, message.clone()));
        }
        Ok(event)
    }

    async fn buffered(mut self, answer: &impl Answer) -> Result<Json<Value>, ApiError> {
        let mut said = Said {
            choices: Vec::new(),
            prompts: vec![Vec::new(); self.stream.prompts()],
        };
        said.choices
            .resize_with(self.stream.choices(), || SaidChoice {
                text: String::new(),
                tokens: Vec::new(),
                reason: FinishReason::Stop,
            });
        while let Some(event) = self.next().await? {
            match event {
                CompletionEvent::Prompt { prompt, tokens } => said.prompts[prompt] = tokens,
                CompletionEvent::Text {
                    choice,
                    text,
                    tokens,
                } => {
                    said.choices[choice].text.push_str(&text);
                    said.choices[choice].tokens.extend(tokens);
                }
                CompletionEvent::Finished { choice, finish } => {
                    said.choices[choice].reason = finish.reason;
                }
            }
        }
        Ok(Json(answer.whole(&said, self.stream.usage())))
    }
}

/// A completion as chunks.
struct Chunks<A> {
    /// What is said before the next event is asked for.
    waiting: VecDeque<String>,
    /// `None` after the end.
    events: Option<Events>,
    answer: A,
    request_id: RequestId,
}

impl<A: Answer> Chunks<A> {
    fn queue(&mut self, chunks: impl IntoIterator<Item = Value>) {
        let frames = chunks
            .into_iter()
            .map(|chunk| sse::frame(None, None, &chunk));
        self.waiting.extend(frames);
    }

    fn error(&self, error: &ApiError) -> String {
        sse::frame(None, None, &error.body(self.request_id.as_str()))
    }

    /// Queues what an event, or the end of all, has to say.
    fn take(&mut self, event: Option<CompletionEvent>) {
        if let Some(event) = event {
            let chunks = self.answer.chunks(event);
            self.queue(chunks);
            return;
        }
        if let Some(events) = self.events.take() {
            let counts = self.answer.counts(events.stream.usage());
            self.queue(counts);
            self.waiting.push_back(DONE.to_owned());
        }
    }
}

impl<A: Answer> Frames for Chunks<A> {
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(frame) = self.waiting.pop_front() {
                return Some(frame);
            }
            match self.events.as_mut()?.next().await {
                Ok(event) => self.take(event),
                Err(error) => {
                    self.events = None;
                    return Some(self.error(&error));
                }
            }
        }
    }

    fn broken(&self) -> String {
        let message = "the request failed inside the server";
        self.error(&ApiError::new(Code::Internal, message))
    }
}
