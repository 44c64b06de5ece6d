//! Harnesses as operators read them: JSON.

use serde_json::{Value, json};

use crate::harness::registry::{LastError, Stage, Status};
use crate::harness::store::{Entry, PRODUCTION};
use crate::harness::{Problem, Version};

/// One harness: what answers, what waits, what went wrong last.
pub(super) fn status(name: &str, status: &Status) -> Value {
    let active = &status.active;
    json!({
        "name": name,
        "active": {
            "version": active.version,
            "label": PRODUCTION,
            "skills": active.skills.keys().collect::<Vec<_>>(),
            "warnings": problems(&status.warnings),
        },
        "staged": status.staged,
        "last_error": status.last_error.as_ref().map(last_error),
    })
}

/// What went wrong last, with everything that is wrong.
pub(super) fn last_error(error: &LastError) -> Value {
    json!({
        "stage": match error.stage {
            Stage::Load => "load",
            Stage::Activate => "activate",
            Stage::Store => "store",
        },
        "version": error.version,
        "problems": problems(&error.problems),
    })
}

fn problems(problems: &[Problem]) -> Vec<Value> {
    let one = |problem: &Problem| json!({"path": problem.path, "line": problem.line, "reason": problem.reason});
    problems.iter().map(one).collect()
}

/// The audit log, oldest first.
pub(super) fn history(name: &str, entries: &[Entry]) -> Value {
    json!({"name": name, "entries": entries})
}

/// What a change of what is live led to.
pub(super) fn changed(name: &str, result: &str, version: Version) -> Value {
    json!({"name": name, "result": result, "version": version})
}
