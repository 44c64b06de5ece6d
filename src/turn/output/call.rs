//! One call, `{"name": ..., "arguments": {...}}`, read as it is written. Where it ends is where its JSON ends: what its
//! strings hold, end marks too, plays no part.

use serde_json::Value;

use super::OutputEvent;
use crate::harness::tool::json;

const MOST_BYTES: usize = 64 << 10;
const MOST_DEPTH: usize = 64;
/// Keys that hold the arguments.
const ARGUMENTS: &[&str] = &["arguments", "parameters"];

/// What a character did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fed {
    More,
    Whole,
    Malformed(String),
}

/// What comes next inside the outermost object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    #[default]
    Key,
    Colon,
    Value,
    Comma,
}

#[derive(Debug, Default)]
pub(super) struct CallReader {
    text: String,
    depth: usize,
    in_string: bool,
    escaped: bool,
    next: Next,
    /// Where the string, scalar or container being read at the outermost level begins.
    from: usize,
    /// A value is being read at the outermost level.
    in_value: bool,
    key: String,
    name: Option<String>,
    begun: bool,
    /// Where the arguments begin, an object.
    arguments: Option<usize>,
    /// Where they end.
    arguments_end: Option<usize>,
    /// How far they were given away.
    sent: usize,
}

impl CallReader {
    /// All that was written of the call.
    pub(super) fn written(&self) -> &str {
        &self.text
    }

    /// Takes a character; the first is `{`.
    pub(super) fn feed(&mut self, c: char, index: usize, events: &mut Vec<OutputEvent>) -> Fed {
        let at = self.text.len();
        self.text.push(c);
        if self.text.len() > MOST_BYTES {
            return Fed::Malformed(format!("longer than {MOST_BYTES} bytes"));
        }
        if let Err(reason) = self.read(c, at) {
            return Fed::Malformed(reason);
        }
        self.give(index, events);
        if self.depth > 0 {
            return Fed::More;
        }
        match self.close(index, events) {
            Ok(()) => Fed::Whole,
            Err(reason) => Fed::Malformed(reason),
        }
    }

    fn read(&mut self, c: char, at: usize) -> Result<(), String> {
        if self.in_string {
            return self.inside_string(c, at);
        }
        let outermost = self.depth == 1;
        if outermost && self.in_value && matches!(c, ',' | '}') {
            self.end_value(at);
        }
        match c {
            '"' => {
                self.in_string = true;
                if outermost {
                    self.begin_string(at)?;
                }
            }
            '{' | '[' => {
                if outermost {
                    self.begin_value(at)?;
                    if c == '{'
                        && ARGUMENTS.contains(&self.key.as_str())
                        && self.arguments.is_none()
                    {
                        self.arguments = Some(at);
                        self.sent = at;
                    }
                }
                self.depth += 1;
                if self.depth > MOST_DEPTH {
                    return Err(format!("nested more than {MOST_DEPTH} deep"));
                }
            }
            '}' | ']' => {
                self.depth = self
                    .depth
                    .checked_sub(1)
                    .ok_or("closes what was not opened")?;
                if self.depth == 1 {
                    self.end_value(at + 1);
                }
            }
            _ if outermost => self.outermost(c, at)?,
            _ => {}
        }
        Ok(())
    }

    fn inside_string(&mut self, c: char, at: usize) -> Result<(), String> {
        match c {
            _ if self.escaped => self.escaped = false,
            '\\' => self.escaped = true,
            '"' => {
                self.in_string = false;
                if self.depth == 1 {
                    self.end_string(at + 1)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn begin_string(&mut self, at: usize) -> Result<(), String> {
        match self.next {
            Next::Key => self.from = at,
            _ => self.begin_value(at)?,
        }
        Ok(())
    }

    fn end_string(&mut self, end: usize) -> Result<(), String> {
        if self.in_value {
            self.end_value(end);
            return Ok(());
        }
        self.key = serde_json::from_str(&self.text[self.from..end])
            .map_err(|_| "a key that is no string")?;
        self.next = Next::Colon;
        Ok(())
    }

    fn begin_value(&mut self, at: usize) -> Result<(), String> {
        if self.next != Next::Value || self.in_value {
            return Err("a value without its key".to_owned());
        }
        self.from = at;
        self.in_value = true;
        Ok(())
    }

    fn end_value(&mut self, end: usize) {
        if !self.in_value {
            return;
        }
        self.in_value = false;
        self.next = Next::Comma;
        if self.key == "name" && self.name.is_none() {
            self.name = serde_json::from_str(self.text[self.from..end].trim()).ok();
        }
        if self.arguments == Some(self.from) {
            self.arguments_end = Some(end);
        }
    }

    /// A character of the outermost object that is no bracket and no quote.
    fn outermost(&mut self, c: char, at: usize) -> Result<(), String> {
        match (self.next, c) {
            (_, c) if c.is_ascii_whitespace() => Ok(()),
            (Next::Colon, ':') => {
                self.next = Next::Value;
                Ok(())
            }
            (Next::Comma, ',') => {
                self.next = Next::Key;
                Ok(())
            }
            (Next::Value, _) if self.in_value => Ok(()),
            (Next::Value, _) => self.begin_value(at),
            _ => Err(format!("{c:?} where it cannot stand")),
        }
    }

    /// Gives away what is known: the name once it is, then the arguments as they come.
    fn give(&mut self, index: usize, events: &mut Vec<OutputEvent>) {
        let Some(name) = &self.name else {
            return;
        };
        if !self.begun {
            self.begun = true;
            events.push(OutputEvent::CallBegin {
                index,
                name: name.clone(),
            });
        }
        let end = self.arguments_end.unwrap_or(self.text.len());
        if self.arguments.is_some() && self.sent < end {
            add(index, &self.text[self.sent..end], events);
            self.sent = end;
        }
    }

    /// The object is closed: is it a call?
    fn close(&self, index: usize, events: &mut Vec<OutputEvent>) -> Result<(), String> {
        let value = json::parse(self.text.as_bytes()).map_err(|fault| fault.reason)?;
        let name = value
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !self.begun || name.is_empty() {
            return Err("it has no name".to_owned());
        }
        let mut given = ARGUMENTS.iter().filter_map(|key| value.get(*key));
        let arguments = given.next();
        if given.next().is_some() {
            return Err("it has arguments and parameters".to_owned());
        }
        match arguments {
            Some(Value::Object(_)) => {}
            None | Some(Value::Null) => add(index, "{}", events),
            Some(Value::String(text)) if is_object(text) => add(index, text, events),
            Some(_) => return Err("its arguments are no object".to_owned()),
        }
        events.push(OutputEvent::CallEnd { index });
        Ok(())
    }
}

fn is_object(text: &str) -> bool {
    matches!(json::parse(text.as_bytes()), Ok(Value::Object(_)))
}

fn add(index: usize, new: &str, events: &mut Vec<OutputEvent>) {
    match events.last_mut() {
        Some(OutputEvent::Arguments { index: last, delta }) if *last == index => {
            delta.push_str(new)
        }
        _ => events.push(OutputEvent::Arguments {
            index,
            delta: new.to_owned(),
        }),
    }
}
