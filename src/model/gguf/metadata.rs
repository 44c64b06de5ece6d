//! Typed access to metadata. A value of another integer width is accepted where it fits; nothing else is converted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::error::{Fault, ModelFileError};
use super::value::{Array, Strings, Value};

/// A file's metadata. The getters fail with the file and the key named; those that start with `opt_` give `None` for a
/// key that does not exist, but still refuse a wrong type.
#[derive(Debug)]
pub struct Metadata {
    path: PathBuf,
    values: BTreeMap<String, Value>,
}

impl Metadata {
    /// The metadata of the file at `path`.
    pub(crate) fn new(path: &Path, values: BTreeMap<String, Value>) -> Self {
        Self {
            path: path.to_owned(),
            values,
        }
    }

    /// The value as the file holds it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// All keys and values, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// An error about one of this file's keys.
    #[must_use]
    pub fn error(&self, key: &str, fault: Fault) -> ModelFileError {
        ModelFileError::new(&self.path, key, fault)
    }

    /// Checks that all of `keys` exist; `what` says what needs them.
    ///
    /// # Errors
    /// [`Fault::MissingKeys`] with every one that does not.
    pub fn require(&self, what: &str, keys: &[&str]) -> Result<(), ModelFileError> {
        let missing = keys.iter().filter(|key| !self.values.contains_key(**key));
        let missing: Vec<String> = missing.map(|key| (*key).to_owned()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(self.error(what, Fault::MissingKeys(missing)))
    }

    /// An integer that fits 32 unsigned bits.
    ///
    /// # Errors
    /// The key is missing, no integer, or out of range.
    pub fn u32(&self, key: &str) -> Result<u32, ModelFileError> {
        self.wanted(key, self.opt_u32(key)?)
    }

    /// [`Self::u32`] of a key that may be missing.
    ///
    /// # Errors
    /// No integer, or out of range.
    pub fn opt_u32(&self, key: &str) -> Result<Option<u32>, ModelFileError> {
        self.integer(key, "an integer of 32 unsigned bits")
    }

    /// An integer that fits 64 unsigned bits.
    ///
    /// # Errors
    /// The key is missing, no integer, or out of range.
    pub fn u64(&self, key: &str) -> Result<u64, ModelFileError> {
        self.wanted(key, self.opt_u64(key)?)
    }

    /// [`Self::u64`] of a key that may be missing.
    ///
    /// # Errors
    /// No integer, or out of range.
    pub fn opt_u64(&self, key: &str) -> Result<Option<u64>, ModelFileError> {
        self.integer(key, "an integer of 64 unsigned bits")
    }

    /// A float of either width.
    ///
    /// # Errors
    /// The key is missing or no float.
    pub fn f32(&self, key: &str) -> Result<f32, ModelFileError> {
        self.wanted(key, self.opt_f32(key)?)
    }

    /// [`Self::f32`] of a key that may be missing.
    ///
    /// # Errors
    /// No float.
    pub fn opt_f32(&self, key: &str) -> Result<Option<f32>, ModelFileError> {
        self.typed(key, "a float", |value| match value {
            Value::F32(value) => Some(*value),
            Value::F64(value) => Some(*value as f32),
            _ => None,
        })
    }

    /// A truth value.
    ///
    /// # Errors
    /// The key is missing or no bool.
    pub fn bool(&self, key: &str) -> Result<bool, ModelFileError> {
        self.wanted(key, self.opt_bool(key)?)
    }

    /// [`Self::bool`] of a key that may be missing.
    ///
    /// # Errors
    /// No bool.
    pub fn opt_bool(&self, key: &str) -> Result<Option<bool>, ModelFileError> {
        self.typed(key, "a bool", |value| match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        })
    }

    /// A text.
    ///
    /// # Errors
    /// The key is missing or no string.
    pub fn str(&self, key: &str) -> Result<&str, ModelFileError> {
        self.wanted(key, self.opt_str(key)?)
    }

    /// [`Self::str`] of a key that may be missing.
    ///
    /// # Errors
    /// No string.
    pub fn opt_str(&self, key: &str) -> Result<Option<&str>, ModelFileError> {
        self.typed(key, "a string", |value| match value {
            Value::Text(value) => Some(value.as_str()),
            _ => None,
        })
    }

    /// Texts.
    ///
    /// # Errors
    /// The key is missing or no array of strings.
    pub fn strings(&self, key: &str) -> Result<&Strings, ModelFileError> {
        self.wanted(key, self.opt_strings(key)?)
    }

    /// [`Self::strings`] of a key that may be missing.
    ///
    /// # Errors
    /// No array of strings.
    pub fn opt_strings(&self, key: &str) -> Result<Option<&Strings>, ModelFileError> {
        self.typed(key, "an array of strings", |value| match value {
            Value::Array(Array::Text(values)) => Some(values),
            _ => None,
        })
    }

    /// 32-bit signed integers; an array of another width is refused.
    ///
    /// # Errors
    /// The key is missing or no array of i32.
    pub fn i32s(&self, key: &str) -> Result<&[i32], ModelFileError> {
        self.wanted(key, self.opt_i32s(key)?)
    }

    /// [`Self::i32s`] of a key that may be missing.
    ///
    /// # Errors
    /// No array of i32.
    pub fn opt_i32s(&self, key: &str) -> Result<Option<&[i32]>, ModelFileError> {
        self.typed(key, "an array of i32", |value| match value {
            Value::Array(Array::I32(values)) => Some(values.as_slice()),
            _ => None,
        })
    }

    /// 32-bit floats; an array of another width is refused.
    ///
    /// # Errors
    /// The key is missing or no array of f32.
    pub fn f32s(&self, key: &str) -> Result<&[f32], ModelFileError> {
        self.wanted(key, self.opt_f32s(key)?)
    }

    /// [`Self::f32s`] of a key that may be missing.
    ///
    /// # Errors
    /// No array of f32.
    pub fn opt_f32s(&self, key: &str) -> Result<Option<&[f32]>, ModelFileError> {
        self.typed(key, "an array of f32", |value| match value {
            Value::Array(Array::F32(values)) => Some(values.as_slice()),
            _ => None,
        })
    }

    /// A text that only informs people: of a wrong type it is left out, with a warning.
    #[must_use]
    pub fn info(&self, key: &str) -> Option<&str> {
        match self.values.get(key)? {
            Value::Text(text) => Some(text),
            other => {
                tracing::warn!(file = %self.path.display(), key, found = other.kind(), "metadata key is not a string, ignored");
                None
            }
        }
    }

    fn wanted<T>(&self, key: &str, value: Option<T>) -> Result<T, ModelFileError> {
        value.ok_or_else(|| self.error(key, Fault::Missing))
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ModelFileError> {
        let Some(value) = self.values.get(key) else {
            return Ok(None);
        };
        let found = || Fault::WrongType {
            expected,
            actual: value.kind(),
        };
        read(value)
            .map(Some)
            .ok_or_else(|| self.error(key, found()))
    }

    fn integer<T: TryFrom<i128>>(
        &self,
        key: &str,
        expected: &'static str,
    ) -> Result<Option<T>, ModelFileError> {
        let Some(value) = self.typed(key, expected, Value::integer)? else {
            return Ok(None);
        };
        let outside = || Fault::Invalid(format!("{value} is not {expected}"));
        T::try_from(value)
            .map(Some)
            .map_err(|_| self.error(key, outside()))
    }
}
