//! hook.toml to a [`Hook`]: every fault with its file and line, all of them at once.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::rule::{Check, Rule};
use super::script::Script;
use super::{Body, Hook, OnError, Point};
use crate::harness::{Problem, Source};

const BUDGET_MS: u64 = 5;
/// A hook that needs longer would be heard as silence.
const MOST_BUDGET_MS: u64 = 1000;
const MOST_RULES: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    point: Point,
    #[serde(default)]
    order: i64,
    budget_ms: Option<Spanned<u64>>,
    #[serde(default)]
    on_error: OnError,
    #[serde(default)]
    rule: Vec<Spanned<toml::Table>>,
    script: Option<Spanned<String>>,
}

/// One file being read.
struct Reader<'a> {
    name: &'a str,
    path: String,
    text: &'a str,
    source: &'a Source,
    problems: &'a mut Vec<Problem>,
}

pub(super) fn read(name: &str, source: &Source, problems: &mut Vec<Problem>) -> Option<Hook> {
    let path = format!("hooks/{name}/hook.toml");
    let text = match source.get(&path).map(std::str::from_utf8) {
        Some(Ok(text)) => text.trim_start_matches('\u{feff}'),
        Some(Err(_)) => {
            problems.push(Problem::of(path, "is not UTF-8"));
            return None;
        }
        None => {
            problems.push(Problem::of(path, "is missing"));
            return None;
        }
    };
    let before = problems.len();
    let mut reader = Reader {
        name,
        path,
        text,
        source,
        problems,
    };
    let hook = reader.hook();
    hook.filter(|_| problems.len() == before)
}

impl Reader<'_> {
    fn hook(&mut self) -> Option<Hook> {
        let file: File = match toml::from_str(self.text) {
            Ok(file) => file,
            Err(error) => {
                let span = error.span().unwrap_or(0..0);
                self.problem(&span, error.message().to_owned());
                return None;
            }
        };
        let budget = self.budget(file.budget_ms.as_ref());
        let body = match (&file.script, file.rule.is_empty()) {
            (Some(script), true) => self.script(script),
            (None, false) => self.rules(&file.rule),
            (Some(script), false) => {
                self.problem(&script.span(), "a hook has rules or a script, not both");
                None
            }
            (None, true) => {
                self.problem(&(0..0), "a hook needs a [[rule]] or a script");
                None
            }
        };
        let body = body?;
        if let Body::Rules(rules) = &body {
            self.fit(file.point, rules, &file.rule);
        }
        Some(Hook {
            name: self.name.into(),
            point: file.point,
            order: file.order,
            budget,
            on_error: file.on_error,
            body,
        })
    }

    fn budget(&mut self, given: Option<&Spanned<u64>>) -> Duration {
        let ms = given.map_or(BUDGET_MS, |given| *given.get_ref());
        if let Some(given) = given
            && !(1..=MOST_BUDGET_MS).contains(&ms)
        {
            self.problem(
                &given.span(),
                format!("budget_ms is {ms}, must be 1 to {MOST_BUDGET_MS}"),
            );
        }
        Duration::from_millis(ms)
    }

    fn rules(&mut self, tables: &[Spanned<toml::Table>]) -> Option<Body> {
        if tables.len() > MOST_RULES {
            self.problem(
                &(0..0),
                format!("{} rules, at most {MOST_RULES}", tables.len()),
            );
            return None;
        }
        let mut rules = Vec::with_capacity(tables.len());
        for table in tables {
            match Rule::read(table.get_ref(), self.source) {
                Ok(rule) => rules.push(rule),
                Err(fault) => {
                    let span = self.field(table.span(), fault.field);
                    self.problem(&span, fault.reason);
                }
            }
        }
        Some(Body::Rules(rules.into()))
    }

    /// A rule where its point has nothing for it to look at would guard nothing.
    fn fit(&mut self, point: Point, rules: &[Rule], tables: &[Spanned<toml::Table>]) {
        for (rule, table) in rules.iter().zip(tables) {
            let spoken = matches!(rule.check, Check::PriceGuard | Check::ReadAloud);
            if spoken && point != Point::PreSegment {
                let kind = rule.check.word();
                let reason = format!(
                    "{kind} looks at spoken text: its point is pre_segment, not {}",
                    point.word()
                );
                let span = self.field(table.span(), "kind");
                self.problem(&span, reason);
            }
        }
    }

    fn script(&mut self, file: &Spanned<String>) -> Option<Body> {
        let inside = format!("hooks/{}/{}", self.name, file.get_ref());
        let plain = !file
            .get_ref()
            .split('/')
            .any(|part| part.is_empty() || part.starts_with('.'));
        let bytes = plain.then(|| self.source.get(&inside)).flatten();
        let Some(bytes) = bytes else {
            self.problem(&file.span(), format!("script: there is no {inside}"));
            return None;
        };
        let Ok(text) = std::str::from_utf8(bytes) else {
            self.problems.push(Problem::of(inside, "is not UTF-8"));
            return None;
        };
        match Script::compile(text) {
            Ok(script) => Some(Body::Script(Arc::new(script))),
            Err(fault) => {
                self.problems.push(Problem {
                    path: inside,
                    line: fault.line,
                    reason: fault.reason,
                });
                None
            }
        }
    }

    /// Where `field` stands in the table at `span`; the table's own place when it does not.
    fn field(&self, span: Range<usize>, field: &str) -> Range<usize> {
        let rest = self.text.get(span.start..).unwrap_or_default();
        let mut at = span.start;
        for (index, line) in rest.split_inclusive('\n').enumerate() {
            if index > 0 && line.trim_start().starts_with('[') {
                break;
            }
            let key = line.split('=').next().unwrap_or_default().trim();
            if key == field {
                return at..at + line.len();
            }
            at += line.len();
        }
        span
    }

    fn problem(&mut self, span: &Range<usize>, reason: impl Into<String>) {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        self.problems
            .push(Problem::at(self.path.clone(), line, reason));
    }
}
