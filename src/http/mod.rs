//! The service's HTTP face, and the only user of axum: routes, wire types, errors, connections.

mod admin;
mod avatar;
mod body;
mod chat;
mod completions;
mod config;
mod connections;
mod error;
mod fields;
mod generation;
mod health;
mod ids;
mod json;
mod middleware;
mod models;
mod server;
mod socket;
mod sse;
mod stall;
mod tokens;
mod wire;

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};

pub use admin::{AdminConfig, Operations};
pub use config::{Config, ConfigError, Limits};
pub use server::{Door, Server, ServerError};

use crate::shutdown::{Phase, Shutdown};
use crate::telemetry::Metrics;
use crate::turn::{self, ServedModel, Turns};
use error::{ApiError, Code};

/// What answers once the model is loaded.
pub struct Backend {
    /// The model behind all routes.
    pub model: ServedModel,
    /// The turns that it speaks.
    pub turns: Turns,
}

/// What every handler shares.
struct Shared {
    config: Config,
    /// What avatar requests mean that do not say, and what is said when there is no answer.
    turn: turn::Config,
    shutdown: Shutdown,
    metrics: Arc<Metrics>,
    backend: OnceLock<Backend>,
    operations: OnceLock<Operations>,
}

impl Shared {
    fn new(config: Config, turn: turn::Config, shutdown: Shutdown, metrics: Arc<Metrics>) -> Self {
        Self {
            config,
            turn,
            shutdown,
            metrics,
            backend: OnceLock::new(),
            operations: OnceLock::new(),
        }
    }

    fn open(&self, backend: Backend) {
        if self.backend.set(backend).is_err() {
            tracing::warn!("the server already has what answers; the second one is ignored");
        }
    }

    fn manage(&self, operations: Operations) {
        if self.operations.set(operations).is_err() {
            tracing::warn!("operators already have what they work on; the second one is ignored");
        }
    }

    /// What answers, once it is there.
    fn loaded(&self) -> Option<&Backend> {
        self.backend.get()
    }

    /// What answers, unless nothing new is taken now.
    fn accepting(&self) -> Result<&Backend, ApiError> {
        if self.shutdown.phase() > Phase::Running {
            return Err(ApiError::new(Code::Draining, "the server is stopping"));
        }
        self.loaded()
            .ok_or_else(|| ApiError::new(Code::Loading, "the model is still being loaded"))
    }
}

/// Every route there is.
fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/avatar/respond", post(avatar::respond))
        .route("/v1/avatar/responses/{id}/cancel", post(avatar::cancel))
        .route("/v1/avatar/rooms/{id}", delete(avatar::end_room))
        .route("/v1/chat/completions", post(chat::completions))
        .route("/v1/completions", post(completions::complete))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*id}", get(models::one))
        .route("/tokenize", post(tokens::tokenize))
        .route("/detokenize", post(tokens::detokenize))
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .route("/version", get(health::version))
        .fallback(not_found)
        .method_not_allowed_fallback(other_method)
        // Our own limit holds, not the framework's 2 MB.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(
            Arc::clone(&shared),
            middleware::envelope,
        ))
        .with_state(shared)
}

async fn not_found(State(shared): State<Arc<Shared>>, request: Request) -> ApiError {
    let error = ApiError::new(
        Code::NotFound,
        format!("there is no {}", request.uri().path()),
    );
    body::discard(request, &shared.config.limits).await;
    error
}

/// A path that exists, asked for in another way. The router adds `Allow`.
async fn other_method(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let method = request.method().clone();
    body::discard(request, &shared.config.limits).await;
    if method == Method::OPTIONS {
        return StatusCode::NO_CONTENT.into_response();
    }
    let message = format!("{method} is not allowed here, see the Allow header");
    ApiError::new(Code::MethodNotAllowed, message).into_response()
}
