//! From files to skills. What would widen what a skill may do, or hide it, is an error; what only departs from the
//! standard is a warning, which lint counts as an error.

use std::collections::{BTreeMap, BTreeSet};
use std::str;
use std::sync::Arc;

use serde_json::Value as Json;

use super::frontmatter::{self, Entry, Value};
use super::{FixedAction, Mention, Risk, Skill, Skills, Triggers, name, topic};
use crate::harness::tools::ACTIONS;
use crate::harness::{Findings, Problem, Source};

/// The folder of skills.
const FOLDER: &str = "skills";
/// Most code points of a description.
const DESCRIPTION: usize = 1024;
/// Most code points of `compatibility`.
const COMPATIBILITY: usize = 500;
/// Code points of a body from which on a note says that it is long.
const LONG_BODY: usize = 20_000;
/// How far priorities go from 0.
const PRIORITY: i32 = 100;

/// Reads every folder of `skills/`.
pub(in crate::harness) fn read_all(source: &Source, found: &mut Findings) -> Skills {
    let mut all = Skills::default();
    for folder in folders(source, found) {
        let root = format!("{FOLDER}/{folder}");
        let path = format!("{root}/SKILL.md");
        let Some(bytes) = source.get(&path) else {
            found.problems.push(Problem::of(root, "has no SKILL.md"));
            continue;
        };
        let mut reader = Reader {
            source,
            folder,
            root: &root,
            path: &path,
            found,
            mentions: Vec::new(),
        };
        let Some(skill) = reader.skill(bytes) else {
            continue;
        };
        all.mentions.append(&mut reader.mentions);
        if let Some(other) = all.skills.get(&skill.name) {
            found.problems.push(Problem::of(
                path,
                format!("name: {:?} is already {}", skill.name, other.path),
            ));
            continue;
        }
        all.skills.insert(skill.name.clone(), skill);
    }
    all
}

/// Names of the folders, in order. Files that lie beside them are no skills.
fn folders<'a>(source: &'a Source, found: &mut Findings) -> BTreeSet<&'a str> {
    let mut folders = BTreeSet::new();
    for (path, _) in source.under(FOLDER) {
        match path[FOLDER.len() + 1..].split_once('/') {
            Some((folder, _)) => {
                folders.insert(folder);
            }
            None => found.warnings.push(Problem::of(
                path,
                "is no skill: a skill is a folder with a SKILL.md",
            )),
        }
    }
    folders
}

struct Reader<'a> {
    source: &'a Source,
    folder: &'a str,
    root: &'a str,
    path: &'a str,
    found: &'a mut Findings,
    mentions: Vec<Mention>,
}

