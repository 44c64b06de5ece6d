//! `POST /v1/avatar/respond`: a turn as events or as one object; its cancellation, and the end of its room.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::error::{ApiError, Code};
use super::fields::Fields;
use super::sse::{self, Frames};
use super::wire::respond::{Buffered, RespondCall, event, read_cancel};
use super::{Shared, body};
use crate::engine::SubmitError;
use crate::shutdown::Phase;
use crate::telemetry::events::TurnRejected;
use crate::turn::{
    Rejection, RejectionCause, TurnEvent, TurnStream, Turns, UnknownRoom, UnknownTurn,
};

/// The header that carries a turn's id before its first event.
const RESPONSE_ID: &str = "x-response-id";

/// Answers viewers' comments.
pub(super) async fn respond(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Response, ApiError> {
    let fallback = &shared.turn.fallback;
    let (turns, mut call) = match accept(&shared, request).await {
        Ok(accepted) => accepted,
        Err(error) => return Err(instead(rejected(&shared, error), fallback)),
    };
    let refuse = |rejection: Rejection| instead(refused(rejection.cause), &rejection.fallback);
    turns.pin(&mut call.request).await.map_err(refuse)?;
    let turn = turns.respond(call.request).map_err(refuse)?;
    let response_id = turn.response_id().to_owned();
    let events = Events {
        turn,
        turns,
        shared: Arc::clone(&shared),
        ending: false,
        sent: 0,
    };
    let mut response = if call.stream {
        sse::respond(events, shared.config.keep_alive())
    } else {
        events.buffered().await.into_response()
    };
    let header =
        HeaderValue::from_str(&response_id).expect("a turn's id is of letters, digits and _");
    response.headers_mut().insert(RESPONSE_ID, header);
    Ok(response)
}

/// The same as for a chat, but the prompt is made of what the caller calls its context.
fn refused(cause: RejectionCause) -> ApiError {
    let is_prompt = matches!(
        cause,
        RejectionCause::Template(_) | RejectionCause::Submit(SubmitError::ContextLength { .. })
    );
    let error = ApiError::from(cause);
    if is_prompt {
        error.at("context")
    } else {
        error
    }
}

/// Stops a turn; its events end with a completion that says so.
pub(super) async fn cancel(
    State(shared): State<Arc<Shared>>,
    response_id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let played = read_cancel(body::optional(request, &shared.config.limits).await?)?;
    let unknown = || ApiError::new(Code::ResponseNotFound, UnknownTurn.to_string());
    let Path(response_id) = response_id.map_err(|_| unknown())?;
    // Also in a drain: what runs may be stopped.
    let turns = &shared.loaded().ok_or_else(unknown)?.turns;
    turns
        .cancel(&response_id, played)
        .map_err(|UnknownTurn| unknown())?;
    Ok(Json(
        json!({"response_id": response_id, "status": "cancelled"}),
    ))
}

/// Ends a room: its turns are cancelled, and it is forgotten.
pub(super) async fn end_room(
    State(shared): State<Arc<Shared>>,
    room_id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    Fields::root(body::optional(request, &shared.config.limits).await?)?.finish()?;
    let unknown = || ApiError::new(Code::RoomNotFound, UnknownRoom.to_string());
    let Path(room_id) = room_id.map_err(|_| unknown())?;
    let turns = &shared.loaded().ok_or_else(unknown)?.turns;
    let cancelled = turns.end_room(&room_id).map_err(|UnknownRoom| unknown())?;
    Ok(Json(
        json!({"room_id": room_id, "status": "ended", "cancelled": cancelled}),
    ))
}

/// What is asked, and of whom.
async fn accept(shared: &Shared, request: Request) -> Result<(Turns, RespondCall), ApiError> {
    let body = body::required(request, &shared.config.limits).await?;
    let turns = shared.accepting()?.turns.clone();
    let call = RespondCall::read(body, &shared.turn)?;
    Ok((turns, call))
}

/// Counts a request that does not become a turn. Its room is not known, and the message may quote the request.
fn rejected(shared: &Shared, error: ApiError) -> ApiError {
    let event = TurnRejected::<String> {
        room_id: "",
        reason: error.word(),
        cause: None,
    };
    event.emit(&shared.metrics);
    error
}

/// Whatever is wrong, the caller learns what to say meanwhile.
fn instead(error: ApiError, fallback: &str) -> ApiError {
    error.beside("fallback", json!({"tts_text": fallback}))
}

/// A turn's events, cut short when the process may not wait for it.
struct Events {
    turn: TurnStream,
    turns: Turns,
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
                    // A turn that has just ended by itself has its last event waiting.
                    let _ = self.turns.cancel(self.turn.response_id(), None);
                }
            }
        }
        self.turn.next().await
    }

    async fn buffered(mut self) -> Result<Json<Value>, ApiError> {
        let mut whole = Buffered::default();
        while let Some(event) = self.next_event().await {
            whole.push(event);
        }
        whole.finish(self.turn.response_id()).map(Json)
    }
}

impl Frames for Events {
    async fn next(&mut self) -> Option<String> {
        let (name, data) = event(&self.next_event().await?);
        self.sent += 1;
        Some(sse::frame(Some(name), Some(self.sent), &data))
    }

    fn broken(&self) -> String {
        let data = json!({
            "code": "internal_error",
            "message": "the turn failed inside the server",
            "retryable": true,
            "fallback": {"tts_text": self.shared.turn.fallback},
        });
        sse::frame(Some("response.failed"), None, &data)
    }
}
