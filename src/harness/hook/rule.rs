//! The built-in checks of hooks, compiled.

use serde::Deserialize;

use super::words::Words;
use crate::harness::Source;

/// Most bytes that a compiled pattern may take: the engine is linear in the text, this bounds the other factor.
const PATTERN_BYTES: usize = 256 << 10;

/// One check and what follows from a finding.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What is looked for.
    pub check: Check,
    /// What a finding does.
    pub action: Action,
    /// Why, for logs and front ends; never spoken.
    pub reason: String,
}

/// What is looked for.
#[derive(Clone, Debug)]
pub enum Check {
    /// Words, whatever their case, width and spacing.
    Words(Words),
    /// A pattern of the linear engine.
    Regex(regex::Regex),
    /// A spoken price that is neither in the facts nor in the tool results, nor made of them.
    PriceGuard,
    /// No finding: what is to be said is written as it is said.
    ReadAloud,
}

impl Check {
    /// As hook.toml spells it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Words(_) => "words",
            Self::Regex(_) => "regex",
            Self::PriceGuard => "price_guard",
            Self::ReadAloud => "read_aloud",
        }
    }
}

/// What a finding does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The turn, tool call or clause is blocked.
    Block,
    /// The whole text becomes this one, and the turn goes on.
    Replace(String),
    /// Each finding becomes this; in patterns `$1` and `$name` stand for groups.
    Substitute(String),
}

/// What is wrong with a rule, and at which of its fields.
pub(super) struct Fault {
    pub(super) field: &'static str,
    pub(super) reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    kind: String,
    #[serde(default)]
    lists: Vec<String>,
    #[serde(default)]
    words: Vec<String>,
    pattern: Option<String>,
    action: Option<String>,
    text: Option<String>,
    reason: Option<String>,
}

impl Rule {
    pub(super) fn read(table: &toml::Table, source: &Source) -> Result<Self, Fault> {
        let table: Table = table
            .clone()
            .try_into()
            .map_err(|error: toml::de::Error| fault("kind", error.message()))?;
        let check = table.check(source)?;
        let action = table.action(&check)?;
        let reason = table.reason.unwrap_or_else(|| check.word().to_owned());
        Ok(Self {
            check,
            action,
            reason,
        })
    }
}

impl Table {
    fn check(&self, source: &Source) -> Result<Check, Fault> {
        let words = !self.lists.is_empty() || !self.words.is_empty();
        if words && self.kind != "words" {
            return Err(fault(
                "kind",
                format!("lists and words are of kind words, not {}", self.kind),
            ));
        }
        if self.pattern.is_some() && self.kind != "regex" {
            return Err(fault(
                "pattern",
                format!("a pattern is of kind regex, not {}", self.kind),
            ));
        }
        match self.kind.as_str() {
            "words" => self.words(source).map(Check::Words),
            "regex" => self.regex().map(Check::Regex),
            "price_guard" => Ok(Check::PriceGuard),
            "read_aloud" => Ok(Check::ReadAloud),
            other => Err(fault(
                "kind",
                format!("kind is {other:?}, must be words, regex, price_guard or read_aloud"),
            )),
        }
    }

    fn words(&self, source: &Source) -> Result<Words, Fault> {
        let mut words = Words::default();
        for word in &self.words {
            words.add(word).map_err(|reason| fault("words", reason))?;
        }
        for list in &self.lists {
            let path = format!("lists/{list}.txt");
            let bytes = source
                .get(&path)
                .ok_or_else(|| fault("lists", format!("there is no {path}")))?;
            let text = std::str::from_utf8(bytes)
                .map_err(|_| fault("lists", format!("{path} is not UTF-8")))?;
            words
                .add_list(text)
                .map_err(|(line, reason)| fault("lists", format!("{path}:{line}: {reason}")))?;
        }
        if words.is_empty() {
            return Err(fault("kind", "words: there is not one word in its lists"));
        }
        Ok(words)
    }

    fn regex(&self) -> Result<regex::Regex, Fault> {
        let Some(pattern) = &self.pattern else {
            return Err(fault("kind", "regex: pattern is missing"));
        };
        let regex = regex::RegexBuilder::new(pattern)
            .size_limit(PATTERN_BYTES)
            .dfa_size_limit(PATTERN_BYTES)
            .build()
            .map_err(|error| fault("pattern", one_line(&error)))?;
        if regex.is_match("") {
            return Err(fault(
                "pattern",
                "matches the empty text, so it would be found everywhere",
            ));
        }
        Ok(regex)
    }

    fn action(&self, check: &Check) -> Result<Action, Fault> {
        if matches!(check, Check::ReadAloud) {
            return match (&self.action, &self.text) {
                (None, None) => Ok(Action::Substitute(String::new())),
                _ => Err(fault("action", "read_aloud has no action and no text")),
            };
        }
        let text = |action: &str| {
            self.text
                .clone()
                .ok_or_else(|| fault("action", format!("{action} needs a text")))
        };
        match self.action.as_deref().unwrap_or("block") {
            "block" if self.text.is_some() => Err(fault(
                "text",
                "block has no text: the skill's fallback line is spoken",
            )),
            "block" => Ok(Action::Block),
            "replace" => text("replace").and_then(|text| {
                let speakable = text.chars().any(char::is_alphanumeric);
                if speakable {
                    Ok(Action::Replace(text))
                } else {
                    Err(fault("text", "has nothing to say"))
                }
            }),
            "substitute" if matches!(check, Check::PriceGuard) => Err(fault(
                "action",
                "price_guard blocks or replaces: a price without its number says nothing",
            )),
            "substitute" => text("substitute").map(Action::Substitute),
            other => Err(fault(
                "action",
                format!("action is {other:?}, must be block, replace or substitute"),
            )),
        }
    }
}

fn fault(field: &'static str, reason: impl Into<String>) -> Fault {
    Fault {
        field,
        reason: reason.into(),
    }
}

/// The engine draws its errors over several lines; the last says what is wrong.
fn one_line(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}
