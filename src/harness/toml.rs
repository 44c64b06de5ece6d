//! TOML read field by field: every unknown, missing or ill-typed key is a problem of its own, with its line.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Problem;

/// A table whose fields are taken one by one; what is left at the end is unknown.
#[derive(Debug)]
pub(super) struct Fields<'a, 'f> {
    path: &'a str,
    text: &'a str,
    /// Of the table, with a dot; empty at the top.
    prefix: String,
    table: DeTable<'a>,
    problems: &'f mut Vec<Problem>,
}

/// Reads a file; `None` when it is no TOML, which has then been said.
pub(super) fn fields<'a, 'f>(
    path: &'a str,
    text: &'a str,
    problems: &'f mut Vec<Problem>,
) -> Option<Fields<'a, 'f>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = error.span().map_or(0, |span| span.start);
        problems.push(Problem::at(path, line(text, at), error.message()));
    }
    let table = table.into_inner();
    errors.is_empty().then_some(Fields {
        path,
        text,
        prefix: String::new(),
        table,
        problems,
    })
}

/// The line of a byte, from 1.
fn line(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
}

impl<'a> Fields<'a, '_> {
    fn take(&mut self, key: &str) -> Option<Spanned<DeValue<'a>>> {
        self.table.remove(key)
    }

    /// A problem with a field, at its line where the span is known.
    pub(super) fn complain(&mut self, key: &str, at: usize, reason: &str) {
        let reason = format!("{}{key}: {reason}", self.prefix);
        self.problems
            .push(Problem::at(self.path, line(self.text, at), reason));
    }

    /// A text that is not blank, and where it stands.
    pub(super) fn text(&mut self, key: &str) -> Option<(usize, String)> {
        let value = self.take(key)?;
        let at = value.span().start;
        match value.get_ref() {
            DeValue::String(text) if !text.trim().is_empty() => {
                return Some((at, text.clone().into_owned()));
            }
            DeValue::String(_) => self.complain(key, at, "is blank"),
            other => self.wrong(key, at, "a text", other),
        }
        None
    }

    /// A whole number within the range.
    pub(super) fn number(
        &mut self,
        key: &str,
        range: std::ops::RangeInclusive<u32>,
    ) -> Option<u32> {
        let value = self.take(key)?;
        let at = value.span().start;
        let Some(number) = value.get_ref().as_integer() else {
            self.wrong(key, at, "a whole number", value.get_ref());
            return None;
        };
        let parsed = u32::from_str_radix(number.as_str(), number.radix()).ok();
        let parsed = parsed.filter(|number| range.contains(number));
        if parsed.is_none() {
            self.complain(
                key,
                at,
                &format!("must be from {} to {}", range.start(), range.end()),
            );
        }
        parsed
    }

    /// A truth value.
    pub(super) fn flag(&mut self, key: &str) -> Option<bool> {
        let value = self.take(key)?;
        let at = value.span().start;
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.wrong(key, at, "true or false", value.get_ref());
        }
        flag
    }

    /// A list of texts, none blank or there twice.
    pub(super) fn texts(&mut self, key: &str) -> Option<Vec<(usize, String)>> {
        let value = self.take(key)?;
        let at = value.span().start;
        let Some(items) = value.get_ref().as_array() else {
            self.wrong(key, at, "a list of texts", value.get_ref());
            return None;
        };
        let mut texts: Vec<(usize, String)> = Vec::new();
        for item in items.iter() {
            let at = item.span().start;
            match item
                .get_ref()
                .as_str()
                .filter(|text| !text.trim().is_empty())
            {
                None => self.complain(key, at, "every item must be a text that is not blank"),
                Some(text) if texts.iter().any(|(_, other)| other == text) => {
                    self.complain(key, at, &format!("{text:?} is there twice"));
                }
                Some(text) => texts.push((at, text.to_owned())),
            }
        }
        Some(texts)
    }

    /// The table under `key`; an empty one where there is none.
    pub(super) fn table(&mut self, key: &str) -> Fields<'a, '_> {
        let mut table = DeTable::default();
        if let Some(value) = self.take(key) {
            let at = value.span().start;
            match value.into_inner() {
                DeValue::Table(inner) => table = inner,
                other => self.wrong(key, at, "a table", &other),
            }
        }
        Fields {
            path: self.path,
            text: self.text,
            prefix: format!("{}{key}.", self.prefix),
            table,
            problems: self.problems,
        }
    }

    fn wrong(&mut self, key: &str, at: usize, expected: &str, value: &DeValue<'_>) {
        self.complain(
            key,
            at,
            &format!("must be {expected}, not {}", value.type_str()),
        );
    }

    /// Complains of every key that was not asked for.
    pub(super) fn finish(mut self) {
        for (key, _) in std::mem::take(&mut self.table) {
            let at = key.span().start;
            self.complain(key.get_ref(), at, "is no setting");
        }
    }
}
