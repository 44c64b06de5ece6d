//! One question and what its answer must and must not say.

use std::path::Path;

use regex::{Regex, RegexBuilder};
use serde::Deserialize;

use crate::Failure;

/// A line of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    kind: String,
    product_id: String,
    question: String,
    /// Patterns that must all be found, whatever the case.
    #[serde(default)]
    all: Vec<String>,
    /// Patterns of which one must be found; empty where nothing need be said.
    #[serde(default)]
    any: Vec<String>,
    /// Patterns that must not be found.
    #[serde(default)]
    none: Vec<String>,
}

/// A question with its checks compiled.
pub(super) struct Question {
    /// What it tests, such as `price`.
    pub(super) kind: String,
    /// The product on screen.
    pub(super) product_id: String,
    /// What the viewer writes.
    pub(super) text: String,
    all: Vec<Regex>,
    any: Vec<Regex>,
    none: Vec<Regex>,
}

/// Reads a file of one JSON object a line.
///
/// # Errors
/// The file and line at fault.
pub(super) fn read(path: &Path) -> Result<Vec<Question>, Failure> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let lines = text.lines().enumerate();
    lines
        .map(|(index, line)| {
            Question::parse(line)
                .map_err(|error| format!("{}:{}: {error}", path.display(), index + 1).into())
        })
        .collect()
}

impl Question {
    fn parse(line: &str) -> Result<Self, Failure> {
        let line: Line = serde_json::from_str(line)?;
        Ok(Self {
            kind: line.kind,
            product_id: line.product_id,
            text: line.question,
            all: compile(&line.all)?,
            any: compile(&line.any)?,
            none: compile(&line.none)?,
        })
    }

    /// Whether an answer passes every check. Silence never does.
    pub(super) fn is_right(&self, answer: &str) -> bool {
        let found = |pattern: &Regex| pattern.is_match(answer);
        !answer.trim().is_empty()
            && self.all.iter().all(found)
            && (self.any.is_empty() || self.any.iter().any(found))
            && !self.none.iter().any(found)
    }
}

fn compile(patterns: &[String]) -> Result<Vec<Regex>, Failure> {
    let compiled = patterns.iter().map(|pattern| {
        RegexBuilder::new(pattern)
            .case_insensitive(true)
            .build()
            .map_err(Failure::from)
    });
    compiled.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_right_when_every_check_holds() {
        let question = Question::parse(
            r#"{"kind":"k","product_id":"p","question":"q","all":["\\b79\\b"],"any":["costs","price"],"none":["89"]}"#,
        )
        .expect("a question");
        assert!(question.is_right("It COSTS $79."));
        for wrong in ["", "It costs $790.", "Just $79.", "It costs $79, not $89."] {
            assert!(!question.is_right(wrong), "{wrong}");
        }
        let open =
            Question::parse(r#"{"kind":"k","product_id":"p","question":"q","none":["free"]}"#)
                .expect("a question");
        assert!(open.is_right("Hello.") && !open.is_right(" ") && !open.is_right("FREE!"));
    }

    #[test]
    fn a_check_that_is_mistyped_is_refused() {
        for line in [
            r#"{"kind":"k","product_id":"p","question":"q","non":["x"]}"#,
            r#"{"kind":"k","product_id":"p","question":"q","any":["("]}"#,
        ] {
            assert!(Question::parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_shipped_questions_are_sixty_and_their_products_are_in_the_catalog() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let questions = read(&root.join("answers/questions.jsonl")).expect("the shipped file");
        assert_eq!(questions.len(), 60);
        for question in questions {
            let file = format!("../harness/live-room/catalog/{}.json", question.product_id);
            assert!(root.join(&file).exists(), "{file}");
        }
    }
}
