//! One state of a harness, whole and immutable: turns hold it from their start to their end.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::hook::Hook;
use super::lists::Lists;
use super::prompt::{Prompts, Section, SectionKind, ToolCard};
use super::skill::Skill;
use super::tools::Tools;
use super::{Catalog, Settings, Source, Version, tool};

/// The tool that the model activates a skill with.
pub const ACTIVATE_SKILL: &str = "activate_skill";
/// The tool that the model reads a skill's files with.
pub const READ_SKILL_FILE: &str = "read_skill_file";

/// Everything that one version of a harness says.
#[derive(Clone, Debug)]
pub struct Harness {
    /// Its name: that of its folder.
    pub name: String,
    /// Of its files.
    pub version: Version,
    /// What harness.toml sets.
    pub settings: Settings,
    /// Who speaks, as written.
    pub persona: String,
    /// Skills by name.
    pub skills: BTreeMap<String, Skill>,
    /// Hooks, in the order that they are asked in: by point, order, name.
    pub hooks: Vec<Hook>,
    /// Tools by name, whoever may call them.
    pub tools: Tools,
    /// Compiled templates.
    pub prompts: Prompts,
    /// Product facts.
    pub catalog: Catalog,
    /// The same products, as the catalog tool finds them.
    pub lookup: Arc<tool::Catalog>,
    /// Word lists.
    pub lists: Lists,
    /// The system prompt, rendered; from stable to volatile.
    pub system: Vec<Section>,
    /// Tools that every turn may call, in the order of the prompt.
    pub offered: Vec<ToolCard>,
    /// The files that all of this was read from: change them and load again to get another harness.
    pub source: Arc<Source>,
}

/// How a model is told of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// It can call none.
    None,
    /// In the system prompt, as text.
    Taught,
    /// By its own chat template.
    Native,
}

/// What every turn's prompt of a harness begins with.
#[derive(Clone, Debug, PartialEq)]
pub struct Opening {
    /// The system message so far; a turn may add to its end.
    pub system: String,
    /// What the chat template is given as `tools`.
    pub tools: Vec<serde_json::Value>,
}

impl Harness {
    /// What every turn's prompt begins with, for a model that is told of tools so. One that can call none is told of
    /// neither tools nor skills to activate.
    #[must_use]
    pub fn opening(&self, calls: Calls) -> Opening {
        let sections = self.told(calls);
        let texts: Vec<_> = sections.map(|section| section.text.as_str()).collect();
        let tools = match calls {
            Calls::Native => self.offered.iter().map(ToolCard::function).collect(),
            Calls::None | Calls::Taught => Vec::new(),
        };
        Opening {
            system: texts.join("\n\n"),
            tools,
        }
    }

    /// The sections of the system prompt that such a model is told.
    pub fn told(&self, calls: Calls) -> impl Iterator<Item = &Section> {
        self.system
            .iter()
            .filter(move |section| match section.kind {
                SectionKind::Tools => calls == Calls::Taught,
                SectionKind::Skills => calls != Calls::None,
                _ => true,
            })
    }

    /// The sections' texts as one, a blank line between them.
    #[must_use]
    pub fn system_text(&self) -> String {
        let texts: Vec<_> = self
            .system
            .iter()
            .map(|section| section.text.as_str())
            .collect();
        texts.join("\n\n")
    }

    /// Skills that a comment activates before the model is asked, in order of priority.
    #[must_use]
    pub fn triggered(&self, comment: &str) -> Vec<&Skill> {
        let mut skills = ranked(&self.skills);
        skills.retain(|skill| skill.triggers.matches(comment));
        skills
    }
}

/// Skills in order of priority; equal ones by name.
pub(super) fn ranked(skills: &BTreeMap<String, Skill>) -> Vec<&Skill> {
    let mut ranked: Vec<_> = skills.values().collect();
    // Stable, so that names stay in order.
    ranked.sort_by_key(|skill| std::cmp::Reverse(skill.priority));
    ranked
}

/// The tools that come with skills: activating one, and reading the files that one refers to.
pub(super) fn skill_tools(skills: &BTreeMap<String, Skill>) -> Vec<ToolCard> {
    let named = |wanted: &dyn Fn(&Skill) -> bool| -> Vec<&str> {
        skills
            .values()
            .filter(|skill| wanted(skill))
            .map(|skill| skill.name.as_str())
            .collect()
    };
    let mut tools = Vec::new();
    let closed = named(&|skill| !skill.inline);
    if !closed.is_empty() {
        tools.push(ToolCard {
            name: ACTIVATE_SKILL.to_owned(),
            description: "Read a skill's instructions before answering about what it covers."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"name": {"type": "string", "enum": closed}},
                "required": ["name"],
                "additionalProperties": false,
            }),
        });
    }
    let filed = named(&|skill| skill.files().any(|path| path.starts_with("references/")));
    if !filed.is_empty() {
        tools.push(ToolCard {
            name: READ_SKILL_FILE.to_owned(),
            description: "Read a file that a skill's instructions refer to.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"name": {"type": "string", "enum": filed}, "path": {"type": "string"}},
                "required": ["name", "path"],
                "additionalProperties": false,
            }),
        });
    }
    tools
}
