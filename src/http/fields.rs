//! Takes the fields of a parsed body one by one, so that what is left at the end is what nobody knows: it is refused
//! by name. `null` counts as absent everywhere.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::error::{ApiError, Code};

/// An object whose fields are being taken.
#[derive(Debug)]
pub(super) struct Fields {
    /// Path of the object itself; empty at the root.
    path: String,
    map: Map<String, Value>,
}

impl Fields {
    /// The body itself, which must be an object.
    pub(super) fn root(body: Value) -> Result<Self, ApiError> {
        Self::of(String::new(), body)
    }

    /// The object at `path`.
    pub(super) fn of(path: String, value: Value) -> Result<Self, ApiError> {
        match value {
            Value::Object(map) => Ok(Self { path, map }),
            other if path.is_empty() => Err(ApiError::new(
                Code::InvalidParameter,
                format!("the body must be an object, not {}", kind(&other)),
            )),
            other => Err(wrong_type(path, "an object", &other)),
        }
    }

    /// The full path of field `name`.
    pub(super) fn path(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// Field `name` as it is.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.map.shift_remove(name).filter(|value| !value.is_null())
    }

    /// Whether field `name` is there, and not null.
    pub(super) fn has(&self, name: &str) -> bool {
        self.map.get(name).is_some_and(|value| !value.is_null())
    }

    /// A string of any length.
    pub(super) fn string(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong_type(self.path(name), "a string", &other)),
        }
    }

    /// A string of at most `max` characters.
    pub(super) fn short(&mut self, name: &str, max: usize) -> Result<Option<String>, ApiError> {
        let text = self.string(name)?;
        if text.as_ref().is_some_and(|text| text.chars().count() > max) {
            let message = format!("must be at most {max} characters long");
            return Err(self.invalid(name, &message));
        }
        Ok(text)
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(wrong_type(self.path(name), "true or false", &other)),
        }
    }

    /// A number; its range is for the caller to check.
    pub(super) fn number(&mut self, name: &str) -> Result<Option<f64>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(number.as_f64()),
            Some(other) => Err(wrong_type(self.path(name), "a number", &other)),
        }
    }

    /// An integer in `range`. A fraction, an exponent or too many digits is no integer.
    pub(super) fn integer(
        &mut self,
        name: &str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, ApiError> {
        let number = match self.take(name) {
            None => return Ok(None),
            Some(Value::Number(number)) => number,
            Some(other) => return Err(wrong_type(self.path(name), "an integer", &other)),
        };
        match number.as_i64() {
            Some(value) if range.contains(&value) => Ok(Some(value)),
            _ => {
                let expected = if *range.end() == i64::MAX && *range.start() >= 0 {
                    format!("must be an integer of at least {}", range.start())
                } else {
                    format!(
                        "must be an integer from {} to {}",
                        range.start(),
                        range.end()
                    )
                };
                Err(self.invalid(name, &expected))
            }
        }
    }

    /// An integer from `least` to `most`.
    pub(super) fn count(
        &mut self,
        name: &str,
        least: i64,
        most: usize,
    ) -> Result<Option<usize>, ApiError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let count = self.integer(name, least..=most)?;
        Ok(count.and_then(|count| usize::try_from(count).ok()))
    }

    /// Every field that was not taken: its path, name and value.
    pub(super) fn into_items(mut self) -> Vec<(String, String, Value)> {
        let items = std::mem::take(&mut self.map).into_iter();
        items
            .map(|(name, value)| (self.path(&name), name, value))
            .collect()
    }

    /// An object, to be taken apart in turn; an absent one is empty.
    pub(super) fn object(&mut self, name: &str) -> Result<Fields, ApiError> {
        let path = self.path(name);
        match self.take(name) {
            None => Ok(Self {
                path,
                map: Map::new(),
            }),
            Some(value) => Self::of(path, value),
        }
    }

    /// A list of at most `max` items, each with its path; an absent one is empty.
    pub(super) fn list(
        &mut self,
        name: &str,
        max: usize,
    ) -> Result<Vec<(String, Value)>, ApiError> {
        let items = match self.take(name) {
            None => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(other) => return Err(wrong_type(self.path(name), "a list", &other)),
        };
        if items.len() > max {
            return Err(self.invalid(name, &format!("must have at most {max} items")));
        }
        let path = self.path(name);
        Ok(items
            .into_iter()
            .enumerate()
            .map(|(index, item)| (format!("{path}[{index}]"), item))
            .collect())
    }

    /// Takes every field; each must be a string of at most `max` characters.
    pub(super) fn each_string(mut self, max: usize) -> Result<(), ApiError> {
        let names: Vec<_> = self.map.keys().cloned().collect();
        for name in names {
            self.short(&name, max)?;
        }
        Ok(())
    }

    /// Refuses a field that is not implemented, unless its value asks for nothing beyond what happens anyway.
    pub(super) fn only(&mut self, name: &str, harmless: &[Value]) -> Result<(), ApiError> {
        match self.take(name) {
            None => Ok(()),
            Some(value) if harmless.contains(&value) => Ok(()),
            Some(_) if harmless.is_empty() => Err(ApiError::unsupported(self.path(name))),
            Some(_) => {
                let spelled: Vec<_> = harmless.iter().map(Value::to_string).collect();
                let path = self.path(name);
                let message = format!("{path} is not supported beyond {}", spelled.join(" or "));
                Err(ApiError::new(Code::UnsupportedParameter, message).at(path))
            }
        }
    }

    /// Refuses what nobody took.
    pub(super) fn finish(self) -> Result<(), ApiError> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(name) => Err(ApiError::unsupported(self.path(name))),
        }
    }

    /// An error that names field `name`; `expected` continues its name.
    pub(super) fn invalid(&self, name: &str, expected: &str) -> ApiError {
        ApiError::invalid(self.path(name), expected)
    }

    /// The error of a field that must be there.
    pub(super) fn missing(&self, name: &str) -> ApiError {
        let path = self.path(name);
        ApiError::new(Code::MissingParameter, format!("{path} is required")).at(path)
    }
}

