//! Schemas that the standard allows and no value can meet: a model held to one would write until its limit.

use serde_json::{Map, Value};

use super::{Fault, graph};

/// Pairs of bounds of which the first must not exceed the second.
const BOUNDS: &[(&str, &str)] = &[
    ("minimum", "maximum"),
    ("minItems", "maxItems"),
    ("minLength", "maxLength"),
    ("minProperties", "maxProperties"),
    ("minContains", "maxContains"),
];

pub(super) fn check(root: &Value) -> Result<(), Fault> {
    let mut fault = None;
    graph::each(root, &mut |place, fields| {
        if fault.is_none() {
            fault = impossible(fields)
                .map(|(key, reason)| Fault::new(format!("{place}/{key}"), reason));
        }
    });
    match root {
        Value::Bool(false) => Err(Fault::new("", "false: no value fits")),
        _ => fault.map_or(Ok(()), Err),
    }
}

fn impossible(fields: &Map<String, Value>) -> Option<(&'static str, String)> {
    if fields
        .get("enum")
        .and_then(Value::as_array)
        .is_some_and(Vec::is_empty)
    {
        return Some(("enum", "is empty: no value fits".to_owned()));
    }
    for (low, high) in BOUNDS {
        if let (Some(least), Some(most)) = (number(fields, low), number(fields, high))
            && least > most
        {
            return Some((
                low,
                format!("is {least}, above {high} {most}: no value fits"),
            ));
        }
    }
    let closed = fields.get("additionalProperties") == Some(&Value::Bool(false))
        && !fields.contains_key("patternProperties");
    let known = fields.get("properties").and_then(Value::as_object);
    for name in fields
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let name = name.as_str().unwrap_or_default();
        let schema = known.and_then(|known| known.get(name));
        if (closed && schema.is_none()) || schema == Some(&Value::Bool(false)) {
            return Some((
                "required",
                format!("{name:?} is required and not allowed: no value fits"),
            ));
        }
    }
    None
}

fn number(fields: &Map<String, Value>, key: &str) -> Option<f64> {
    fields.get(key).and_then(Value::as_f64)
}
