//! One round of calls: checked, run in parallel under a bound, put back in order.

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::catalog::CatalogTool;
use super::{Call, CallResult, Executor, Offer, Outcome, ToolError, Tools};
use crate::harness::tool::{Kind, Tool, json};

/// Longest arguments of a call.
const ARGUMENT_BYTES: usize = 64 << 10;

pub(super) async fn run(tools: &Tools, offer: &Offer, calls: Vec<Call>) -> Vec<CallResult> {
    let places = Arc::new(Semaphore::new(tools.parallel));
    let mut running = JoinSet::new();
    let mut results: Vec<CallResult> = Vec::with_capacity(calls.len());
    let start = Instant::now();
    for (index, call) in calls.into_iter().enumerate() {
        // What stays where a call's task dies.
        let lost = ToolError::new("tool_failed", "the tool stopped without an answer");
        results.push(CallResult {
            id: call.id,
            name: call.name.clone(),
            outcome: Outcome::Error(lost),
            duration: start.elapsed(),
        });
        if index >= tools.most_calls {
            let error = ToolError::new(
                "too_many_calls",
                format!("at most {} calls in one round", tools.most_calls),
            );
            results[index].outcome = Outcome::Error(error);
            continue;
        }
        let (tools, offer, places) = (tools.clone(), offer.clone(), Arc::clone(&places));
        running.spawn(async move {
            let _place = places.acquire_owned().await;
            let outcome = one(&tools, &offer, &call.name, &call.arguments).await;
            (
                index,
                outcome.unwrap_or_else(Outcome::Error),
                start.elapsed(),
            )
        });
    }
    while let Some(done) = running.join_next().await {
        if let Ok((index, outcome, duration)) = done {
            results[index].outcome = outcome;
            results[index].duration = duration;
        }
    }
    results
}

async fn one(
    tools: &Tools,
    offer: &Offer,
    name: &str,
    arguments: &str,
) -> Result<Outcome, ToolError> {
    let Some(tool) = offer.tools.get(name) else {
        return Err(ToolError::new(
            "unknown_tool",
            format!("there is no tool {name:?}"),
        ));
    };
    let arguments = checked(tool, arguments)?;
    let catalog = CatalogTool {
        catalog: Arc::clone(&offer.catalog),
    };
    let executor: &dyn Executor = match &tool.kind {
        Kind::Action => return Ok(Outcome::Action(Value::Object(arguments))),
        Kind::Http(_) => &*tools.http,
        Kind::Mcp { .. } => &*tools.mcp,
        Kind::Catalog => &catalog,
    };
    let answer = tokio::time::timeout(tool.timeout, executor.call(tool, &arguments)).await;
    let value = answer.map_err(|_| {
        ToolError::new(
            "timeout",
            format!("no answer within {} ms", tool.timeout.as_millis()),
        )
    })??;
    if let Some(output) = &tool.output {
        output.check(&value).map_err(|fault| {
            ToolError::new(
                "invalid_result",
                format!("the tool's answer does not fit: {fault}"),
            )
        })?;
    }
    Ok(Outcome::Result(value))
}

/// The arguments as an object that fits the tool's schema.
fn checked(tool: &Tool, arguments: &str) -> Result<Map<String, Value>, ToolError> {
    let wrong = |message: String| ToolError::new("invalid_arguments", message);
    if arguments.len() > ARGUMENT_BYTES {
        return Err(wrong(format!(
            "{} bytes of arguments, at most {ARGUMENT_BYTES}",
            arguments.len()
        )));
    }
    let text = if arguments.trim().is_empty() {
        "{}"
    } else {
        arguments
    };
    let value = json::parse(text.as_bytes())
        .map_err(|fault| wrong(format!("not JSON: {}", fault.reason)))?;
    tool.input
        .check(&value)
        .map_err(|fault| wrong(fault.to_string()))?;
    match value {
        Value::Object(fields) => Ok(fields),
        _ => Err(wrong("(root): must be an object".to_owned())),
    }
}
