//! `GET` and `POST /admin/log-level`: what the log holds, until the process ends.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use serde_json::{Value, json};

use super::operations;
use crate::http::error::{ApiError, Code};
use crate::http::fields::Fields;
use crate::http::{Shared, body};
use crate::telemetry::logging::LogLevel;

/// Most characters of a level with directives.
const LENGTH: usize = 1000;

fn level(shared: &Shared) -> Result<&LogLevel, ApiError> {
    let fixed = || {
        ApiError::new(
            Code::NotFound,
            "this process does not change its log's level",
        )
    };
    operations(shared)?.log_level.as_ref().ok_or_else(fixed)
}

/// The level in force.
pub(super) async fn show(State(shared): State<Arc<Shared>>) -> Result<Json<Value>, ApiError> {
    Ok(Json(json!({"level": level(&shared)?.now()})))
}

/// Puts another in force.
pub(super) async fn set(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let mut root = Fields::root(body::required(request, &shared.config.limits).await?)?;
    let wanted = root.short("level", LENGTH)?;
    let wanted = wanted.ok_or_else(|| root.missing("level"))?;
    root.finish()?;
    let level = level(&shared)?;
    level
        .set(&wanted)
        .map_err(|error| ApiError::new(Code::InvalidParameter, error.to_string()).at("level"))?;
    tracing::warn!(level = wanted, "log level changed");
    Ok(Json(json!({"level": level.now()})))
}
