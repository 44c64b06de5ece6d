//! From a turn to messages, stable parts first, so that a harness's tokens are shared by every turn and a product's by
//! the turns about it: harness | active skills, language | history | product, facts, promotions | comments. One line is
//! one field: whatever a field contains, it cannot leave its line, so no text can close its own place or open another.
//! Nothing is escaped. The wording is what the default model follows best of those tried: small models copy facts that
//! stand in the same message as the question. A harness may have its own: `prompts/room.jinja` for the facts,
//! `comments.jinja` and one for each other trigger for what is asked.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::facts::Facts;
use super::request::{Comment, Trigger, TriggerKind};
use crate::harness::prompt::{PromptError, to_json};
use crate::harness::{Calls, Harness, Opening, Skill, ToolCard};
use crate::template::Message;

/// The line above the product's lines.
const FACTS: &str = "Product facts:";
/// Before a single comment, on its line.
const COMMENT: &str = "answer this question from a viewer: ";
/// The line above several comments.
const COMMENTS: &str = "answer these questions from viewers:";
/// The template of what is known.
const ROOM: &str = "room";

/// What a prompt is made of.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) harness: &'a Harness,
    pub(super) calls: Calls,
    /// Active skills whose instructions are not part of the opening, in order.
    pub(super) skills: &'a [&'a Skill],
    /// Of the request.
    pub(super) language: Option<&'a str>,
    /// Emotions that the front end knows and the harness does not teach.
    pub(super) more_emotions: &'a [String],
    pub(super) facts: &'a Facts,
    pub(super) trigger: &'a Trigger,
    pub(super) comments: &'a [Comment],
    pub(super) history: &'a [Message],
    pub(super) max_chars: usize,
    pub(super) fallback: &'a str,
}

