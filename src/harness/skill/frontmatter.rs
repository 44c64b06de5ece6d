//! The head of a SKILL.md, read line by line: the part of YAML that the format needs (texts, lists, one level of map)
//! and nothing that can refer, repeat or nest. What is left out is refused by name and line, never guessed at.

use super::scalar::{self, Fault};

/// The line that opens and closes the head.
const FENCE: &str = "---";

/// One `key: value` of the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: String,
    /// From 1, in the file.
    pub(super) line: usize,
    pub(super) value: Value,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Nothing, `~` or `null`.
    Empty,
    Text(String),
    List(Vec<String>),
    Map(Vec<(usize, String, String)>),
}

/// A file taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) entries: Vec<Entry>,
    /// What is wrong, by line; entries at fault are left out.
    pub(super) faults: Vec<(usize, String)>,
    /// What follows the head, with `\n` line ends, no blank lines around it.
    pub(super) body: String,
}

/// Takes a file apart. A byte order mark, CRLF and blanks after a fence are accepted.
pub(super) fn split(text: &str) -> Parts {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines: Vec<&str> = text.lines().collect();
    if lines.first().is_none_or(|line| line.trim_end() != FENCE) {
        return Parts::broken(1, "must begin with a line that is ---");
    }
    let Some(end) = lines
        .iter()
        .skip(1)
        .position(|line| line.trim_end() == FENCE)
    else {
        return Parts::broken(1, "the frontmatter is never closed by a line that is ---");
    };
    let (head, rest) = (&lines[1..=end], &lines[end + 2..]);
    let mut reader = Reader {
        lines: head,
        at: 0,
        parts: Parts::default(),
    };
    reader.run();
    let body = rest.join("\n");
    reader.parts.body = body.trim_end().trim_start_matches('\n').to_owned();
    reader.parts
}

impl Parts {
    fn broken(line: usize, reason: &str) -> Self {
        Self {
            faults: vec![(line, reason.to_owned())],
            ..Self::default()
        }
    }
}

struct Reader<'a> {
    lines: &'a [&'a str],
    /// The next line to read.
    at: usize,
    parts: Parts,
}

