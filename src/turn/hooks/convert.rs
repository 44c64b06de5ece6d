//! JSON to script values and back, no deeper than a stack can take.

use rhai::{Array, Dynamic, Map};
use serde_json::Value;

/// Deeper values are no results of honest scripts.
const MOST_DEPTH: usize = 48;

/// A JSON value for a script.
pub(super) fn to_script(value: &Value) -> Dynamic {
    match value {
        Value::Null => Dynamic::UNIT,
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.into(),
            (None, Some(float)) => float.into(),
            (None, None) => number.to_string().into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(to_script).collect::<Array>().into(),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(key, value)| (key.as_str().into(), to_script(value)));
            fields.collect::<Map>().into()
        }
    }
}

/// A script's value as JSON; `None` for what JSON has no word for, or what is nested too deep.
pub(super) fn from_script(value: &Dynamic) -> Option<Value> {
    at_depth(value, 0)
}

fn at_depth(value: &Dynamic, depth: usize) -> Option<Value> {
    if depth > MOST_DEPTH {
        return None;
    }
    if value.is_unit() {
        return Some(Value::Null);
    }
    if let Ok(value) = value.as_bool() {
        return Some(Value::Bool(value));
    }
    if let Ok(value) = value.as_int() {
        return Some(value.into());
    }
    if let Ok(value) = value.as_float() {
        return serde_json::Number::from_f64(value).map(Value::Number);
    }
    if let Some(value) = value.read_lock::<rhai::ImmutableString>() {
        return Some(value.as_str().into());
    }
    if let Ok(value) = value.as_char() {
        return Some(value.to_string().into());
    }
    if let Some(items) = value.read_lock::<Array>() {
        return items.iter().map(|item| at_depth(item, depth + 1)).collect();
    }
    let fields = value.read_lock::<Map>()?;
    let fields = fields
        .iter()
        .map(|(key, value)| Some((key.to_string(), at_depth(value, depth + 1)?)));
    fields
        .collect::<Option<serde_json::Map<_, _>>>()
        .map(Value::Object)
}