impl Ask<'_> {
    /// The system message, where there is anything to say, and the tools that the chat template is given.
    pub(super) fn opening(&self) -> Opening {
        let Opening { system, tools } = self.harness.opening(self.calls);
        let mut parts = vec![system];
        parts.extend(self.skills.iter().map(|skill| self.instructions(skill)));
        parts.extend(self.emotions());
        parts.extend(self.spoken_language());
        let parts: Vec<&str> = parts.iter().map(|part| part.trim()).collect();
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Opening {
            system: parts.join("\n\n"),
            tools,
        }
    }

    /// A skill's body, and the tools that it brings where the model can call them.
    fn instructions(&self, skill: &Skill) -> String {
        if self.calls == Calls::None {
            return skill.body.clone();
        }
        instructions(self.harness, skill)
    }

    fn emotions(&self) -> Option<String> {
        let tags = self.more_emotions.iter().map(|name| format!("[{name}]"));
        let tags: Vec<_> = tags.collect();
        (!tags.is_empty()).then(|| {
            format!(
                "To show the emotion of a sentence, begin it with one of {}.",
                tags.join(" ")
            )
        })
    }

    /// Said only where it is not the harness's own language, which its persona is written in.
    fn spoken_language(&self) -> Option<String> {
        let asked = self.language?;
        let own = self.harness.settings.language.as_deref();
        let same = own.is_some_and(|own| primary(own) == primary(asked));
        (!same).then(|| format!("Answer in {}.", language_name(&one_line(asked))))
    }

    /// The last message: what is known, and what is asked.
    ///
    /// # Errors
    /// A template of the harness that fails.
    pub(super) fn question(&self) -> Result<String, PromptError> {
        let known = match self.own(ROOM)? {
            Some(text) => text,
            None => lines(self.facts),
        };
        let asked = match self.own(self.trigger.kind.word())? {
            Some(text) => text,
            None => self.asked(!known.is_empty()),
        };
        let parts = [known, asked];
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Ok(parts.join("\n\n"))
    }

    fn asked(&self, with_facts: bool) -> String {
        let mut text = String::from(if with_facts {
            "Using the facts, "
        } else {
            "Please "
        });
        let reason = one_line(&self.trigger.reason);
        let about = if reason.is_empty() {
            String::new()
        } else {
            format!(" ({reason})")
        };
        match self.trigger.kind {
            TriggerKind::Comments => return text + questions(self.comments).as_str(),
            TriggerKind::Idle => {
                let _ = write!(text, "say one sentence to viewers who are quiet{about}.");
            }
            TriggerKind::ProductSwitch => {
                let _ = write!(text, "present this product to the viewers{about}.");
            }
            TriggerKind::Gift => {
                let _ = write!(text, "thank a viewer for a gift{about}.");
            }
            TriggerKind::Operator if reason.is_empty() => {
                text.push_str("say one sentence to the viewers.");
            }
            TriggerKind::Operator => {
                let _ = write!(text, "tell the viewers: {reason}");
            }
        }
        if !self.comments.is_empty() {
            let _ = write!(text, "\n\nThen {}", questions(self.comments));
        }
        text
    }

    /// What the harness's own template of this name says.
    fn own(&self, name: &str) -> Result<Option<String>, PromptError> {
        if !self.harness.prompts.names().any(|own| own == name) {
            return Ok(None);
        }
        self.harness.prompts.render(name, self.variables())
    }

    /// What templates may place. Texts from outside are one line each, whatever they contain.
    fn variables(&self) -> Value {
        let settings = &self.harness.settings;
        let product = self.facts.products().first().cloned().unwrap_or_default();
        let comments: Vec<_> = self
            .comments
            .iter()
            .map(|comment| {
                json!({"nickname": one_line(&comment.nickname), "text": one_line(&comment.text)})
            })
            .collect();
        let history: Vec<_> = self
            .history
            .iter()
            .map(|message| json!({"role": message.role, "text": one_line(&message.content)}))
            .collect();
        let skills: Vec<_> = self
            .harness
            .skills
            .values()
            .filter(|skill| !skill.inline)
            .map(|skill| json!({"name": skill.name, "description": skill.description}))
            .collect();
        let mut facts = serde_json::Map::new();
        for about in self.facts.products().iter().rev() {
            for (name, fact) in &about.facts {
                facts.insert(one_line(name), flat(fact));
            }
        }
        let promotions: Vec<Value> = self
            .facts
            .products()
            .iter()
            .flat_map(|about| about.promotions.iter().map(flat))
            .collect();
        json!({
            "language": self.language.or(settings.language.as_deref()).unwrap_or_default(),
            "emotions": settings.emotions, "gestures": settings.gestures,
            "max_rounds": settings.budgets.max_rounds, "skills": skills, "tools": self.harness.offered,
            "product": {"id": one_line(&product.id), "name": one_line(&product.name), "aliases": product.aliases},
            "facts": facts, "promotions": promotions, "comments": comments, "history": history,
            "reason": one_line(&self.trigger.reason), "max_chars": self.max_chars,
            "fallback": self.fallback, "spoken": "",
        })
    }
}

/// What a model reads of a skill once it is active: its body, and the tools that it brings.
pub(super) fn instructions(harness: &Harness, skill: &Skill) -> String {
    let mut text = skill.body.clone();
    let brought = skill
        .tools
        .iter()
        .filter(|name| harness.offered.iter().all(|card| card.name != **name));
    let cards: Vec<ToolCard> = brought
        .filter_map(|name| harness.tools.get(name))
        .map(ToolCard::of)
        .collect();
    if !cards.is_empty() {
        text.push_str("\n\nYou may now also call these tools:");
    }
    for card in cards {
        let _ = write!(text, "\n{}", to_json(&card.function()));
    }
    text
}

/// System message, where there is one, history, and the question.
pub(super) fn messages(system: String, history: &[Message], question: String) -> Vec<Message> {
    let mut messages = Vec::with_capacity(history.len() + 2);
    if !system.is_empty() {
        messages.push(Message::new("system", system));
    }
    messages.extend(history.iter().cloned());
    messages.push(Message::new("user", question));
    messages
}

