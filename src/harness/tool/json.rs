//! JSON as operators write it: duplicate keys are faults, and a field's line can be found again.

use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// What is wrong with a JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonFault {
    /// From 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

/// Reads one JSON value, at most 128 levels deep, keys in their order.
///
/// # Errors
/// Bad JSON, bad UTF-8 or a key that an object has twice.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonFault> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Strict.deserialize(&mut reader);
    let value = value.and_then(|value| reader.end().map(|()| value));
    value.map_err(|error| {
        let text = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        JsonFault {
            line: error.line().max(1),
            reason: text.trim_end_matches(&place).to_owned(),
        }
    })
}

/// The line of the field that `keys` lead to, from the outermost; that of the last key found where they lead nowhere.
#[must_use]
pub fn line_of(text: &str, keys: &[&str]) -> usize {
    let mut at = 0;
    for key in keys {
        let quoted = format!("\"{key}\"");
        let found = text[at..].match_indices(&quoted).find(|(start, _)| {
            text[at + start + quoted.len()..]
                .trim_start()
                .starts_with(':')
        });
        match found {
            Some((start, _)) => at += start + quoted.len(),
            None => break,
        }
    }
    text[..at].matches('\n').count() + 1
}

/// A value without duplicate keys.
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Strict)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!(
                    "key {key:?} stands twice in one object"
                )));
            }
            object.insert(key, map.next_value_seed(Strict)?);
        }
        Ok(Value::Object(object))
    }
}
