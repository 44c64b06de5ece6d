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
mod operands;
mod operators;
mod prompt;
mod source;
mod spelled;
#[cfg(test)]
mod tests;

use std::error::Error as _;
use std::sync::Arc;

use minijinja::{Environment, Error, ErrorKind, Value, context};

use crate::tokenizer::{TokenId, Tokenizer};
use functions::Refusal;
use limits::Page;
use marks::{Cutter, Marks};

/// One message of a conversation.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// What was said.
    pub content: String,
}

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

/// The only template of an environment.
const NAME: &str = "chat";

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
        if source.len() > limits::SOURCE {
            return Err(TemplateError::Syntax {
                line: 1,
                reason: format!("{} bytes are more than {}", source.len(), limits::SOURCE),
            });
        }
        let mut env = functions::environment();
        env.set_fuel(Some(limits::steps(source)));
        env.add_template_owned(NAME, source::rewrite(source))
            .map_err(|error| fault(&error, str::to_owned))?;
        let template = Self {
            cutter: Cutter::new(&tokenizer),
            tokenizer,
            env,
            source: source.to_owned(),
        };
        template.try_out()?;
        Ok(template)
    }

    /// Fails if every plain conversation fails; one that is refused shows that the template works.
    fn try_out(&self) -> Result<(), TemplateError> {
        let mut first = None;
        for roles in [
            &["user"][..],
            &["system", "user"],
            &["user", "assistant", "user"],
        ] {
            let message = |role: &&str| Message {
                role: (*role).to_owned(),
                content: "hello".to_owned(),
            };
            match self.render(&roles.iter().map(message).collect::<Vec<_>>()) {
                Ok(_) | Err(TemplateError::Refused(_)) => return Ok(()),
                Err(error) => first = first.or(Some(error)),
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Renders a conversation and the start of the assistant's answer.
    ///
    /// # Errors
    /// [`TemplateError::Refused`] when the template rejects the messages, [`TemplateError::Render`] otherwise.
    pub fn render(&self, messages: &[Message]) -> Result<Prompt, TemplateError> {
        let texts = messages
            .iter()
            .flat_map(|message| [message.role.as_str(), &message.content]);
        let marks = Marks::new(&self.cutter, texts.chain([self.source.as_str()]));
        let cut: Vec<Message> = messages
            .iter()
            .map(|message| protect(&marks, message))
            .collect();
        let edged = cut.iter().enumerate().map(|(index, message)| Message {
            role: message.role.clone(),
            content: marks.edged(index, &message.content),
        });
        let text = self.render_text(&marks, &cut)?;
        // The edges may mislead a template that looks at the first character of a content. Then they are not used.
        let (same, edges) = self
            .render_text(&marks, &edged.collect::<Vec<_>>())
            .map(|rendered| marks.take_edges(&rendered))
            .unwrap_or_default();
        let edges = if same == text { edges } else { Vec::new() };
        Ok(prompt::encode(&self.tokenizer, &marks, &text, &edges))
    }

    fn render_text(
        &self,
        marks: &Marks<'_>,
        messages: &[Message],
    ) -> Result<String, TemplateError> {
        let context = context! {
            messages => messages,
            tools => Value::from(()),
            documents => Value::from(()),
            add_generation_prompt => true,
            bos_token => self.tokenizer.bos_spelling(),
            eos_token => self.tokenizer.eos_spelling(),
        };
        let mut page = Page::default();
        let template = self
            .env
            .get_template(NAME)
            .map_err(|error| fault(&error, str::to_owned))?;
        template
            .render_captured_to(context, &mut page)
            .map_err(|error| fault(&error, |text| marks.clean_all(text)))?;
        String::from_utf8(page.0).map_err(|error| TemplateError::Render {
            line: 0,
            reason: error.to_string(),
        })
    }

    /// The tokenizer that prompts are encoded with.
    #[must_use]
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }
}

/// A message that can spell no added token.
fn protect(marks: &Marks<'_>, message: &Message) -> Message {
    let role = if ROLES.contains(&message.role.as_str()) {
        message.role.clone()
    } else {
        marks.cut(&message.role)
    };
    Message {
        role,
        content: marks.cut(&message.content),
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
