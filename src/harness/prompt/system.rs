//! The system prompt as sections, in canonical order: equal content gives equal bytes, whatever the order of files.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};

use super::{PromptError, Prompts, Section, SectionKind, to_json};
use crate::harness::settings::Settings;
use crate::harness::skill::Skill;
use crate::harness::tool::Tool;

/// A tool as the model is told of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolCard {
    /// What it is called.
    pub name: String,
    /// When to call it.
    pub description: String,
    /// Its arguments, a JSON Schema of an object.
    pub input_schema: Value,
}

impl ToolCard {
    /// The card of a tool.
    #[must_use]
    pub fn of(tool: &Tool) -> Self {
        Self {
            name: tool.name.to_string(),
            description: tool.description.to_string(),
            input_schema: tool.input.value().clone(),
        }
    }

    /// The card as the models' own templates expect it in `tools`.
    #[must_use]
    pub fn function(&self) -> Value {
        json!({"type": "function", "function": {
            "name": self.name, "description": self.description, "parameters": self.input_schema,
        }})
    }
}

/// What the system prompt is made of.
pub(in crate::harness) struct Parts<'a> {
    pub(in crate::harness) settings: &'a Settings,
    pub(in crate::harness) persona: &'a str,
    /// In order of priority.
    pub(in crate::harness) skills: Vec<&'a Skill>,
    /// In canonical order.
    pub(in crate::harness) tools: &'a [ToolCard],
    pub(in crate::harness) prompts: &'a Prompts,
}

/// Renders the sections that the settings name; those that come out blank are left out.
///
/// # Errors
/// A template that fails, with file and line.
pub(in crate::harness) fn render(parts: &Parts<'_>) -> Result<Vec<Section>, PromptError> {
    let mut sections = Vec::new();
    for kind in &parts.settings.sections {
        let text = match kind {
            SectionKind::Persona => parts.persona.trim().to_owned(),
            SectionKind::Rules => parts.own("system")?.unwrap_or_else(|| parts.rules()),
            SectionKind::Skills => match parts.listed().next() {
                Some(_) => parts.own("skills")?.unwrap_or_else(|| parts.listing()),
                None => String::new(),
            },
            SectionKind::Inline => parts.bodies(),
            SectionKind::Tools if parts.tools.is_empty() => String::new(),
            SectionKind::Tools => parts.own("tools")?.unwrap_or_else(|| parts.cards()),
        };
        if !text.trim().is_empty() {
            sections.push(Section::new(*kind, text));
        }
    }
    Ok(sections)
}

impl Parts<'_> {
    /// Skills that have to be activated.
    fn listed(&self) -> impl Iterator<Item = &Skill> {
        self.skills.iter().copied().filter(|skill| !skill.inline)
    }

    /// What the harness's own template of this name says.
    fn own(&self, name: &str) -> Result<Option<String>, PromptError> {
        let skills: Vec<_> = self
            .listed()
            .map(|skill| json!({"name": skill.name, "description": skill.description}))
            .collect();
        let context = json!({
            "language": self.settings.language.as_deref().unwrap_or_default(),
            "emotions": self.settings.emotions,
            "gestures": self.settings.gestures,
            "max_rounds": self.settings.budgets.max_rounds,
            "skills": skills,
            "tools": self.tools,
        });
        self.prompts.render(name, context)
    }

    fn rules(&self) -> String {
        let mut text = String::new();
        for (what, tags) in [
            ("emotion", &self.settings.emotions),
            ("gesture", &self.settings.gestures),
        ] {
            if tags.is_empty() {
                continue;
            }
            let tags: Vec<_> = tags.iter().map(|tag| format!("[{tag}]")).collect();
            let _ = writeln!(
                text,
                "To show the {what} of a sentence, begin it with one of {}.",
                tags.join(" ")
            );
        }
        text.trim_end().to_owned()
    }

    fn listing(&self) -> String {
        let mut text = String::from(
            "Skills. Before you answer about one of these, call activate_skill with its name:",
        );
        for skill in self.listed() {
            // One line a skill, whatever the description holds.
            let description: Vec<_> = skill.description.split_whitespace().collect();
            let _ = write!(text, "\n- {}: {}", skill.name, description.join(" "));
        }
        text
    }

    fn bodies(&self) -> String {
        let inline = self
            .skills
            .iter()
            .filter(|skill| skill.inline && !skill.body.is_empty());
        inline
            .map(|skill| skill.body.as_str())
            .collect::<Vec<_>>()
            .join("\n\n")
    }

    fn cards(&self) -> String {
        let mut text = String::from(
            "Tools. To call one, answer only with a line such as\n\
             <tool_call>{\"name\": \"...\", \"arguments\": {...}}</tool_call>\n\
             These are the tools:",
        );
        for card in self.tools {
            let _ = write!(text, "\n{}", to_json(&card.function()));
        }
        text
    }
}
