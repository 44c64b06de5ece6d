//! `POST /v1/avatar/respond`: a turn as events or as one object; and its cancellation.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::error::{ApiError, Code};
use super::ids::RequestId;
use super::sse::{self, Frames};
use super::wire::respond::{Buffered, RespondCall, event, read_cancel};
use super::{Shared, body};
use crate::shutdown::Phase;
use crate::turn::{TurnEvent, TurnStream};

/// The header that carries a turn's id before its first event.
const RESPONSE_ID: &str = "x-response-id";

/// Answers viewers' comments.
pub(super) async fn respond(
    State(shared): State<Arc<Shared>>,
    Extension(request_id): Extension<RequestId>,
    request: Request,
) -> Result<Response, ApiError> {
    let body = body::required(request, &shared.config.limits).await?;
    let call = RespondCall::read(body, &shared.config)?;
    let fallback = shared.fallback();
    let speak_instead = |error: ApiError| error.beside("fallback", json!({"tts_text": fallback}));
    let backend = shared.accepting().map_err(speak_instead)?;
    let turn = backend.turns.respond(call.request).map_err(ApiError::from)?;
    let response_id = turn.response_id().to_owned();
    let events = Events {
        turn,
        response_id: response_id.clone(),
        shared: Arc::clone(&shared),
        ending: false,
        sent: 0,
    };
    let mut response = if call.stream {
        sse::respond(events, request_id.as_str(), shared.config.keep_alive())
    } else {
        buffered(events).await
    };
    let header = HeaderValue::from_str(&response_id)
        .expect("ids of turns are letters, digits and dashes");
    response.headers_mut().insert(RESPONSE_ID, header);
    Ok(response)
}

/// Stops a turn; its events end with a completion that says so.
pub(super) async fn cancel(
    State(shared): State<Arc<Shared>>,
    Path(response_id): Path<String>,
    request: Request,
) -> Result<(StatusCode, Json<serde_json::Value>), ApiError> {
    let played = read_cancel(body::optional(request, &shared.config.limits).await?)?;
    todo(played)
}

/// A turn's events, cut short when the process may not wait for it.
struct Events {
    turn: TurnStream,
    response_id: String,
    shared: Arc<Shared>,
    /// Whether the turn was cancelled because the process ends.
    ending: bool,
    /// Events so far.
    sent: u64,
}

impl Events {
    async fn next_event(&mut self) -> Option<TurnEvent> {
        while !self.ending {
            tokio::select! {
                event = self.turn.next() => return event,
                () = self.shared.shutdown.reached(Phase::Ending) => {
                    self.ending = true;
                    if let Ok(backend) = self.shared.backend() {
                        backend.turns.cancel(&self.response_id, None);
                    }
                }
            }
        }
        self.turn.next().await
    }
}
