//! `GET /v1/models` and `GET /v1/models/{id}`: what can be asked for.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::Shared;
use super::error::{ApiError, Code};
use crate::turn::ServedModel;

/// Lists the one model that is served, as OpenAI's clients expect it.
pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Result<Json<Value>, ApiError> {
    let entry = entry(served(&shared)?);
    Ok(Json(json!({"object": "list", "data": [entry]})))
}

/// One model by its id, which may hold slashes.
pub(super) async fn one(
    State(shared): State<Arc<Shared>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, ApiError> {
    // What is no UTF-8 names no model.
    let asked = id.map_or("\u{fffd}".to_owned(), |Path(id)| id);
    find(served(&shared)?, &asked).map(|model| Json(entry(model)))
}

fn served(shared: &Shared) -> Result<&ServedModel, ApiError> {
    let loading = || ApiError::new(Code::Loading, "the model is still being loaded");
    Ok(&shared.loaded().ok_or_else(loading)?.model)
}

fn entry(model: &ServedModel) -> Value {
    json!({
        "id": model.id,
        "object": "model",
        "created": model.created,
        "owned_by": "compere",
        "max_model_len": model.engine.limits().max_sequence_tokens,
        "adapters": [],
    })
}

/// The served model, if `asked` names it; empty is the default.
pub(super) fn find<'a>(served: &'a ServedModel, asked: &str) -> Result<&'a ServedModel, ApiError> {
    if asked.is_empty() || asked == served.id {
        return Ok(served);
    }
    let shown: String = asked.chars().take(200).collect();
    let message = format!("there is no model {shown:?}; {:?} is served", served.id);
    Err(ApiError::new(Code::ModelNotFound, message).at("model"))
}