/// How far a line is indented, in spaces.
fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn is_blank(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// Whether the line is an item of a list: `- x` or a bare `-`.
fn item(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches(' ').strip_prefix('-')?;
    (rest.is_empty() || rest.starts_with(' ')).then(|| rest.trim())
}

impl<'a> Reader<'a> {
    fn run(&mut self) {
        for (index, line) in self.lines.iter().enumerate() {
            if let Some(c) = line.chars().find(|c| c.is_control() && *c != '\t') {
                let reason = format!("holds the control character U+{:04X}", u32::from(c));
                self.parts.faults.push((index + 2, reason));
            }
        }
        if !self.parts.faults.is_empty() {
            return;
        }
        while let Some(line) = self.lines.get(self.at).copied() {
            let number = self.number();
            self.at += 1;
            if is_blank(line) {
                continue;
            }
            match self.entry(line) {
                Ok((key, _)) if self.parts.entries.iter().any(|entry| entry.key == key) => {
                    self.fault(number, format!("{key}: is there twice"));
                }
                Ok((key, value)) => self.parts.entries.push(Entry {
                    key,
                    line: number,
                    value,
                }),
                Err(Fault { line, reason }) => {
                    self.fault(line.unwrap_or(number), reason);
                    // The rest of a field that is broken is not a fault of its own.
                    while self
                        .peek()
                        .is_some_and(|line| is_blank(line) || line.starts_with([' ', '\t']))
                    {
                        self.at += 1;
                    }
                }
            }
        }
    }

    fn fault(&mut self, line: usize, reason: String) {
        self.parts.faults.push((line, reason));
    }

    /// Of the next line, in the file: the opening fence is line 1.
    fn number(&self) -> usize {
        self.at + 2
    }

    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    /// The next line that is neither blank nor a comment.
    fn ahead(&self) -> Option<&'a str> {
        self.lines[self.at..]
            .iter()
            .copied()
            .find(|line| !is_blank(line))
    }

    fn entry(&mut self, line: &str) -> Result<(String, Value), Fault> {
        if line.starts_with('\t') {
            return Err("tabs cannot indent".into());
        }
        if line.starts_with(' ') {
            return Err("is indented, and belongs to no field".into());
        }
        if item(line).is_some() {
            return Err("a list item that belongs to no field".into());
        }
        let (key, rest) = scalar::key(line)?;
        let value = self
            .value(rest, 0, true)
            .map_err(|fault| fault.within(&key))?;
        Ok((key, value))
    }

    /// The value that begins with `rest`, of a key indented by `parent`. Only one that may be `deep` holds others.
    fn value(&mut self, rest: &str, parent: usize, deep: bool) -> Result<Value, Fault> {
        let rest = if rest.starts_with('#') { "" } else { rest };
        match rest.chars().next() {
            None => self.below(parent, deep),
            Some(style @ ('|' | '>')) => self.block(style, &rest[1..], parent).map(Value::Text),
            Some('[') if deep => scalar::flow_list(rest).map(Value::List),
            Some('{') if deep => {
                let line = self.at + 1;
                let pairs = scalar::flow_map(rest)?;
                Ok(Value::Map(
                    pairs
                        .into_iter()
                        .map(|(key, value)| (line, key, value))
                        .collect(),
                ))
            }
            Some('"' | '\'') => scalar::quoted(rest).map(Value::Text),
            Some(_) => self.plain(rest, parent),
        }
    }

    /// What stands on the lines under a key that has nothing on its own.
    fn below(&mut self, parent: usize, deep: bool) -> Result<Value, Fault> {
        let Some(next) = self.ahead() else {
            return Ok(Value::Empty);
        };
        let depth = indent(next);
        let is_list = item(next).is_some() && (depth > parent || parent == 0);
        if !is_list && depth <= parent && !next.starts_with('\t') {
            return Ok(Value::Empty);
        }
        if !deep {
            return Err("holds more than a text".into());
        }
        if is_list {
            return self.list(depth);
        }
        if scalar::key(next).is_ok() {
            self.map(depth)
        } else {
            self.plain("", parent)
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, Fault> {
        let mut items = Vec::new();
        while let Some(line) = self.peek() {
            if !is_blank(line) {
                if indent(line) < depth || (depth == 0 && item(line).is_none()) {
                    break;
                }
                let number = self.number();
                let text = item(line).filter(|_| indent(line) == depth);
                let text =
                    text.ok_or_else(|| Fault::from("is no item of the list above").at(number))?;
                items.push(scalar::single(text).map_err(|fault| fault.at(number))?);
            }
            self.at += 1;
        }
        Ok(Value::List(items))
    }

    fn map(&mut self, depth: usize) -> Result<Value, Fault> {
        let mut pairs: Vec<(usize, String, String)> = Vec::new();
        while let Some(line) = self.peek() {
            if is_blank(line) {
                self.at += 1;
                continue;
            }
            if indent(line) == 0 && !line.starts_with('\t') {
                break;
            }
            let number = self.number();
            if indent(line) != depth {
                return Err(Fault::from("is indented unlike the lines above").at(number));
            }
            self.at += 1;
            let (key, rest) = scalar::key(&line[depth..]).map_err(|fault| fault.at(number))?;
            if pairs.iter().any(|(_, other, _)| *other == key) {
                return Err(Fault::from(format!("{key}: is there twice")).at(number));
            }
            let text = match self
                .value(rest, depth, false)
                .map_err(|fault| fault.within(&key).at(number))?
            {
                Value::Text(text) => text,
                _ => String::new(),
            };
            pairs.push((number, key, text));
        }
        Ok(Value::Map(pairs))
    }

    /// A bare text, which goes on over the lines that are indented further.
    fn plain(&mut self, first: &str, parent: usize) -> Result<Value, Fault> {
        let mut text = scalar::plain(first)?.to_owned();
        let mut ended = text.len() != first.trim_end().len();
        let mut breaks = 0;
        while let Some(line) = self.peek() {
            if line.trim().is_empty() {
                breaks += 1;
                self.at += 1;
                continue;
            }
            if indent(line) <= parent {
                break;
            }
            if ended || line.trim_start().starts_with('#') {
                ended = true;
                if line.trim_start().starts_with('#') {
                    self.at += 1;
                    continue;
                }
                return Err(Fault::from("goes on after a comment").at(self.number()));
            }
            let number = self.number();
            let more = line.trim();
            let kept = scalar::continued(more).map_err(|fault| fault.at(number))?;
            ended = kept.len() != more.len();
            match (text.is_empty(), breaks) {
                (true, _) => {}
                (false, 0) => text.push(' '),
                (false, lines) => text.extend(std::iter::repeat_n('\n', lines)),
            }
            breaks = 0;
            text.push_str(kept);
            self.at += 1;
        }
        Ok(
            if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL") {
                Value::Empty
            } else {
                Value::Text(text)
            },
        )
    }

    /// A text of whole lines: `|` keeps their ends, `>` joins them. Line ends after the last are dropped.
    fn block(&mut self, style: char, header: &str, parent: usize) -> Result<String, Fault> {
        let header = header.trim();
        let mark = header.split('#').next().unwrap_or_default().trim_end();
        if !matches!(mark, "" | "-" | "+") {
            return Err(format!(
                "{style}{mark} is not supported; use {style}, {style}- or {style}+"
            )
            .into());
        }
        let mut lines: Vec<&str> = Vec::new();
        let mut depth = None;
        while let Some(line) = self.peek() {
            if line.trim().is_empty() {
                lines.push("");
                self.at += 1;
                continue;
            }
            if line.trim_start_matches(' ').starts_with('\t') && indent(line) <= parent {
                return Err(Fault::from("tabs cannot indent").at(self.number()));
            }
            if indent(line) <= parent {
                break;
            }
            let depth = *depth.get_or_insert(indent(line));
            if indent(line) < depth {
                return Err(Fault::from("is indented less than the lines above").at(self.number()));
            }
            lines.push(&line[depth..]);
            self.at += 1;
        }
        let text = if style == '|' {
            lines.join("\n")
        } else {
            fold(&lines)
        };
        Ok(text.trim_end_matches('\n').to_owned())
    }
}

/// Joins lines with spaces; blank lines become line ends, lines that are indented further keep theirs.
fn fold(lines: &[&str]) -> String {
    let mut text = String::new();
    let mut breaks = 0;
    let mut last_indented = false;
    for line in lines {
        if line.is_empty() {
            breaks += 1;
            continue;
        }
        let indented = line.starts_with([' ', '\t']);
        if !text.is_empty() {
            match breaks {
                0 if indented || last_indented => text.push('\n'),
                0 => text.push(' '),
                _ => text.extend(std::iter::repeat_n('\n', breaks)),
            }
        }
        breaks = 0;
        last_indented = indented;
        text.push_str(line);
    }
    text
}
