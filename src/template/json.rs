//! `tojson` as the reference renders templates: raw UTF-8, no HTML escapes, keys in their order, `", "` and `": "`.

use std::fmt::Write;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::marks::{NEVER, UNASSIGNED};
use super::{limits, spelled};

/// Widest indent.
const INDENT: usize = 32;

/// How a value is written.
#[derive(Debug, Default)]
struct Style {
    indent: Option<usize>,
    separators: Option<(String, String)>,
    ascii: bool,
    sorted: bool,
}

/// The filter `tojson(indent=, separators=, ensure_ascii=, sort_keys=)`. A number by position is the indent.
///
/// # Errors
/// On values that are no JSON, on sizes beyond the limits and on arguments of other names.
pub(super) fn tojson(
    value: &Value,
    by_position: Option<Value>,
    named: Kwargs,
) -> Result<Value, Error> {
    limits::measure(value)?;
    let by_position = by_position.filter(|value| value.kind() == ValueKind::Number);
    let style = Style {
        indent: indent(named.get::<Option<Value>>("indent")?.or(by_position))?,
        separators: separators(named.get("separators")?)?,
        ascii: named.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sorted: named.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    named.assert_all_used()?;
    let mut writer = Writer {
        style,
        text: String::new(),
    };
    writer.value(value, 0)?;
    Ok(Value::from(writer.text))
}

fn indent(value: Option<Value>) -> Result<Option<usize>, Error> {
    let Some(value) = value.filter(|value| !value.is_none()) else {
        return Ok(None);
    };
    match value.as_usize() {
        Some(width) if width <= INDENT => Ok(Some(width)),
        _ => Err(invalid(format!(
            "`indent` of tojson is a number up to {INDENT}"
        ))),
    }
}

fn separators(value: Option<Value>) -> Result<Option<(String, String)>, Error> {
    let Some(value) = value.filter(|value| !value.is_none()) else {
        return Ok(None);
    };
    let texts: Option<Vec<String>> = value
        .try_iter()?
        .map(|item| item.as_str().map(str::to_owned))
        .collect();
    let short = |texts: &Vec<String>| texts.iter().all(|text| text.len() <= INDENT);
    match texts.filter(short).as_deref() {
        Some([item, key]) => Ok(Some((item.clone(), key.clone()))),
        _ => Err(invalid(
            "`separators` of tojson are two short strings".to_owned(),
        )),
    }
}

/// Whether it may be a mark, which has to come out of the rendering as it went in.
fn is_mark(c: char) -> bool {
    NEVER.contains(&c) || (UNASSIGNED.contains(&c) && c < '\u{E0000}')
}

fn invalid(reason: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}

struct Writer {
    style: Style,
    text: String,
}

impl Writer {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => self.text.push_str("null"),
            ValueKind::Bool => self
                .text
                .push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.number(value),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => self.sequence(value, depth)?,
            ValueKind::Map => self.map(value, depth)?,
            kind => return Err(invalid(format!("tojson of a value that is {kind}"))),
        }
        if self.text.len() > limits::VALUE {
            return Err(limits::exceeded("the size of a value"));
        }
        Ok(())
    }

    fn number(&mut self, value: &Value) {
        let text = spelled::number(value);
        self.text.push_str(match text.as_str() {
            "nan" => "NaN",
            "inf" => "Infinity",
            "-inf" => "-Infinity",
            finite => finite,
        });
    }

    fn string(&mut self, text: &str) {
        self.text.push('"');
        for c in text.chars() {
            match c {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                '\u{8}' => self.text.push_str("\\b"),
                '\u{c}' => self.text.push_str("\\f"),
                '\0'..='\u{1f}' => self.push(format_args!("\\u{:04x}", u32::from(c))),
                _ if self.style.ascii && !c.is_ascii() && !is_mark(c) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        self.push(format_args!("\\u{unit:04x}"));
                    }
                }
                _ => self.text.push(c),
            }
        }
        self.text.push('"');
    }

    fn sequence(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.text.push('[');
        let mut empty = true;
        for item in value.try_iter()? {
            self.between(empty, depth + 1);
            empty = false;
            self.value(&item, depth + 1)?;
        }
        self.end(empty, depth, ']');
        Ok(())
    }

    fn map(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.text.push('{');
        let mut keys: Vec<Value> = value.try_iter()?.collect();
        if self.style.sorted {
            keys.sort();
        }
        for (index, key) in keys.iter().enumerate() {
            self.between(index == 0, depth + 1);
            match key.as_str() {
                Some(text) => self.string(text),
                None => {
                    self.text.push('"');
                    self.value(key, depth + 1)?;
                    self.text.push('"');
                }
            }
            let colon = self.style.separators.as_ref().map_or(": ", |(_, key)| key);
            self.text.push_str(colon);
            self.value(&value.get_item(key)?, depth + 1)?;
        }
        self.end(keys.is_empty(), depth, '}');
        Ok(())
    }

    /// What comes before an item.
    fn between(&mut self, first: bool, depth: usize) {
        if !first {
            let comma = match &self.style {
                Style {
                    separators: Some((item, _)),
                    ..
                } => item.as_str(),
                Style {
                    indent: Some(_), ..
                } => ",",
                _ => ", ",
            };
            self.text.push_str(comma);
        }
        self.line(depth);
    }

    fn end(&mut self, empty: bool, depth: usize, bracket: char) {
        if !empty {
            self.line(depth);
        }
        self.text.push(bracket);
    }

    fn line(&mut self, depth: usize) {
        if let Some(width) = self.style.indent {
            self.text.push('\n');
            self.text.extend(std::iter::repeat_n(' ', width * depth));
        }
    }

    fn push(&mut self, part: impl std::fmt::Display) {
        write!(self.text, "{part}").expect("a string takes all that is written");
    }
}
