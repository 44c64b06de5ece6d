//! `POST /v1/completions`: OpenAI's text completions, the raw door to the model: no template, and control tokens may be
//! written in the prompt.

use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::response::Response;

use super::error::ApiError;
use super::ids::{RequestId, draw};
use super::wire::completion::CompletionCall;
use super::wire::text_answer::TextAnswer;
use super::{Shared, body, generation, models};
use crate::telemetry::events::ChatRejected;
use crate::turn::ServedModel;
use crate::turn::completion::{CompletionRequest, complete as submit};

/// Continues raw prompts.
pub(super) async fn complete(
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
    let mut answer = TextAnswer {
        id: format!("cmpl-{:016x}", draw()),
        created: generation::now(),
        model: model.id.clone(),
        include_usage: call.include_usage,
        logprobs: call.options.logprobs.is_some(),
        n: call.n,
        echo: None,
        said: Vec::new(),
    };
    let asked = CompletionRequest {
        prompts: call.prompts,
        n: call.n,
        options: call.options,
        vary_seeds: !call.seeded,
    };
    let stream = submit(model, &shared.metrics, asked)
        .map_err(|cause| ApiError::rejected(cause, "prompt"))?;
    answer.said = vec![0; stream.choices()];
    answer.echo = call.echo.then(|| stream.prompt_texts());
    generation::respond(stream, &shared, request_id, answer, call.stream).await
}

/// What is asked, and of which model.
async fn accept(
    shared: &Shared,
    request: Request,
) -> Result<(&ServedModel, CompletionCall), ApiError> {
    let body = body::required(request, &shared.config.limits).await?;
    let backend = shared.accepting()?;
    let call = CompletionCall::read(body, draw)?;
    let model = models::find(&backend.model, &call.model)?;
    Ok((model, call))
}
