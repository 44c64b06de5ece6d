//! `harness.toml`: who speaks, in which order the prompt tells it, and what a turn may cost.

use std::str;

use super::prompt::SectionKind;
use super::toml::{Fields, fields};
use super::{Problem, Source};

/// The file.
const PATH: &str = "harness.toml";
/// The persona's file where none is named.
const PERSONA: &str = "prompts/persona.txt";
/// Rounds of tool calls in one turn, most tokens of its answer: defaults.
const BUDGETS: Budgets = Budgets {
    max_rounds: 4,
    max_tokens: 256,
};

/// What one harness sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Path of the text that says who speaks, inside the harness.
    pub persona: String,
    /// Language of the answers where a request names none, as a tag such as `en` or `zh-CN`.
    pub language: Option<String>,
    /// What is said where there is no answer.
    pub fallback: Option<String>,
    /// Id of the model that speaks where a request names none.
    pub model: Option<String>,
    /// Name of the adapter that it speaks with.
    pub adapter: Option<String>,
    /// Tools that every turn may call; all others come with the skills that allow them.
    pub tools: Vec<String>,
    /// Emotions that answers may show.
    pub emotions: Vec<String>,
    /// Gestures that answers may show.
    pub gestures: Vec<String>,
    /// Whether an answer ends at its first line end: what small models write below it is seldom an answer.
    pub single_line: bool,
    /// The sections of the system prompt, from stable to volatile; those left out are not told.
    pub sections: Vec<SectionKind>,
    /// What a turn may cost.
    pub budgets: Budgets,
}

/// What a turn may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Most times that the model is asked in one turn, 1 to 32.
    pub max_rounds: u32,
    /// Most tokens of an answer, 1 to 32,768.
    pub max_tokens: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            persona: PERSONA.to_owned(),
            language: None,
            fallback: None,
            model: None,
            adapter: None,
            tools: Vec::new(),
            emotions: Vec::new(),
            gestures: Vec::new(),
            single_line: false,
            sections: SectionKind::ALL.to_vec(),
            budgets: BUDGETS,
        }
    }
}

/// A tool that the settings name, and where.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) line: usize,
    pub(super) tool: String,
}

