//! Skills in the open Agent Skills format: a folder with a SKILL.md, and files that it refers to. Our own settings live
//! in its `metadata`, so that the folder stays valid elsewhere.

mod frontmatter;
mod name;
mod read;
mod scalar;
#[cfg(test)]
mod tests;
mod trigger;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub use trigger::Triggers;

pub(super) use read::read_all;
pub(super) use trigger::{fold, holds};

/// One skill.
#[derive(Clone, Debug)]
pub struct Skill {
    /// Unique; the folder's name, in canonical form.
    pub name: String,
    /// When to use it; shown to the model.
    pub description: String,
    /// As written.
    pub license: Option<String>,
    /// What it needs, as written.
    pub compatibility: Option<String>,
    /// Everything under `metadata`, ours included.
    pub metadata: BTreeMap<String, String>,
    /// Tools of this harness that it adds while it is active.
    pub tools: Vec<String>,
    /// What the model reads once it is active.
    pub body: String,
    /// `avatar/inline`: the body is part of every prompt, so no activation is needed.
    pub inline: bool,
    /// `avatar/triggers`: what activates it before the model is asked.
    pub triggers: Triggers,
    /// `avatar/priority`, -100 to 100: the higher goes first; 0 where not set.
    pub priority: i32,
    /// `avatar/risk`.
    pub risk: Risk,
    /// `avatar/facts`: names of product facts it speaks about.
    pub facts: Vec<String>,
    /// `avatar/fallback`: what is said where it has no answer.
    pub fallback: Option<String>,
    /// `avatar/actions`: what the front end is told whenever it is active.
    pub actions: Vec<FixedAction>,
    /// Files under `references/` and `assets/`, by path inside the folder.
    files: BTreeMap<String, Arc<[u8]>>,
    /// The SKILL.md, relative to the harness.
    pub path: String,
}

/// How much harm a wrong answer does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// Small talk.
    #[default]
    Low,
    /// Product questions.
    Medium,
    /// Prices, health, promises.
    High,
}

/// An action that goes with a skill.
#[derive(Clone, Debug, PartialEq)]
pub struct FixedAction {
    /// A tool of kind `action`.
    pub tool: String,
    /// Its arguments, an object.
    pub args: Value,
}

impl Skill {
    /// A file of the skill by its path (`references/sizes.md`). Only files of this folder exist here.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&[u8]> {
        let path = path.strip_prefix("./").unwrap_or(path);
        self.files.get(path).map(AsRef::as_ref)
    }

    /// Paths of all its files, in order.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }
}

/// A skill that names a tool or action, and the line where it does: checked once all tools are known.
#[derive(Debug)]
pub(super) struct Mention {
    pub(super) path: String,
    pub(super) line: usize,
    /// The field, for people.
    pub(super) field: &'static str,
    pub(super) tool: String,
}

/// What the folder gave.
#[derive(Debug, Default)]
pub(super) struct Skills {
    pub(super) skills: BTreeMap<String, Skill>,
    pub(super) mentions: Vec<Mention>,
}
