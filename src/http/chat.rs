//! `POST /v1/chat/completions`: OpenAI's chat, as chunks or as one object.

use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::response::Response;

use super::error::ApiError;
use super::ids::{RequestId, draw};
use super::wire::chat::ChatCall;
use super::wire::chat_answer::ChatAnswer;
use super::{Shared, body, generation, models};
use crate::telemetry::events::ChatRejected;
use crate::turn::ServedModel;
use crate::turn::chat::{ChatRequest, chat};

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
    let answer = ChatAnswer {
        id: format!("chatcmpl-{:016x}", draw()),
        created: generation::now(),
        model: model.id.clone(),
        include_usage: call.include_usage,
        logprobs: call.options.logprobs.is_some(),
        n: call.n,
    };
    let asked = ChatRequest {
        messages: call.messages,
        n: call.n,
        options: call.options,
    };
    let stream = chat(model, &shared.metrics, asked)?;
    generation::respond(stream, &shared, request_id, answer, call.stream).await
}

/// What is asked, and of which model.
async fn accept(shared: &Shared, request: Request) -> Result<(&ServedModel, ChatCall), ApiError> {
    let body = body::required(request, &shared.config.limits).await?;
    let backend = shared.accepting()?;
    let call = ChatCall::read(body, draw)?;
    let model = models::find(&backend.model, &call.model)?;
    Ok((model, call))
}
