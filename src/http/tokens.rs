//! `POST /tokenize` and `POST /detokenize`: what the served model's tokenizer makes of a text, and back.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use serde_json::{Value, json};

use super::error::ApiError;
use super::wire::tokens::{DetokenizeCall, Source, TokenizeCall};
use super::{Shared, body, models};
use crate::turn::RejectionCause;

/// Token ids of a text, or of a conversation as the chat template renders it.
pub(super) async fn tokenize(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let body = body::required(request, &shared.config.limits).await?;
    let backend = shared.accepting()?;
    let call = TokenizeCall::read(body)?;
    let model = models::find(&backend.model, &call.model)?;
    let tokens = match call.source {
        Source::Content(text) => model.engine.tokenizer().encode(&text),
        Source::Markup(text) => model.engine.tokenizer().encode_markup(&text),
        Source::Messages(messages) => {
            let prompt = model.template.render(&messages);
            prompt.map_err(RejectionCause::from)?.tokens
        }
    };
    Ok(Json(json!({"count": tokens.len(), "tokens": tokens})))
}

/// The text that tokens stand for.
pub(super) async fn detokenize(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let body = body::required(request, &shared.config.limits).await?;
    let backend = shared.accepting()?;
    let call = DetokenizeCall::read(body)?;
    let model = models::find(&backend.model, &call.model)?;
    let tokenizer = model.engine.tokenizer();
    let tokens = call.tokens(tokenizer.vocab_size())?;
    Ok(Json(json!({"content": tokenizer.decode(&tokens)})))
}