/// The error of a value of the wrong type.
pub(super) fn wrong_type(path: String, expected: &str, found: &Value) -> ApiError {
    ApiError::invalid(path, &format!("must be {expected}, not {}", kind(found)))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(value: Value) -> Fields {
        Fields::root(value).unwrap()
    }

    #[test]
    fn leftovers_are_refused_by_path() {
        let mut root = fields(json!({"a": {"b": 1, "c": 2}}));
        let mut inner = root.object("a").unwrap();
        assert_eq!(inner.integer("b", 0..=9).unwrap(), Some(1));
        let error = inner.finish().unwrap_err();
        assert_eq!(error.code(), Code::UnsupportedParameter);
        assert_eq!(error.param(), Some("a.c"));
        root.finish().unwrap();
        let unknown_null = fields(json!({"zz": null}));
        assert_eq!(unknown_null.finish().unwrap_err().param(), Some("zz"));
    }

    #[test]
    fn integers_are_whole_and_in_range() {
        let max = i64::MAX;
        assert_eq!(
            fields(json!({"seed": max}))
                .integer("seed", i64::MIN..=max)
                .unwrap(),
            Some(max)
        );
        for bad in [
            json!(1.5),
            json!(1e30),
            json!(u64::MAX),
            json!("7"),
            json!(true),
            json!([1]),
        ] {
            let error = fields(json!({"seed": bad}))
                .integer("seed", i64::MIN..=max)
                .unwrap_err();
            assert_eq!(error.param(), Some("seed"));
        }
    }

    #[test]
    fn an_unimplemented_field_may_say_its_default() {
        let harmless = [json!(false)];
        assert!(
            fields(json!({"store": false}))
                .only("store", &harmless)
                .is_ok()
        );
        assert!(
            fields(json!({"store": null}))
                .only("store", &harmless)
                .is_ok()
        );
        let error = fields(json!({"store": true}))
            .only("store", &harmless)
            .unwrap_err();
        assert_eq!(error.code(), Code::UnsupportedParameter);
        assert_eq!(error.param(), Some("store"));
    }
}
