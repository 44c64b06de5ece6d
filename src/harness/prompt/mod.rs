//! Prompts: the operators' templates, compiled once, and the sections of the system prompt that they render to.

mod budget;
mod filters;
mod json;
mod subset;
mod system;
#[cfg(test)]
mod tests;
mod variables;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str;
use std::sync::Arc;

use minijinja::{Environment, Error};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{Findings, Problem, Source};

pub use json::to_json;
pub use system::ToolCard;
pub(super) use system::{Parts, render as render_system};

/// The folder.
const FOLDER: &str = "prompts";
/// Ends a template's name.
const EXTENSION: &str = ".jinja";
/// Longest template, in bytes.
const LENGTH: usize = 64 << 10;

/// A part of the system prompt, from stable to volatile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SectionKind {
    /// Who speaks.
    Persona,
    /// How: `prompts/system.jinja`.
    Rules,
    /// Names and descriptions of the skills that can be activated.
    Skills,
    /// Bodies of the skills that are always active.
    Inline,
    /// The tools that every turn may call.
    Tools,
}

impl SectionKind {
    /// Every kind, in the order that a harness without an order of its own has.
    pub const ALL: [Self; 5] = [
        Self::Persona,
        Self::Rules,
        Self::Skills,
        Self::Inline,
        Self::Tools,
    ];

    /// As harness.toml, metrics and `show` spell it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Persona => "persona",
            Self::Rules => "rules",
            Self::Skills => "skills",
            Self::Inline => "inline",
            Self::Tools => "tools",
        }
    }
}

/// One part of the system prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Which.
    pub kind: SectionKind,
    /// Never blank, without blank lines around it.
    pub text: String,
    /// Of the text: equal texts have equal ones.
    pub fingerprint: Fingerprint,
}

impl Section {
    /// A section of this text.
    #[must_use]
    pub fn new(kind: SectionKind, text: String) -> Self {
        let fingerprint = Fingerprint::of(&text);
        Self {
            kind,
            text,
            fingerprint,
        }
    }
}

/// Tells two texts apart; written as 16 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 8]);

impl Fingerprint {
    /// Of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let hash = Sha256::digest(text.as_bytes());
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&hash[..8]);
        Self(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// A template that could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PromptError(pub Problem);

/// The compiled templates of one harness. Cheap to clone.
#[derive(Clone)]
pub struct Prompts {
    env: Arc<Environment<'static>>,
    names: BTreeSet<String>,
}

impl fmt::Debug for Prompts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Prompts").field(&self.names).finish()
    }
}

impl Prompts {
    /// Names of the templates (`room`, `idle`), in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Renders a template; `None` where the harness has none of this name.
    ///
    /// # Errors
    /// Names the file and line. Size and steps are limited.
    pub fn render<S: Serialize>(
        &self,
        name: &str,
        context: S,
    ) -> Result<Option<String>, PromptError> {
        if !self.names.contains(name) {
            return Ok(None);
        }
        let file = format!("{name}{EXTENSION}");
        let fail = |error: &Error| PromptError(problem(&path(&file), error));
        let template = self.env.get_template(&file).map_err(|error| fail(&error))?;
        let mut page = budget::Page::default();
        template
            .render_captured_to(context, &mut page)
            .map_err(|error| fail(&error))?;
        Ok(Some(page.text().trim().to_owned()))
    }

    /// Compiles every template of the folder and tries those that turns use.
    pub(super) fn read(source: &Source, found: &mut Findings) -> Self {
        let mut env = filters::environment();
        let texts = texts(source, found);
        let mut scanned = BTreeMap::new();
        for (name, text) in &texts {
            let path = path(name);
            if let Err(error) = env.add_template_owned((*name).to_owned(), (*text).to_owned()) {
                found.problems.push(problem(&path, &error));
                continue;
            }
            match subset::check(text) {
                Ok(tokens) => {
                    scanned.insert(*name, tokens);
                }
                Err(faults) => found.problems.extend(
                    faults
                        .into_iter()
                        .map(|(line, reason)| Problem::at(path.as_str(), line, reason)),
                ),
            }
        }
        let whole = scanned.len() == texts.len();
        for (name, tokens) in &scanned {
            for (line, other) in &tokens.includes {
                if !texts.contains_key(other.as_str()) {
                    found.problems.push(Problem::at(
                        path(name),
                        *line,
                        format!("there is no {}", path(other)),
                    ));
                }
            }
            variables::check(&env, name, tokens, &mut found.problems);
        }
        for name in cycles(&scanned) {
            found.problems.push(Problem::of(
                path(name),
                "includes itself, directly or through others",
            ));
        }
        let names = texts
            .keys()
            .filter_map(|name| name.strip_suffix(EXTENSION))
            .map(str::to_owned)
            .collect();
        let prompts = Self {
            env: Arc::new(env),
            names,
        };
        if whole && found.problems.is_empty() {
            variables::try_out(&prompts, &mut found.problems);
        }
        prompts
    }
}

/// Text of every template, by its file's name.
fn texts<'a>(source: &'a Source, found: &mut Findings) -> BTreeMap<&'a str, &'a str> {
    let mut texts = BTreeMap::new();
    for (path, bytes) in source.under(FOLDER) {
        if !path.ends_with(EXTENSION) {
            continue;
        }
        let Ok(text) = str::from_utf8(bytes) else {
            found.problems.push(Problem::of(path, "is not UTF-8"));
            continue;
        };
        if text.len() > LENGTH {
            let reason = format!("has {} bytes, at most {LENGTH}", text.len());
            found.problems.push(Problem::of(path, reason));
            continue;
        }
        texts.insert(
            &path[FOLDER.len() + 1..],
            text.strip_prefix('\u{feff}').unwrap_or(text),
        );
    }
    texts
}

fn path(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

/// The engine's error as a problem of the file that it names.
fn problem(fallback: &str, error: &Error) -> Problem {
    let reason = match error.detail() {
        Some(detail) => detail.to_owned(),
        None => error.kind().to_string(),
    };
    let path = error
        .name()
        .filter(|name| name.ends_with(EXTENSION))
        .map_or_else(|| fallback.to_owned(), path);
    Problem {
        path,
        line: error.line(),
        reason,
    }
}

/// Templates from which a chain of includes leads back to them.
fn cycles<'a>(scanned: &BTreeMap<&'a str, subset::Tokens>) -> Vec<&'a str> {
    let reaches = |start: &str| {
        let (mut open, mut seen) = (vec![start], BTreeSet::new());
        while let Some(name) = open.pop() {
            let Some((name, tokens)) = scanned.get_key_value(name) else {
                continue;
            };
            for (_, other) in &tokens.includes {
                if other == start {
                    return true;
                }
                if seen.insert((*name, other.as_str())) {
                    open.push(other);
                }
            }
        }
        false
    };
    scanned
        .keys()
        .copied()
        .filter(|name| reaches(name))
        .collect()
}
