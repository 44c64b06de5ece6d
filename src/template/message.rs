//! What is rendered: messages, the calls of tools in them, the tools themselves, and all of it with marks.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::marks::Marks;

/// One message of a conversation.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Message {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// What was said; a tool's result.
    pub content: String,
    /// What an assistant's message called; templates find no such member where it called nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Which call a tool's result answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Who said it; the tool's name with a tool's result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Message {
    /// A message of a role and a content only.
    #[must_use]
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            role: role.into(),
            content: content.into(),
            ..Self::default()
        }
    }
}

/// One call of a tool. Templates see `{"id", "type": "function", "function": {"name", "arguments"}}`, the arguments as a
/// mapping.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolCall {
    /// Tells calls apart, where the caller does.
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// Its arguments by name.
    pub arguments: Map<String, Value>,
}

/// Arguments of a call that are no JSON object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("arguments {0}")]
pub struct ArgumentsError(String);

impl ToolCall {
    /// A call as it is sent: with its arguments as the text of a JSON object, blank for none.
    ///
    /// # Errors
    /// When the arguments are not that.
    pub fn new(
        id: Option<String>,
        name: impl Into<String>,
        arguments: &str,
    ) -> Result<Self, ArgumentsError> {
        let arguments = match arguments.trim() {
            "" => Map::new(),
            text => match serde_json::from_str(text) {
                Ok(Value::Object(arguments)) => arguments,
                Ok(_) => return Err(ArgumentsError("must be a JSON object".to_owned())),
                Err(error) => return Err(ArgumentsError(format!("are not valid JSON: {error}"))),
            },
        };
        Ok(Self {
            id,
            name: name.into(),
            arguments,
        })
    }
}

impl Serialize for ToolCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Function<'a> {
            name: &'a str,
            arguments: &'a Map<String, Value>,
        }
        let mut call = serializer.serialize_map(None)?;
        if let Some(id) = &self.id {
            call.serialize_entry("id", id)?;
        }
        call.serialize_entry("type", "function")?;
        let function = Function {
            name: &self.name,
            arguments: &self.arguments,
        };
        call.serialize_entry("function", &function)?;
        call.end()
    }
}

/// What a template is rendered with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conversation<'a> {
    /// What was said, at least one message.
    pub messages: &'a [Message],
    /// The tools that may be called, each as OpenAI's `tools` have it; templates see none where it is empty.
    pub tools: &'a [Value],
    /// Further variables that some templates know, such as `enable_thinking`. They replace none of the others.
    pub variables: Option<&'a Map<String, Value>>,
}

impl Conversation<'_> {
    /// All texts, so that marks can be chosen that none of them holds.
    pub(super) fn texts(&self) -> Vec<String> {
        let mut texts = Vec::with_capacity(self.messages.len() * 2 + 2);
        for message in self.messages {
            texts.extend([message.role.clone(), message.content.clone()]);
            texts.extend(message.tool_call_id.iter().chain(&message.name).cloned());
            for call in &message.tool_calls {
                texts.push(call.name.clone());
                texts.extend(call.id.clone());
                texts.push(Value::Object(call.arguments.clone()).to_string());
            }
        }
        texts.extend(self.tools.iter().map(Value::to_string));
        texts.extend(
            self.variables
                .map(|more| Value::Object(more.clone()).to_string()),
        );
        texts
    }
}

/// Roles that the published templates know. They are names of the protocol, not content: templates compare them, and
/// some spell control tokens with them.
const ROLES: [&str; 8] = [
    "system",
    "developer",
    "user",
    "assistant",
    "model",
    "tool",
    "function",
    "ipython",
];

/// Words by which tools are described, for the same reason.
const WORDS: [&str; 24] = [
    "type",
    "function",
    "name",
    "description",
    "parameters",
    "return",
    "properties",
    "required",
    "items",
    "enum",
    "default",
    "format",
    "additionalProperties",
    "anyOf",
    "oneOf",
    "allOf",
    "object",
    "string",
    "number",
    "integer",
    "boolean",
    "array",
    "null",
    "strict",
];

/// A message that can spell no added token.
pub(super) fn protect(marks: &Marks<'_>, message: &Message) -> Message {
    let guard = Guard::new(marks, |_| false);
    let cut = |text: &String| marks.cut(text);
    let role = if ROLES.contains(&message.role.as_str()) {
        message.role.clone()
    } else {
        marks.cut(&message.role)
    };
    let protect_call = |call: &ToolCall| ToolCall {
        id: call.id.as_ref().map(cut),
        name: marks.cut(&call.name),
        arguments: guard.map(&call.arguments),
    };
    Message {
        role,
        content: marks.cut(&message.content),
        tool_calls: message.tool_calls.iter().map(protect_call).collect(),
        tool_call_id: message.tool_call_id.as_ref().map(cut),
        name: message.name.as_ref().map(cut),
    }
}

/// Tools that can spell no added token.
pub(super) fn protect_tools(marks: &Marks<'_>, tools: &[Value]) -> Vec<Value> {
    let guard = Guard::new(marks, |text| WORDS.contains(&text));
    tools.iter().map(|tool| guard.value(tool)).collect()
}

/// Variables that can spell no added token. Their single words stay as they are: templates compare them.
pub(super) fn protect_variables(
    marks: &Marks<'_>,
    variables: &Map<String, Value>,
) -> Map<String, Value> {
    let is_word = |text: &str| {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        text.chars().all(word)
    };
    Guard::new(marks, is_word).map(variables)
}

/// Cuts every text in a value, keys too, but those that templates compare.
struct Guard<'a> {
    marks: &'a Marks<'a>,
    keeps: fn(&str) -> bool,
}

impl<'a> Guard<'a> {
    fn new(marks: &'a Marks<'a>, keeps: fn(&str) -> bool) -> Self {
        Self { marks, keeps }
    }

    fn map(&self, map: &Map<String, Value>) -> Map<String, Value> {
        let entries = map.iter();
        entries
            .map(|(key, value)| (self.text(key), self.value(value)))
            .collect()
    }

    fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.text(text).into(),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(map) => Value::Object(self.map(map)),
            other => other.clone(),
        }
    }

    fn text(&self, text: &str) -> String {
        if (self.keeps)(text) {
            return text.to_owned();
        }
        self.marks.cut(text)
    }
}
