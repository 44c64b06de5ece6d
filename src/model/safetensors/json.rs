//! Reading the JSON files beside the weights: bounded in size, a key that occurs twice refused, each value typed and
//! each fault told by file and field.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::model::gguf::{Fault, ModelFileError, open_regular};

/// Reads a whole file of at most `limit` bytes; `None` where there is none.
pub(super) fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, ModelFileError> {
    let (file, size) = match open_regular(path) {
        Err(ModelFileError {
            fault: Fault::Io(error),
            ..
        }) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut bytes = Vec::new();
    let read = file.take(limit + 1).read_to_end(&mut bytes);
    read.map_err(|error| ModelFileError::new(path, "file", Fault::Io(error)))?;
    if bytes.len() as u64 > limit {
        let reason = format!(
            "{} bytes, more than the {limit} that are read",
            size.max(limit + 1)
        );
        return Err(ModelFileError::new(path, "file", Fault::Invalid(reason)));
    }
    Ok(Some(bytes))
}

/// An error of the parser, which names line and column.
pub(super) fn syntax(path: &Path, error: &serde_json::Error) -> ModelFileError {
    ModelFileError::new(path, "json", Fault::Invalid(error.to_string()))
}

/// A file that holds an object.
#[derive(Debug)]
pub(super) struct Document {
    path: PathBuf,
    root: Map<String, Value>,
}

impl Document {
    /// Reads a file; `None` where there is none.
    pub(super) fn open(path: &Path, limit: u64) -> Result<Option<Self>, ModelFileError> {
        let Some(bytes) = read(path, limit)? else {
            return Ok(None);
        };
        Self::parse(path, &bytes).map(Some)
    }

    /// Parses what the file at `path` holds.
    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, ModelFileError> {
        let Strict(value) = serde_json::from_slice(bytes).map_err(|error| syntax(path, &error))?;
        match value {
            Value::Object(root) => Ok(Self {
                path: path.to_owned(),
                root,
            }),
            _ => {
                let reason = "is not an object".to_owned();
                Err(ModelFileError::new(path, "json", Fault::Invalid(reason)))
            }
        }
    }

    /// All of it.
    pub(super) fn root(&self) -> Object<'_> {
        Object {
            path: &self.path,
            prefix: String::new(),
            values: &self.root,
        }
    }
}

/// An object in a file. A value of `null` counts as missing.
#[derive(Clone, Debug)]
pub(super) struct Object<'a> {
    path: &'a Path,
    prefix: String,
    values: &'a Map<String, Value>,
}

impl<'a> Object<'a> {
    /// An error about one of its fields.
    pub(super) fn error(&self, field: &str, fault: Fault) -> ModelFileError {
        ModelFileError::new(self.path, &format!("{}{field}", self.prefix), fault)
    }

    /// [`Fault::Unsupported`] about one of its fields.
    pub(super) fn unsupported(&self, field: &str, what: impl Into<String>) -> ModelFileError {
        self.error(field, Fault::Unsupported(what.into()))
    }

    pub(super) fn get(&self, field: &str) -> Option<&'a Value> {
        self.values.get(field).filter(|value| !value.is_null())
    }

    /// Fields that are not null.
    pub(super) fn fields(&self) -> impl Iterator<Item = &'a str> {
        let stated = self.values.iter().filter(|(_, value)| !value.is_null());
        stated.map(|(field, _)| field.as_str())
    }

    pub(super) fn opt_u32(&self, field: &str) -> Result<Option<u32>, ModelFileError> {
        self.typed(field, "an integer of 32 unsigned bits", |value| {
            u32::try_from(value.as_u64()?).ok()
        })
    }

    pub(super) fn u32(&self, field: &str) -> Result<u32, ModelFileError> {
        self.wanted(field, self.opt_u32(field)?)
    }

    /// Integers count as floats too: both are written.
    pub(super) fn opt_f32(&self, field: &str) -> Result<Option<f32>, ModelFileError> {
        self.typed(field, "a number", |value| Some(value.as_f64()? as f32))
    }

    pub(super) fn f32(&self, field: &str) -> Result<f32, ModelFileError> {
        self.wanted(field, self.opt_f32(field)?)
    }

    pub(super) fn bool_or(&self, field: &str, default: bool) -> Result<bool, ModelFileError> {
        let value = self.typed(field, "true or false", Value::as_bool)?;
        Ok(value.unwrap_or(default))
    }

    pub(super) fn opt_str(&self, field: &str) -> Result<Option<&'a str>, ModelFileError> {
        self.typed(field, "a string", Value::as_str)
    }

    pub(super) fn opt_list(&self, field: &str) -> Result<Option<&'a [Value]>, ModelFileError> {
        self.typed(field, "a list", |value| Some(value.as_array()?.as_slice()))
    }

    /// The object in a field.
    pub(super) fn opt_object(&self, field: &str) -> Result<Option<Self>, ModelFileError> {
        let values = self.typed(field, "an object", Value::as_object)?;
        Ok(values.map(|values| Self {
            path: self.path,
            prefix: format!("{}{field}.", self.prefix),
            values,
        }))
    }

    /// A token id, or a list of them.
    pub(super) fn ids(&self, field: &str) -> Result<Vec<u32>, ModelFileError> {
        let id = |value: &Value| u32::try_from(value.as_u64()?).ok();
        let ids = self.typed(field, "a token id or a list of them", |value| match value {
            Value::Array(ids) => ids.iter().map(id).collect(),
            one => Some(vec![id(one)?]),
        })?;
        Ok(ids.unwrap_or_default())
    }

    fn wanted<T>(&self, field: &str, value: Option<T>) -> Result<T, ModelFileError> {
        value.ok_or_else(|| self.error(field, Fault::Missing))
    }

    fn typed<T>(
        &self,
        field: &str,
        expected: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ModelFileError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        let found = || Fault::WrongType {
            expected,
            actual: shown(value),
        };
        read(value)
            .map(Some)
            .ok_or_else(|| self.error(field, found()))
    }
}

/// A value for a message.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// A JSON value in which no object states a key twice.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: serde::Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("a number is not finite"))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Strict(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some((key, Strict(value))) = map.next_entry::<String, Strict>()? {
            if values.contains_key(&key) {
                let shown: String = key.chars().take(64).flat_map(char::escape_debug).collect();
                return Err(A::Error::custom(format_args!(
                    "key \"{shown}\" occurs twice"
                )));
            }
            values.insert(key, value);
        }
        Ok(Value::Object(values))
    }
}
