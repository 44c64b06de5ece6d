//! `POST /admin/harness/{name}/try`: one comment asked of a version beside the live one, both answers side by side.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use serde_json::{Value, json};

use super::harness::{find, named};
use super::refused;
use crate::harness::Snapshot;
use crate::http::error::{ApiError, Code};
use crate::http::fields::Fields;
use crate::http::wire::respond::Buffered;
use crate::http::{Shared, body};
use crate::turn::Turns;

/// Most characters of the comment.
const COMMENT: usize = 2000;
/// Longest version or label.
const VERSION: usize = 64;

/// Asks both, the live one first.
pub(super) async fn run(
    State(shared): State<Arc<Shared>>,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let mut root = Fields::root(body::required(request, &shared.config.limits).await?)?;
    let comment = root.short("comment", COMMENT)?;
    let comment = comment.filter(|comment| !comment.trim().is_empty());
    let comment = comment.ok_or_else(|| root.missing("comment"))?;
    let version = root.short("version", VERSION)?;
    root.finish()?;
    let (harnesses, name) = named(&shared, name)?;
    let status = harnesses.status(Some(&name)).map_err(refused)?;
    let other = match version {
        Some(text) => find(harnesses, &name, &text).await?,
        None => status.staged.ok_or_else(|| {
            let message = "nothing is staged: name a version to try";
            ApiError::new(Code::HarnessNotFound, message).at("version")
        })?,
    };
    let other = other.to_string();
    let other = harnesses.resolve(Some(&name), Some(&other)).await;
    let other = other.map_err(refused)?.snapshot;
    let turns = &shared.accepting()?.turns;
    let live = answer(turns, status.active, &comment).await?;
    let tried = answer(turns, other, &comment).await?;
    Ok(Json(json!({"name": name, "live": live, "tried": tried})))
}

/// One version's answer, as the avatar route gives it, and what its prompt is made of.
async fn answer(turns: &Turns, snapshot: Snapshot, comment: &str) -> Result<Value, ApiError> {
    let sections: Vec<Value> = turns
        .section_tokens(&snapshot)
        .iter()
        .zip(&snapshot.system)
        .map(|(counted, section)| {
            let print = section.fingerprint.to_string();
            json!({"section": counted.section, "tokens": counted.tokens, "fingerprint": print})
        })
        .collect();
    let version = snapshot.version;
    let turn = turns.try_out(snapshot, comment);
    let mut turn = turn.map_err(|rejection| ApiError::from(rejection.cause))?;
    let mut said = Buffered::default();
    while let Some(event) = turn.next().await {
        said.push(event);
    }
    let answer = said.finish(turn.response_id())?;
    Ok(json!({"version": version, "sections": sections, "answer": answer}))
}
