//! `/admin/harness`: look at harnesses, and move what is live.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use serde_json::{Value, json};

use super::{harnesses, refused, view};
use crate::harness::registry::{Reload, Status};
use crate::harness::{HarnessHandle, Version};
use crate::http::error::{ApiError, Code};
use crate::http::fields::Fields;
use crate::http::{Shared, body};

/// Who did it, where the request does not say.
const WHO: &str = "admin";
/// Longest name of who did it.
const WHO_LENGTH: usize = 100;
/// Longest version or label.
const VERSION_LENGTH: usize = 64;
/// Fewest digits that may stand for a version.
const DIGITS: usize = 6;

/// The part of the path that names a harness.
type Name = Result<Path<String>, PathRejection>;

/// Every harness in short.
pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Result<Json<Value>, ApiError> {
    let harnesses = harnesses(&shared)?;
    let mut all = Vec::new();
    for name in harnesses.names() {
        let Status {
            active,
            staged,
            last_error,
            ..
        } = harnesses.status(Some(name)).map_err(refused)?;
        all.push(json!({
            "name": name,
            "active": active.version,
            "staged": staged,
            "last_error": last_error.as_ref().map(view::last_error),
        }));
    }
    Ok(Json(
        json!({"default": harnesses.default_name(), "harnesses": all}),
    ))
}

/// One harness.
pub(super) async fn one(
    State(shared): State<Arc<Shared>>,
    name: Name,
) -> Result<Json<Value>, ApiError> {
    let (harnesses, name) = named(&shared, name)?;
    let status = harnesses.status(Some(&name)).map_err(refused)?;
    Ok(Json(view::status(&name, &status)))
}

/// Every change of it.
pub(super) async fn history(
    State(shared): State<Arc<Shared>>,
    name: Name,
) -> Result<Json<Value>, ApiError> {
    let (harnesses, name) = named(&shared, name)?;
    let entries = harnesses.history(Some(&name)).await.map_err(refused)?;
    Ok(Json(view::history(&name, &entries)))
}

/// Reads its folder now.
pub(super) async fn reload(
    State(shared): State<Arc<Shared>>,
    name: Name,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    Fields::root(body::optional(request, &shared.config.limits).await?)?.finish()?;
    let (harnesses, name) = named(&shared, name)?;
    let reloaded = harnesses.reload(Some(&name)).await.map_err(refused)?;
    let status = harnesses.status(Some(&name)).map_err(refused)?;
    let answer = match reloaded {
        Reload::Unchanged => view::changed(&name, "unchanged", status.active.version),
        Reload::Activated(version) => view::changed(&name, "activated", version),
        Reload::Staged(version) => view::changed(&name, "staged", version),
        Reload::Rejected => {
            let error = ApiError::new(
                Code::HarnessRejected,
                "the folder cannot be used; what was live still is",
            );
            let last = status.last_error.as_ref().map(view::last_error);
            return Err(error.beside("last_error", json!(last)));
        }
    };
    Ok(Json(answer))
}

/// Makes a kept version live, the staged one where none is named.
pub(super) async fn promote(
    State(shared): State<Arc<Shared>>,
    name: Name,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let order = Order::read(body::optional(request, &shared.config.limits).await?)?;
    let (harnesses, name) = named(&shared, name)?;
    let version = order.version(harnesses, &name).await?;
    let promoted = harnesses.promote(Some(&name), version, &order.who);
    let version = promoted.await.map_err(refused)?;
    Ok(Json(view::changed(&name, "activated", version)))
}

/// Makes an earlier version live, the one before where none is named.
pub(super) async fn rollback(
    State(shared): State<Arc<Shared>>,
    name: Name,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let order = Order::read(body::optional(request, &shared.config.limits).await?)?;
    let (harnesses, name) = named(&shared, name)?;
    let version = order.version(harnesses, &name).await?;
    let back = harnesses.rollback(Some(&name), version, &order.who);
    let version = back.await.map_err(refused)?;
    Ok(Json(view::changed(&name, "activated", version)))
}

/// The harness that the path names.
pub(super) fn named(shared: &Shared, name: Name) -> Result<(&HarnessHandle, String), ApiError> {
    // What is no UTF-8 names no harness.
    let name = name.map_or("\u{fffd}".to_owned(), |Path(name)| name);
    let harnesses = harnesses(shared)?;
    harnesses.status(Some(&name)).map_err(refused)?;
    Ok((harnesses, name))
}

/// What an operator asks for.
struct Order {
    version: Option<String>,
    who: String,
}

impl Order {
    fn read(body: Value) -> Result<Self, ApiError> {
        let mut root = Fields::root(body)?;
        let version = root.short("version", VERSION_LENGTH)?;
        let who = root.short("who", WHO_LENGTH)?;
        root.finish()?;
        Ok(Self {
            version: version.filter(|version| !version.is_empty()),
            who: who.unwrap_or_else(|| WHO.to_owned()),
        })
    }

    async fn version(
        &self,
        harnesses: &HarnessHandle,
        name: &str,
    ) -> Result<Option<Version>, ApiError> {
        match &self.version {
            None => Ok(None),
            Some(text) => find(harnesses, name, text).await.map(Some),
        }
    }
}

/// The version that a text stands for: all its digits, its first ones, or a label.
pub(super) async fn find(
    harnesses: &HarnessHandle,
    name: &str,
    text: &str,
) -> Result<Version, ApiError> {
    if let Ok(version) = text.parse() {
        return Ok(version);
    }
    if text.len() >= DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let status = harnesses.status(Some(name)).map_err(refused)?;
        let history = harnesses.history(Some(name)).await.map_err(refused)?;
        let mut known: Vec<Version> = history
            .iter()
            .flat_map(|entry| [entry.from, entry.to])
            .chain([Some(status.active.version), status.staged])
            .flatten()
            .filter(|version| version.to_string().starts_with(text))
            .collect();
        known.sort_unstable();
        known.dedup();
        match known.as_slice() {
            [version] => return Ok(*version),
            [] => {}
            _ => {
                let expected = "begins more than one version";
                return Err(ApiError::invalid("version".to_owned(), expected));
            }
        }
    }
    let found = harnesses.resolve(Some(name), Some(text)).await;
    let found = found.map_err(|error| refused(error).at("version"))?;
    Ok(found.snapshot.version)
}
