//! A script's run: the event as its argument, its map as a wish.

use std::time::Duration;

use rhai::{Dynamic, EvalAltResult, Map};
use serde_json::Value;

use super::convert::{from_script, to_script};
use super::{Abnormal, Ended, Event, Wish};
use crate::harness::hook::{Point, Script};

/// Keys that a decision may have.
const KEYS: &[&str] = &[
    "decision",
    "reason",
    "text",
    "updatedInput",
    "additionalContext",
];

pub(super) fn wish(
    script: &Script,
    event: &Event,
    point: Point,
    budget: Duration,
) -> Result<Wish, Abnormal> {
    match script.run(argument(event, point), budget) {
        Ok(result) => read(&result, point).map_err(|reason| Abnormal {
            ended: Ended::WrongType,
            reason,
        }),
        Err(error) => Err(abnormal(&error)),
    }
}

fn argument(event: &Event, point: Point) -> Dynamic {
    let mut fields = Map::new();
    let mut set = |key: &str, value: Dynamic| fields.insert(key.into(), value);
    set("point", point.word().into());
    set("room_id", event.room_id.as_str().into());
    set(
        "language",
        event.language.as_deref().map_or(Dynamic::UNIT, Into::into),
    );
    set("text", event.text.as_str().into());
    set("facts", to_script(&event.facts));
    set(
        "tool_results",
        event
            .tool_results
            .iter()
            .map(to_script)
            .collect::<rhai::Array>()
            .into(),
    );
    if let Some(tool) = &event.tool {
        set("tool_name", tool.name.as_str().into());
        set("tool_input", to_script(&tool.input));
        set(
            "tool_result",
            tool.result.as_ref().map_or(Dynamic::UNIT, to_script),
        );
    }
    fields.into()
}

fn abnormal(error: &EvalAltResult) -> Abnormal {
    let mut cause = error;
    while let EvalAltResult::ErrorInFunctionCall(_, _, inner, _) = cause {
        cause = inner;
    }
    let ended = match cause {
        EvalAltResult::ErrorTooManyOperations(_) | EvalAltResult::ErrorTerminated(..) => {
            Ended::Timeout
        }
        _ => Ended::Error,
    };
    Abnormal {
        ended,
        reason: error.to_string(),
    }
}

/// The map that a script returned. What is missing, unknown or of the wrong type is no decision at all.
fn read(result: &Dynamic, point: Point) -> Result<Wish, String> {
    let fields = result.read_lock::<Map>().ok_or_else(|| {
        format!(
            "returned {}, must be a map with a decision",
            result.type_name()
        )
    })?;
    if let Some(unknown) = fields.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!("returned the unknown field {unknown:?}"));
    }
    let text = |key: &str| match fields.get(key) {
        None => Ok(None),
        Some(value) if value.is_unit() => Ok(None),
        Some(value) => match value.read_lock::<rhai::ImmutableString>() {
            Some(text) => Ok(Some(text.to_string())),
            None => Err(format!("{key} is {}, must be a string", value.type_name())),
        },
    };
    let decision = text("decision")?.ok_or("decision is missing")?;
    let reason = text("reason")?.unwrap_or_default();
    let context = text("additionalContext")?;
    let new_text = text("text")?;
    let input = match fields.get("updatedInput") {
        None => None,
        Some(_) if point != Point::PreTool => {
            return Err(format!(
                "updatedInput is for pre_tool, not {}",
                point.word()
            ));
        }
        Some(value) => match from_script(value) {
            Some(input @ Value::Object(_)) => Some(input),
            _ => return Err("updatedInput must be a map of plain values".to_owned()),
        },
    };
    if let Some(text) = &new_text {
        check_text(text, point)?;
    }
    match (decision.as_str(), new_text, input) {
        ("allow", None, None) => Ok(Wish::Allow { context }),
        ("block", None, None) => Ok(Wish::Block { reason }),
        ("replace", Some(text), None) => Ok(Wish::Replace { text, reason }),
        ("modify", Some(_), _) if point == Point::PreTool => {
            Err("modify at pre_tool takes updatedInput, not text".to_owned())
        }
        ("modify", None, None) if context.is_none() => {
            Err("modify without anything new".to_owned())
        }
        ("modify", Some(text), _) if point == Point::PostTool => {
            let result = Some(Value::String(text));
            Ok(Wish::Modify {
                text: None,
                input: None,
                result,
                context,
            })
        }
        ("modify", text, input) => Ok(Wish::Modify {
            text,
            input,
            result: None,
            context,
        }),
        ("replace", None, _) => Err("replace without a text".to_owned()),
        ("allow" | "block" | "replace", ..) => {
            Err(format!("{decision} with fields that it has no use for"))
        }
        _ => Err(format!(
            "decision is {decision:?}, must be allow, modify, block or replace"
        )),
    }
}

/// What is spoken must have something to say.
fn check_text(text: &str, point: Point) -> Result<(), String> {
    if point == Point::PreSegment && !text.chars().any(char::is_alphanumeric) {
        return Err("text has nothing to say".to_owned());
    }
    Ok(())
}