impl Settings {
    /// Reads `harness.toml`; also the tools it names, to be checked once all are known.
    pub(super) fn read(source: &Source, problems: &mut Vec<Problem>) -> (Self, Vec<Named>) {
        let mut settings = Self::default();
        let Some(bytes) = source.get(PATH) else {
            problems.push(Problem::of(PATH, "is missing"));
            return (settings, Vec::new());
        };
        let Ok(text) = str::from_utf8(bytes) else {
            problems.push(Problem::of(PATH, "is not UTF-8"));
            return (settings, Vec::new());
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let Some(mut fields) = fields(PATH, text, problems) else {
            return (settings, Vec::new());
        };
        settings.persona = persona(&mut fields, source);
        settings.language = language(&mut fields);
        settings.fallback = fallback(&mut fields);
        settings.model = fields.text("model").map(|(_, text)| text);
        settings.adapter = fields.text("adapter").map(|(_, text)| text);
        settings.emotions = tags(&mut fields, "emotions");
        settings.gestures = tags(&mut fields, "gestures");
        settings.single_line = fields.flag("single_line").unwrap_or_default();
        let named: Vec<Named> = fields
            .texts("tools")
            .unwrap_or_default()
            .into_iter()
            .map(|(at, tool)| Named {
                line: 1 + text.as_bytes()[..at]
                    .iter()
                    .filter(|byte| **byte == b'\n')
                    .count(),
                tool,
            })
            .collect();
        settings.tools = named.iter().map(|named| named.tool.clone()).collect();
        if let Some(sections) = sections(&mut fields) {
            settings.sections = sections;
        }
        let mut budgets = fields.table("budgets");
        if let Some(rounds) = budgets.number("max_rounds", 1..=32) {
            settings.budgets.max_rounds = rounds;
        }
        if let Some(tokens) = budgets.number("max_tokens", 1..=32_768) {
            settings.budgets.max_tokens = tokens;
        }
        budgets.finish();
        fields.finish();
        (settings, named)
    }
}

/// The path of the persona; one that leads nowhere is complained of.
fn persona(fields: &mut Fields<'_, '_>, source: &Source) -> String {
    let Some((at, path)) = fields.text("persona") else {
        if source.get(PERSONA).is_none() {
            fields.complain(
                "persona",
                0,
                &format!("is not set, and there is no {PERSONA}"),
            );
        }
        return PERSONA.to_owned();
    };
    if source.get(&path).is_none() {
        fields.complain(
            "persona",
            at,
            &format!("{path:?} is no file of this harness"),
        );
    }
    path
}

fn language(fields: &mut Fields<'_, '_>) -> Option<String> {
    let (at, tag) = fields.text("language")?;
    let fits = tag.split('-').all(|part| {
        (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    if !fits {
        fields.complain("language", at, "must be a language tag such as en or zh-CN");
        return None;
    }
    Some(tag)
}

fn fallback(fields: &mut Fields<'_, '_>) -> Option<String> {
    let (at, line) = fields.text("fallback")?;
    if !line.chars().any(char::is_alphanumeric) || line.contains('\n') {
        fields.complain("fallback", at, "must be one line with words");
        return None;
    }
    Some(line)
}

/// Names that answers write as `[name]`.
fn tags(fields: &mut Fields<'_, '_>, key: &str) -> Vec<String> {
    let mut tags = Vec::new();
    for (at, tag) in fields.texts(key).unwrap_or_default() {
        if tag
            .chars()
            .all(|c| c.is_alphanumeric() || c == '_' || c == '-')
        {
            tags.push(tag);
        } else {
            fields.complain(
                key,
                at,
                &format!("{tag:?} may hold only letters, digits, _ and -"),
            );
        }
    }
    tags
}

fn sections(fields: &mut Fields<'_, '_>) -> Option<Vec<SectionKind>> {
    let mut kinds = Vec::new();
    for (at, word) in fields.texts("sections")? {
        match SectionKind::ALL
            .into_iter()
            .find(|kind| kind.word() == word)
        {
            Some(kind) => kinds.push(kind),
            None => {
                let known = SectionKind::ALL.map(SectionKind::word).join(", ");
                fields.complain(
                    "sections",
                    at,
                    &format!("{word:?} is no section; there are {known}"),
                );
            }
        }
    }
    Some(kinds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Settings, Vec<String>) {
        let mut source = Source::default();
        source.insert(PATH, text.as_bytes());
        source.insert("prompts/persona.txt", b"You are a host.".as_slice());
        let mut problems = Vec::new();
        let (settings, _) = Settings::read(&source, &mut problems);
        (settings, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn an_empty_file_sets_the_defaults_and_a_full_one_sets_all() {
        assert_eq!(read("# nothing\n"), (Settings::default(), Vec::new()));
        let (settings, problems) = read(
            "persona = \"prompts/persona.txt\"\nlanguage = \"zh-CN\"\nfallback = \"稍等\"\nmodel = \"m\"\nadapter = \"a\"\n\
             tools = [\"stock\"]\nemotions = [\"happy\"]\ngestures = [\"wave\"]\nsingle_line = true\nsections = [\"tools\", \"persona\"]\n\
             [budgets]\nmax_rounds = 2\nmax_tokens = 64\n",
        );
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(
            settings.sections,
            [SectionKind::Tools, SectionKind::Persona]
        );
        assert_eq!(
            settings.budgets,
            Budgets {
                max_rounds: 2,
                max_tokens: 64
            }
        );
        assert!(settings.single_line);
        assert_eq!(
            (settings.tools, settings.emotions),
            (vec!["stock".to_owned()], vec!["happy".to_owned()])
        );
    }

    #[test]
    fn every_fault_is_named_at_once_with_its_line() {
        let (_, problems) = read(
            "persona = \"../x\"\nlangauge = \"en\"\nlanguage = \"not a tag\"\nfallback = \"…\"\nmodel = 7\n\
             emotions = [\"a b\", \"x\", \"x\"]\nsections = [\"persona\", \"weather\"]\n[budgets]\nmax_rounds = 0\nmax_tokns = 1\n",
        );
        let starts = [
            "harness.toml:1: persona:",
            "harness.toml:3: language:",
            "harness.toml:4: fallback:",
            "harness.toml:5: model:",
            "harness.toml:6: emotions: \"x\" is there twice",
            "harness.toml:6: emotions: \"a b\"",
            "harness.toml:7: sections: \"weather\"",
            "harness.toml:9: budgets.max_rounds: must be from 1 to 32",
            "harness.toml:10: budgets.max_tokns: is no setting",
            "harness.toml:2: langauge: is no setting",
        ];
        assert_eq!(problems.len(), starts.len(), "{problems:#?}");
        for (problem, start) in problems.iter().zip(starts) {
            assert!(problem.starts_with(start), "{problem}");
        }
    }

    #[test]
    fn what_is_no_toml_is_named_by_its_line() {
        let (_, problems) = read("language = \"en\"\nfallback = \n");
        assert!(problems[0].starts_with("harness.toml:2: "), "{problems:?}");
    }
}
