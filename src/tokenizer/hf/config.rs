//! `tokenizer_config.json`: special tokens and chat templates.

use serde_json::Value;

use crate::tokenizer::{TokenId, TokenizerError, TokenizerParts};

/// Name of the template for any conversation.
const DEFAULT: &str = "default";
/// Name of the template for conversations with tools.
const TOOL_USE: &str = "tool_use";

/// What `tokenizer_config.json` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HfConfig {
    /// Spelling of the token that begins a text.
    pub bos: Option<String>,
    /// Spelling of the token that ends a turn.
    pub eos: Option<String>,
    /// Whether raw prompts start with `bos`, where the file says.
    pub add_bos: Option<bool>,
    /// The chat template: the only one, or the one named `default`.
    pub chat_template: Option<String>,
    /// The template for conversations with tools: the one named `tool_use`.
    pub tool_template: Option<String>,
}

impl HfConfig {
    /// Reads the file's bytes. Members that say nothing of tokens or templates are for other programs.
    ///
    /// # Errors
    /// Names the place in the JSON that is of a wrong type.
    pub fn parse(json: &[u8]) -> Result<Self, TokenizerError> {
        let root: Value = serde_json::from_slice(json)
            .map_err(|error| TokenizerError::at("tokenizer_config.json", error.to_string()))?;
        let (chat_template, tool_template) = templates(&root["chat_template"])?;
        Ok(Self {
            bos: spelling(&root, "bos_token")?,
            eos: spelling(&root, "eos_token")?,
            add_bos: match &root["add_bos_token"] {
                Value::Null => None,
                Value::Bool(flag) => Some(*flag),
                _ => return Err(TokenizerError::at("add_bos_token", "is not true or false")),
            },
            chat_template,
            tool_template,
        })
    }

    /// Sets the special tokens of a vocabulary.
    ///
    /// # Errors
    /// Names the token that the vocabulary does not have.
    pub fn apply(&self, parts: &mut TokenizerParts) -> Result<(), TokenizerError> {
        let id = |field: &'static str, spelling: &Option<String>| -> Result<_, TokenizerError> {
            let Some(spelling) = spelling else {
                return Ok(None);
            };
            let found = parts.tokens.iter().position(|token| token == spelling);
            let found = found.and_then(|id| TokenId::try_from(id).ok());
            let unknown = || TokenizerError::at(field, format!("`{spelling}` is not a token"));
            found.ok_or_else(unknown).map(Some)
        };
        let (bos, eos) = (id("bos_token", &self.bos)?, id("eos_token", &self.eos)?);
        parts.bos = bos.or(parts.bos);
        parts.eos = eos.or(parts.eos);
        parts.add_bos = self.add_bos.unwrap_or(parts.add_bos);
        Ok(())
    }
}

/// A special token: its spelling, or an object that holds it.
fn spelling(root: &Value, name: &'static str) -> Result<Option<String>, TokenizerError> {
    match &root[name] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Object(token) => match token.get("content") {
            Some(Value::String(text)) => Ok(Some(text.clone())),
            _ => Err(TokenizerError::at(
                format!("{name}.content"),
                "is not a string",
            )),
        },
        _ => Err(TokenizerError::at(
            name,
            "is neither a string nor an object",
        )),
    }
}

/// One template, or a list of named ones; those of other names are not used.
fn templates(value: &Value) -> Result<(Option<String>, Option<String>), TokenizerError> {
    let named = match value {
        Value::Null => return Ok((None, None)),
        Value::String(text) => return Ok((Some(text.clone()), None)),
        Value::Array(named) => named,
        _ => {
            let reason = "is neither a string nor a list of named templates";
            return Err(TokenizerError::at("chat_template", reason));
        }
    };
    let (mut default, mut tools) = (None, None);
    for (index, entry) in named.iter().enumerate() {
        let member = |name: &str| {
            entry[name].as_str().ok_or_else(|| {
                TokenizerError::at(format!("chat_template[{index}].{name}"), "is not a string")
            })
        };
        let (name, template) = (member("name")?, member("template")?.to_owned());
        match name {
            DEFAULT => default = Some(template),
            TOOL_USE => tools = Some(template),
            _ => {}
        }
    }
    Ok((default, tools))
}
