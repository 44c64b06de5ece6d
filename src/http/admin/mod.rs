//! The operators' routes, on a listener of their own: what is live, why a change is not, and the ways to move it.

mod config;
mod harness;
mod level;
mod trial;
mod view;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

use super::error::{ApiError, Code};
use super::{Shared, middleware, not_found, other_method};
use crate::harness::HarnessHandle;
use crate::harness::registry::ResolveError;
use crate::harness::store::StoreError;
use crate::telemetry::logging::LogLevel;

pub use config::AdminConfig;

/// What operators work on.
#[derive(Clone, Debug)]
pub struct Operations {
    /// Every harness that is followed; `None` where none is.
    pub harnesses: Option<HarnessHandle>,
    /// The log's level, where this process may change it.
    pub log_level: Option<LogLevel>,
}

/// Every route of the operators' listener.
pub(super) fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/admin/harness", get(harness::list))
        .route("/admin/harness/{name}", get(harness::one))
        .route("/admin/harness/{name}/history", get(harness::history))
        .route("/admin/harness/{name}/reload", post(harness::reload))
        .route("/admin/harness/{name}/promote", post(harness::promote))
        .route("/admin/harness/{name}/rollback", post(harness::rollback))
        .route("/admin/harness/{name}/try", post(trial::run))
        .route("/admin/log-level", get(level::show).post(level::set))
        .fallback(not_found)
        .method_not_allowed_fallback(other_method)
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(
            Arc::clone(&shared),
            middleware::envelope,
        ))
        .with_state(shared)
}

/// What operators work on, once it is there.
fn operations(shared: &Shared) -> Result<&Operations, ApiError> {
    let loading = || ApiError::new(Code::Loading, "the harnesses are still being loaded");
    shared.operations.get().ok_or_else(loading)
}

/// Every harness that is followed.
fn harnesses(shared: &Shared) -> Result<&HarnessHandle, ApiError> {
    let none = || ApiError::new(Code::NotFound, "this server follows no folder of harnesses");
    operations(shared)?.harnesses.as_ref().ok_or_else(none)
}

/// Why a harness or version cannot be had.
fn refused(error: ResolveError) -> ApiError {
    let code = match &error {
        ResolveError::UnknownHarness(_)
        | ResolveError::UnknownLabel { .. }
        | ResolveError::Store(
            StoreError::Unknown(_) | StoreError::NotALabel(_) | StoreError::NoEarlier,
        ) => Code::HarnessNotFound,
        ResolveError::Unusable { .. } | ResolveError::Activation { .. } => Code::HarnessRejected,
        ResolveError::Store(_) => Code::Internal,
    };
    ApiError::new(code, error.to_string())
}