fn questions(comments: &[Comment]) -> String {
    if let [comment] = comments {
        return format!("{COMMENT}{}", one_line(&comment.text));
    }
    let mut text = COMMENTS.to_owned();
    for comment in comments {
        let nickname = one_line(&comment.nickname);
        let who = if nickname.is_empty() {
            "viewer"
        } else {
            &nickname
        };
        let _ = write!(text, "\n- {who}: {}", one_line(&comment.text));
    }
    text
}

/// What may be said of the products, a line each; empty where nothing is known.
fn lines(facts: &Facts) -> String {
    let mut lines = Vec::new();
    for about in facts.products() {
        let name = one_line(&about.name);
        if !name.is_empty() {
            lines.push(format!("product: {name}"));
        }
        lines.extend(
            about
                .facts
                .iter()
                .map(|(name, fact)| format!("{}: {}", one_line(name), value(fact))),
        );
        lines.extend(
            about
                .promotions
                .iter()
                .map(|promotion| format!("promotion: {}", value(promotion))),
        );
    }
    if lines.is_empty() {
        return String::new();
    }
    format!("{FACTS}\n{}", lines.join("\n"))
}

/// A fact for templates: numbers, truth values and lists of plain values as they are, all else as a line.
fn flat(fact: &Value) -> Value {
    match fact {
        Value::Number(_) | Value::Bool(_) => fact.clone(),
        Value::Array(items)
            if items
                .iter()
                .all(|item| !item.is_array() && !item.is_object()) =>
        {
            items.iter().map(flat).collect()
        }
        Value::Object(fields)
            if fields
                .values()
                .all(|field| !field.is_array() && !field.is_object()) =>
        {
            let fields = fields
                .iter()
                .map(|(name, field)| (one_line(name), flat(field)));
            Value::Object(fields.collect())
        }
        other => Value::String(value(other)),
    }
}

/// A fact as a person would write it: texts bare, lists with commas, objects as JSON.
fn value(value: &Value) -> String {
    match value {
        Value::String(text) => one_line(text),
        Value::Array(items)
            if items
                .iter()
                .all(|item| !item.is_array() && !item.is_object()) =>
        {
            let items: Vec<_> = items.iter().map(self::value).collect();
            items.join(", ")
        }
        Value::Object(fields)
            if fields
                .values()
                .all(|field| !field.is_array() && !field.is_object()) =>
        {
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, field)| format!("{}: {}", one_line(name), self::value(field)))
                .collect();
            fields.join("; ")
        }
        other => one_line(&other.to_string()),
    }
}

/// The text without anything that ends a line, in any script's sense; ends trimmed.
pub(super) fn one_line(text: &str) -> String {
    let ends_line = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let line: String = text
        .chars()
        .map(|c| if ends_line(c) { ' ' } else { c })
        .collect();
    line.trim().to_owned()
}

/// The language of a tag, without region and script.
fn primary(tag: &str) -> String {
    let primary = tag.split(['-', '_']).next();
    primary.unwrap_or_default().to_ascii_lowercase()
}

/// A name that small models know; other tags are given as they are.
fn language_name(tag: &str) -> String {
    let name = match primary(tag).as_str() {
        "ar" => "Arabic",
        "de" => "German",
        "en" => "English",
        "es" => "Spanish",
        "fr" => "French",
        "id" => "Indonesian",
        "it" => "Italian",
        "ja" => "Japanese",
        "ko" => "Korean",
        "ms" => "Malay",
        "pt" => "Portuguese",
        "ru" => "Russian",
        "th" => "Thai",
        "vi" => "Vietnamese",
        "zh" => "Chinese",
        _ => return format!("the language {tag}"),
    };
    name.to_owned()
}

#[cfg(test)]
#[path = "prompt_tests.rs"]
mod tests;
