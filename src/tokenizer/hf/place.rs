//! A value in a JSON file together with where it is, so that what is refused is named.

use serde_json::{Map, Value};

use crate::tokenizer::TokenizerError;

/// What an absent member is.
const NULL: &Value = &Value::Null;

/// A value and its path from the root, such as `pre_tokenizer.pretokenizers[1].use_regex`.
#[derive(Clone, Debug)]
pub(super) struct Place<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> Place<'a> {
    /// A member of the file's outermost object.
    pub(super) fn root(root: &'a Value, name: &str) -> Self {
        Self {
            path: name.to_owned(),
            value: root.get(name).unwrap_or(NULL),
        }
    }

    /// A member; null where there is none.
    pub(super) fn member(&self, name: &str) -> Self {
        Self {
            path: format!("{}.{name}", self.path),
            value: self.value.get(name).unwrap_or(NULL),
        }
    }

    pub(super) fn is_null(&self) -> bool {
        self.value.is_null()
    }

    /// The `type` of a stage; empty where it has none.
    pub(super) fn kind(&self) -> &'a str {
        self.value.get("type").and_then(Value::as_str).unwrap_or("")
    }

    pub(super) fn text(&self) -> Result<&'a str, TokenizerError> {
        self.value
            .as_str()
            .ok_or_else(|| self.wrong("is not a string"))
    }

    /// A text, or nothing where there is none or an empty one.
    pub(super) fn optional_text(&self) -> Result<Option<&'a str>, TokenizerError> {
        if self.is_null() {
            return Ok(None);
        }
        self.text()
            .map(|text| Some(text).filter(|text| !text.is_empty()))
    }

    pub(super) fn flag(&self, default: bool) -> Result<bool, TokenizerError> {
        match self.value {
            Value::Null => Ok(default),
            Value::Bool(flag) => Ok(*flag),
            _ => Err(self.wrong("is not true or false")),
        }
    }

    pub(super) fn id(&self) -> Result<u32, TokenizerError> {
        let id = self.value.as_u64().and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| self.wrong("is not a token id"))
    }

    pub(super) fn object(&self) -> Result<&'a Map<String, Value>, TokenizerError> {
        self.value
            .as_object()
            .ok_or_else(|| self.wrong("is not an object"))
    }

    /// The items of a list; an absent one is empty.
    pub(super) fn items(&self) -> Result<Vec<Self>, TokenizerError> {
        let items = match self.value {
            Value::Null => return Ok(Vec::new()),
            Value::Array(items) => items,
            _ => return Err(self.wrong("is not a list")),
        };
        let place = |(index, value)| Self {
            path: format!("{}[{index}]", self.path),
            value,
        };
        Ok(items.iter().enumerate().map(place).collect())
    }

    /// The stages that a stage stands for: its own, or those in its list of this name if it is a sequence.
    pub(super) fn stages(&self, list: &str) -> Result<Vec<Self>, TokenizerError> {
        match self.kind() {
            "" if self.is_null() => Ok(Vec::new()),
            "Sequence" => {
                let mut stages = Vec::new();
                for item in self.member(list).items()? {
                    if item.kind() == "Sequence" {
                        return Err(item.unsupported());
                    }
                    stages.push(item);
                }
                Ok(stages)
            }
            _ => Ok(vec![self.clone()]),
        }
    }

    /// Refuses a member whose value is another than the one that is implemented.
    pub(super) fn only(&self, name: &str, value: &Value) -> Result<(), TokenizerError> {
        let member = self.member(name);
        if member.value == value {
            return Ok(());
        }
        let shown: String = member.value.to_string().chars().take(80).collect();
        Err(member.wrong(format!("`{shown}` is not supported, only `{value}`")))
    }

    pub(super) fn wrong(&self, reason: impl Into<String>) -> TokenizerError {
        TokenizerError::at(self.path.clone(), reason)
    }

    /// A stage that is not implemented, or not in this company.
    pub(super) fn unsupported(&self) -> TokenizerError {
        self.wrong(format!("`{}` is not supported here", self.kind()))
    }
}
