//! The model's chat template, rendered to tokens in sections: markup may become control tokens, content never does.
//!
//! Content is marked (`marks`), the template is rendered with the marks in it, and what then still spells an added
//! token is the template's own (`prompt`). A second rendering says where the contents lie. Templates come from model files: they are rendered within limits
//! (`limits`), and conveniences of the reference that the engine lacks are added (`functions`, `source`).

mod code;
mod functions;
mod growth;
mod json;
mod limits;
mod marks;
mod message;
mod operands;
mod operators;
mod prompt;
mod source;
mod spelled;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tool_tests;

use std::error::Error as _;
use std::sync::Arc;

use minijinja::{Environment, Error, ErrorKind, Value, context};

use crate::tokenizer::{TokenId, Tokenizer};
use functions::Refusal;
use limits::Page;
use marks::{Cutter, Marks};
use message::{protect, protect_tools, protect_variables};

pub use message::{ArgumentsError, Conversation, Message, ToolCall};

/// A rendered prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// Token ids of the whole prompt.
    pub tokens: Vec<TokenId>,
    /// Token spans of the messages' contents, in order of the messages. A content that is blank, or that the template
    /// leaves out or takes apart, has none.
    pub sections: Vec<Section>,
}

/// One message's content inside a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Index of the message.
    pub message: usize,
    /// First token that begins in the content; one that begins in the markup before it belongs to that.
    pub start: usize,
    /// One past the last token that begins in the content.
    pub end: usize,
}

/// A template that does not compile, or a conversation that it refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The template itself is broken.
    #[error("chat template, line {line}: {reason}")]
    Syntax {
        /// 1-based line.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// The template refused the conversation (`raise_exception`); the caller's fault.
    #[error("{0}")]
    Refused(String),
    /// Rendering failed or exceeded its limits.
    #[error("chat template, line {line}: {reason}")]
    Render {
        /// 1-based line, 0 where unknown.
        line: usize,
        /// What went wrong.
        reason: String,
    },
}

/// The template of ordinary conversations, and of all where there is no other.
const NAME: &str = "chat";
/// The template of conversations with tools.
const TOOL_USE: &str = "tool_use";

/// A compiled chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    tokenizer: Arc<Tokenizer>,
    env: Environment<'static>,
    cutter: Cutter,
    source: String,
}

impl ChatTemplate {
    /// Compiles `source`, a Jinja template as models publish it, and tries it on a few plain conversations.
    ///
    /// # Errors
    /// [`TemplateError::Syntax`], and [`TemplateError::Render`] for a template that fails on every conversation.
    pub fn new(source: &str, tokenizer: Arc<Tokenizer>) -> Result<Self, TemplateError> {
        let mut template = Self {
            cutter: Cutter::new(&tokenizer),
            tokenizer,
            env: functions::environment(),
            source: String::new(),
        };
        template.add(NAME, source)?;
        template.try_out(&[])?;
        Ok(template)
    }

    /// Compiles another template, for conversations with tools, as some models publish one beside the first.
    ///
    /// # Errors
    /// As [`ChatTemplate::new`].
    pub fn with_tool_use(mut self, source: &str) -> Result<Self, TemplateError> {
        self.add(TOOL_USE, source)?;
        let function = serde_json::json!({"name": "f", "description": "does it", "parameters": {"type": "object", "properties": {}}});
        self.try_out(&[serde_json::json!({"type": "function", "function": function})])?;
        Ok(self)
    }

    fn add(&mut self, name: &'static str, source: &str) -> Result<(), TemplateError> {
        if source.len() > limits::SOURCE {
            return Err(TemplateError::Syntax {
                line: 1,
                reason: format!("{} bytes are more than {}", source.len(), limits::SOURCE),
            });
        }
        self.env
            .add_template_owned(name, source::rewrite(source))
            .map_err(|error| fault(&error, str::to_owned))?;
        self.source.push_str(source);
        // By the longer one, since each step may write a whole source.
        let steps = limits::steps(source);
        let steps = self.env.fuel().map_or(steps, |others| others.min(steps));
        self.env.set_fuel(Some(steps));
        Ok(())
    }

