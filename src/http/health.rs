//! Whether the process lives, whether it takes requests, what it counts and what it is.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::Shared;
use super::error::{ApiError, Code};
use crate::engine::Heartbeat;
use crate::harness::HarnessHandle;

/// `GET /livez`: fails when restarting would help.
pub(super) async fn livez(State(shared): State<Arc<Shared>>) -> Result<Json<Value>, ApiError> {
    if let Some(backend) = shared.loaded() {
        let stall = Duration::from_millis(shared.config.stall_ms);
        check_heartbeat(backend.model.engine.heartbeat(), stall)?;
    }
    Ok(ok())
}

/// `GET /readyz`: fails while loading, in a drain and when the engine is dead.
pub(super) async fn readyz(State(shared): State<Arc<Shared>>) -> Result<Json<Value>, ApiError> {
    let backend = shared.accepting()?;
    if !backend.model.engine.heartbeat().alive {
        return Err(ApiError::new(
            Code::EngineStopped,
            "the engine's thread has ended",
        ));
    }
    Ok(ok())
}

/// `GET /metrics`, in Prometheus' text format.
pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], shared.metrics.render())
}

/// `GET /version`.
pub(super) async fn version(State(shared): State<Arc<Shared>>) -> Json<Value> {
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "commit": option_env!("COMPERE_COMMIT"),
        "model": shared.loaded().map(|backend| &backend.model.id),
        "harness": shared.operations.get().and_then(|operations| operations.harnesses.as_ref()).map(versions),
    }))
}

/// The live version of every harness.
fn versions(harnesses: &HarnessHandle) -> Value {
    let versions = harnesses.names().filter_map(|name| {
        let live = harnesses.live(Some(name)).ok()?;
        Some((name.to_owned(), json!(live.version)))
    });
    Value::Object(versions.collect())
}

fn ok() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

fn check_heartbeat(beat: Heartbeat, stall: Duration) -> Result<(), ApiError> {
    if !beat.alive {
        return Err(ApiError::new(
            Code::EngineStopped,
            "the engine's thread has ended",
        ));
    }
    if beat.busy && beat.since_step >= stall {
        let message = format!(
            "the engine has work and made no step for {} ms",
            beat.since_step.as_millis()
        );
        return Err(ApiError::new(Code::EngineStopped, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_lives_while_it_steps_or_has_nothing_to_do() {
        let stall = Duration::from_secs(30);
        let beat = |alive, busy, seconds| Heartbeat {
            alive,
            busy,
            since_step: Duration::from_secs(seconds),
        };
        assert!(check_heartbeat(beat(true, true, 29), stall).is_ok());
        assert!(check_heartbeat(beat(true, false, 9999), stall).is_ok());
        assert!(check_heartbeat(beat(true, true, 30), stall).is_err());
        assert!(check_heartbeat(beat(false, false, 0), stall).is_err());
    }
}