impl Reader<'_> {
    fn problem(&mut self, line: usize, reason: impl Into<String>) {
        self.found
            .problems
            .push(Problem::at(self.path, line, reason));
    }

    fn warn(&mut self, line: usize, reason: impl Into<String>) {
        self.found
            .warnings
            .push(Problem::at(self.path, line, reason));
    }

    /// `None` when anything of it is wrong, which has then been said.
    fn skill(&mut self, bytes: &[u8]) -> Option<Skill> {
        let before = self.found.problems.len();
        let text = match str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let line = 1 + bytes[..error.valid_up_to()]
                    .iter()
                    .filter(|byte| **byte == b'\n')
                    .count();
                self.problem(line, "is not UTF-8");
                return None;
            }
        };
        let parts = frontmatter::split(text);
        let broken = !parts.faults.is_empty();
        for (line, reason) in parts.faults {
            self.problem(line, reason);
        }
        let mut skill = Skill {
            name: String::new(),
            description: String::new(),
            license: None,
            compatibility: None,
            metadata: BTreeMap::new(),
            tools: Vec::new(),
            body: parts.body,
            inline: false,
            triggers: Triggers::default(),
            priority: 0,
            risk: Risk::default(),
            facts: Vec::new(),
            topics: Vec::new(),
            fallback: None,
            say: Vec::new(),
            actions: Vec::new(),
            files: BTreeMap::new(),
            path: self.path.to_owned(),
        };
        for entry in &parts.entries {
            self.field(entry, &mut skill);
        }
        join_topics(&mut skill);
        let has = |key: &str| parts.entries.iter().any(|entry| entry.key == key);
        for key in ["name", "description"] {
            // A line that cannot be read may have been this field.
            if !has(key) && !broken {
                self.problem(1, format!("{key}: is missing"));
            }
        }
        self.files(&mut skill);
        self.body(&skill);
        (self.found.problems.len() == before).then_some(skill)
    }

    fn field(&mut self, entry: &Entry, skill: &mut Skill) {
        let line = entry.line;
        match entry.key.as_str() {
            "name" => skill.name = self.name(entry),
            "description" => {
                if let Some(text) = self.text(entry, DESCRIPTION) {
                    skill.description = text;
                }
            }
            "license" => skill.license = self.text(entry, usize::MAX),
            "compatibility" => skill.compatibility = self.text(entry, COMPATIBILITY),
            "allowed-tools" => skill.tools = self.tools(entry),
            "metadata" => match &entry.value {
                Value::Empty => {}
                Value::Map(pairs) => {
                    for (line, key, value) in pairs {
                        self.metadata(*line, key, value, skill);
                        skill.metadata.insert(key.clone(), value.clone());
                    }
                }
                _ => self.problem(line, "metadata: must be a map of texts to texts"),
            },
            key => self.warn(
                line,
                format!("{key}: is no field of the format; put it under metadata"),
            ),
        }
    }

    /// A text that is not blank, of at most `most` code points.
    fn text(&mut self, entry: &Entry, most: usize) -> Option<String> {
        let key = &entry.key;
        let text = match &entry.value {
            Value::Text(text) => text.trim(),
            Value::Empty => "",
            _ => {
                self.problem(entry.line, format!("{key}: must be a text"));
                return None;
            }
        };
        let length = text.chars().count();
        if text.is_empty() {
            self.problem(entry.line, format!("{key}: is blank"));
        } else if length > most {
            self.problem(
                entry.line,
                format!("{key}: has {length} characters, at most {most}"),
            );
        } else {
            return Some(text.to_owned());
        }
        None
    }

    /// The folder is what a skill is called by: two files cannot claim one name, whatever the order they are read in.
    fn name(&mut self, entry: &Entry) -> String {
        let folder = name::canonical(self.folder);
        let Some(text) = self.text(entry, usize::MAX) else {
            return folder;
        };
        let name = name::canonical(&text);
        if let Err(reason) = name::check(&name) {
            self.problem(entry.line, format!("name: {reason}"));
        } else if name != folder {
            match name::check(&folder) {
                Ok(()) => self.warn(
                    entry.line,
                    format!("name: {name:?} differs from its folder; it is {folder:?} here"),
                ),
                Err(reason) => self.problem(entry.line, format!("name: the folder {reason}")),
            }
        }
        folder
    }

    /// A text with spaces or a list. What cannot be read is refused: a guess might permit more than was meant.
    fn tools(&mut self, entry: &Entry) -> Vec<String> {
        let words: Vec<&str> = match &entry.value {
            Value::Text(text) => text.split_whitespace().collect(),
            Value::List(items) => items.iter().map(String::as_str).collect(),
            Value::Empty | Value::Map(_) => {
                self.problem(
                    entry.line,
                    "allowed-tools: must be names of tools; leave the field out to add none",
                );
                return Vec::new();
            }
        };
        let mut tools = Vec::new();
        for word in words {
            let bare = word.split_once('(').map_or(word, |(bare, _)| bare);
            let limited = bare.len() < word.len();
            if !is_tool_name(bare) || (limited && !word.ends_with(')')) {
                self.problem(
                    entry.line,
                    format!("allowed-tools: {word:?} is no name of a tool"),
                );
                continue;
            }
            // A limit that cannot be kept must not become a permission without it.
            let tool = if limited { word } else { bare };
            self.mention(entry.line, "allowed-tools", tool);
            if !limited && !tools.iter().any(|known| known == bare) {
                tools.push(bare.to_owned());
            }
        }
        tools
    }

    fn mention(&mut self, line: usize, field: &'static str, tool: &str) {
        self.mentions.push(Mention {
            path: self.path.to_owned(),
            line,
            field,
            tool: tool.to_owned(),
        });
    }

    fn metadata(&mut self, line: usize, key: &str, value: &str, skill: &mut Skill) {
        let value = value.trim();
        let Some(ours) = key.strip_prefix("avatar/") else {
            return;
        };
        let wrong = match ours {
            "inline" => match value {
                "true" => {
                    skill.inline = true;
                    None
                }
                "false" => None,
                _ => Some("must be true or false".to_owned()),
            },
            "triggers" => match Triggers::parse(value) {
                Ok(triggers) => {
                    skill.triggers = triggers;
                    None
                }
                Err(faults) => Some(faults.join("; ")),
            },
            "priority" => match value.parse::<i32>() {
                Ok(priority) if (-PRIORITY..=PRIORITY).contains(&priority) => {
                    skill.priority = priority;
                    None
                }
                _ => Some(format!(
                    "must be a whole number from -{PRIORITY} to {PRIORITY}"
                )),
            },
            "risk" => match value {
                "low" | "medium" | "high" => {
                    skill.risk = match value {
                        "low" => Risk::Low,
                        "medium" => Risk::Medium,
                        _ => Risk::High,
                    };
                    None
                }
                _ => Some("must be low, medium or high".to_owned()),
            },
            "facts" => {
                let names = value
                    .split([',', '，', '\n'])
                    .map(str::trim)
                    .filter(|name| !name.is_empty());
                skill.facts = names.map(str::to_owned).collect();
                skill.facts.is_empty().then(|| "names no fact".to_owned())
            }
            "topics" => match topic::parse(value) {
                Ok(topics) => {
                    skill.topics = topics;
                    None
                }
                Err(faults) => Some(faults.join("; ")),
            },
            "fallback" => {
                skill.fallback = Some(value.to_owned());
                (!speaks(value)).then(|| "must be a line with words".to_owned())
            }
            "say" => {
                let lines = value.lines().map(str::trim).filter(|line| !line.is_empty());
                skill.say = lines.map(str::to_owned).collect();
                let fits = !skill.say.is_empty() && skill.say.iter().all(|line| speaks(line));
                (!fits).then(|| "must be lines with words".to_owned())
            }
            "actions" => self.actions(line, value, skill),
            _ => {
                self.warn(
                    line,
                    format!("metadata.{key}: is no setting of this program"),
                );
                None
            }
        };
        if let Some(reason) = wrong {
            self.problem(line, format!("metadata.{key}: {reason}"));
        }
    }

    /// `[{"type": "show_product", "args": {}}]`; what is wrong with it.
    fn actions(&mut self, line: usize, value: &str, skill: &mut Skill) -> Option<String> {
        const SHAPE: &str = r#"must be a JSON list such as [{"type": "show_product", "args": {}}]"#;
        let Ok(Json::Array(items)) = serde_json::from_str(value) else {
            return Some(SHAPE.to_owned());
        };
        for item in items {
            let Json::Object(mut fields) = item else {
                return Some(SHAPE.to_owned());
            };
            let args = fields
                .remove("args")
                .unwrap_or_else(|| Json::Object(serde_json::Map::new()));
            let Some(Json::String(tool)) = fields.remove("type") else {
                return Some(SHAPE.to_owned());
            };
            if !args.is_object() || !fields.is_empty() || !is_tool_name(&tool) {
                return Some(SHAPE.to_owned());
            }
            self.mention(line, ACTIONS, &tool);
            skill.actions.push(FixedAction { tool, args });
        }
        None
    }

    fn files(&mut self, skill: &mut Skill) {
        for (path, bytes) in self.source.under(self.root) {
            let inner = &path[self.root.len() + 1..];
            if inner == "SKILL.md" {
                continue;
            }
            if inner.starts_with("references/") && str::from_utf8(bytes).is_err() {
                self.found.problems.push(Problem::of(
                    path,
                    "is not UTF-8, so the model cannot read it",
                ));
            }
            if !["references/", "assets/", "scripts/"]
                .iter()
                .any(|folder| inner.starts_with(folder))
            {
                let reason = "is outside references/ and assets/, so nothing reads it";
                self.found.warnings.push(Problem::of(path, reason));
                continue;
            }
            if inner.starts_with("scripts/") {
                self.found
                    .notes
                    .push(Problem::of(path, "scripts of skills are never run"));
                continue;
            }
            skill.files.insert(inner.to_owned(), Arc::from(bytes));
        }
    }

    fn body(&mut self, skill: &Skill) {
        let length = skill.body.chars().count();
        if length == 0 {
            self.found.notes.push(Problem::of(
                self.path,
                "has no body: activating it tells the model nothing",
            ));
        } else if length > LONG_BODY {
            let reason =
                format!("the body has {length} characters; move parts of it to references/");
            self.found.notes.push(Problem::of(self.path, reason));
        }
    }
}

fn speaks(line: &str) -> bool {
    line.chars().any(char::is_alphanumeric)
}

/// What asks for a fact activates the skill that speaks about it.
fn join_topics(skill: &mut Skill) {
    for topic in &skill.topics {
        skill.triggers.extend(&topic.asked_by);
        if !skill.facts.contains(&topic.fact) {
            skill.facts.push(topic.fact.clone());
        }
    }
}

/// Whether the text fits `^[a-zA-Z0-9_-]{1,64}$`.
fn is_tool_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