    /// Fails if every plain conversation fails; one that is refused shows that the template works.
    fn try_out(&self, tools: &[serde_json::Value]) -> Result<(), TemplateError> {
        let mut first = None;
        for roles in [
            &["user"][..],
            &["system", "user"],
            &["user", "assistant", "user"],
        ] {
            let messages: Vec<_> = roles
                .iter()
                .map(|role| Message::new(*role, "hello"))
                .collect();
            let conversation = Conversation {
                messages: &messages,
                tools,
                variables: None,
            };
            match self.render_conversation(&conversation) {
                Ok(_) | Err(TemplateError::Refused(_)) => return Ok(()),
                Err(error) => first = first.or(Some(error)),
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Renders messages and the start of the assistant's answer.
    ///
    /// # Errors
    /// [`TemplateError::Refused`] when the template rejects the messages, [`TemplateError::Render`] otherwise.
    pub fn render(&self, messages: &[Message]) -> Result<Prompt, TemplateError> {
        self.render_conversation(&Conversation {
            messages,
            ..Conversation::default()
        })
    }

    /// Renders a conversation, with tools where there are some, and the start of the assistant's answer.
    ///
    /// # Errors
    /// As [`ChatTemplate::render`].
    pub fn render_conversation(
        &self,
        conversation: &Conversation<'_>,
    ) -> Result<Prompt, TemplateError> {
        let texts = conversation.texts();
        let texts = texts.iter().map(String::as_str);
        let marks = Marks::new(&self.cutter, texts.chain([self.source.as_str()]));
        let tools = protect_tools(&marks, conversation.tools);
        let variables = conversation
            .variables
            .map(|more| protect_variables(&marks, more));
        let cut: Vec<Message> = conversation
            .messages
            .iter()
            .map(|message| protect(&marks, message))
            .collect();
        let edged = cut.iter().enumerate().map(|(index, message)| Message {
            content: marks.edged(index, &message.content),
            ..message.clone()
        });
        let render =
            |messages: &[Message]| self.render_text(&marks, messages, &tools, variables.as_ref());
        let text = render(&cut)?;
        // The edges may mislead a template that looks at the first character of a content. Then they are not used.
        let (same, edges) = render(&edged.collect::<Vec<_>>())
            .map(|rendered| marks.take_edges(&rendered))
            .unwrap_or_default();
        let edges = if same == text { edges } else { Vec::new() };
        Ok(prompt::encode(&self.tokenizer, &marks, &text, &edges))
    }

    fn render_text(
        &self,
        marks: &Marks<'_>,
        messages: &[Message],
        tools: &[serde_json::Value],
        variables: Option<&serde_json::Map<String, serde_json::Value>>,
    ) -> Result<String, TemplateError> {
        let no_tools = Value::from(());
        let context = context! {
            messages => messages,
            tools => if tools.is_empty() { no_tools } else { Value::from_serialize(tools) },
            documents => Value::from(()),
            add_generation_prompt => true,
            bos_token => self.tokenizer.bos_spelling(),
            eos_token => self.tokenizer.eos_spelling(),
            ..variables.map_or_else(|| context! {}, Value::from_serialize)
        };
        let tool_use = (!tools.is_empty()).then(|| self.env.get_template(TOOL_USE).ok());
        let template = match tool_use.flatten() {
            Some(template) => template,
            None => self
                .env
                .get_template(NAME)
                .map_err(|error| fault(&error, str::to_owned))?,
        };
        let mut page = Page::default();
        template
            .render_captured_to(context, &mut page)
            .map_err(|error| fault(&error, |text| marks.clean_all(text)))?;
        String::from_utf8(page.0).map_err(|error| TemplateError::Render {
            line: 0,
            reason: error.to_string(),
        })
    }

    /// Every template's text as it was published.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether the template itself tells the model of tools that a conversation has.
    #[must_use]
    pub fn takes_tools(&self) -> bool {
        const NAME: &str = "a_tool_to_be_found";
        let tool = serde_json::json!({"type": "function", "function": {
            "name": NAME, "description": "d", "parameters": {"type": "object", "properties": {}},
        }});
        let messages = [Message::new("user", "hello")];
        let rendered = self.render_conversation(&Conversation {
            messages: &messages,
            tools: &[tool],
            variables: None,
        });
        rendered.is_ok_and(|prompt| self.tokenizer.decode(&prompt.tokens).contains(NAME))
    }

    /// The tokenizer that prompts are encoded with.
    #[must_use]
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }
}

/// The engine's error as ours; `clean` takes marks out of what it quotes.
fn fault(error: &Error, clean: impl Fn(&str) -> String) -> TemplateError {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(Refusal(message)) = inner.downcast_ref() {
            return TemplateError::Refused(clean(message));
        }
        cause = inner.source();
    }
    let line = error.line().unwrap_or(0);
    let reason = match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => "the number of steps exceeds the limit".to_owned(),
        (ErrorKind::WriteFailure, _) => {
            error.source().map_or_else(String::new, ToString::to_string)
        }
        (kind, None) => kind.to_string(),
        (_, Some(detail)) => clean(detail),
    };
    match error.kind() {
        ErrorKind::SyntaxError => TemplateError::Syntax { line, reason },
        _ => TemplateError::Render { line, reason },
    }
}
