//! What a model writes, taken apart while it is being written: reasoning, tool calls and text, in one machine, so that
//! no two parsers disagree. Character by character: how the text was chunked changes nothing. Reasoning and calls are
//! never text; what is left half done is an error, and nothing comes after an error.

mod call;
mod format;

use std::collections::BTreeSet;

use self::call::{CallReader, Fed};
pub use self::format::Format;
use self::format::Marks;

const THINK: &str = "<think>";
const THINK_END: &str = "</think>";
/// A shorter beginning of a mark at the end of an answer is text.
const LEAST_MARK: usize = 3;

/// A piece of what a model wrote, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputEvent {
    /// To be said or shown.
    Text(String),
    /// Never to be said.
    Reasoning(String),
    /// A call begins; indices count from 0.
    CallBegin {
        /// Its place among the calls.
        index: usize,
        /// The tool's name.
        name: String,
    },
    /// More of its arguments, byte for byte as written; joined they are one JSON object.
    Arguments {
        /// The call.
        index: usize,
        /// What is new.
        delta: String,
    },
    /// The call is whole, and its arguments are JSON.
    CallEnd {
        /// The call.
        index: usize,
    },
    /// The answer cannot be used from here on; nothing follows.
    Error(OutputError),
}

/// Why an answer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutputError {
    /// Reasoning never ended.
    #[error("the reasoning was not closed")]
    UnclosedReasoning,
    /// Reasoning ended that had not begun: what came before it may have been reasoning.
    #[error("reasoning was closed that had not been opened")]
    UnopenedReasoning,
    /// The answer ended inside a call or a mark.
    #[error("the tool call is half written")]
    HalfCall {
        /// What was there.
        text: String,
    },
    /// What stands where a call should is none.
    #[error("the tool call is malformed: {reason}")]
    MalformedCall {
        /// What was there.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl OutputError {
    /// Which it is, without what was there.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::UnclosedReasoning => "unclosed_reasoning",
            Self::UnopenedReasoning => "unopened_reasoning",
            Self::HalfCall { .. } => "half_call",
            Self::MalformedCall { .. } => "malformed_call",
        }
    }
}

/// The state between two pieces of text.
#[derive(Debug)]
pub struct Output {
    marks: &'static Marks,
    /// Names that bare JSON may call.
    tools: BTreeSet<String>,
    state: State,
    /// What may become a mark.
    held: String,
    /// Space after a mark belongs to it.
    skip_space: bool,
    /// Nothing but space was written yet.
    at_start: bool,
    calls: usize,
    events: Vec<OutputEvent>,
}

#[derive(Debug)]
enum State {
    Text,
    Reasoning,
    /// Between and inside calls of one block.
    Calls(Block),
    /// An answer that begins with `{`: calls or text, decided at its end.
    Bare(String),
    /// After an error.
    Over,
}

#[derive(Debug, Default)]
struct Block {
    call: Option<CallReader>,
    /// Calls of this block that are whole.
    whole: usize,
    /// A list was opened, or closed again.
    list: List,
    /// What stands between calls and may become the end mark.
    between: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum List {
    #[default]
    Before,
    Open,
    Closed,
}

impl Output {
    /// An empty answer. `thinking` tells that the prompt has already opened the reasoning; `tools` are the names on
    /// offer.
    #[must_use]
    pub fn new(format: Format, thinking: bool, tools: impl IntoIterator<Item = String>) -> Self {
        Self {
            marks: format.marks(),
            tools: tools.into_iter().collect(),
            state: if thinking {
                State::Reasoning
            } else {
                State::Text
            },
            held: String::new(),
            skip_space: false,
            at_start: true,
            calls: 0,
            events: Vec::new(),
        }
    }

    /// Adds text; gives what is decided by it.
    pub fn push(&mut self, text: &str) -> Vec<OutputEvent> {
        for c in text.chars() {
            self.step(c);
        }
        std::mem::take(&mut self.events)
    }

    /// The answer is whole; gives what was left, or the error that it ended too early.
    #[must_use]
    pub fn finish(mut self) -> Vec<OutputEvent> {
        if let State::Bare(text) = &mut self.state {
            let text = std::mem::take(text);
            self.finish_bare(&text);
        }
        match std::mem::replace(&mut self.state, State::Over) {
            State::Text => {
                let held = std::mem::take(&mut self.held);
                if held.chars().count() >= LEAST_MARK {
                    self.fail(OutputError::HalfCall { text: held });
                } else {
                    held.chars().for_each(|c| self.text(c));
                }
            }
            State::Reasoning => self.fail(OutputError::UnclosedReasoning),
            State::Calls(block) => self.finish_block(block),
            State::Bare(_) | State::Over => {}
        }
        self.events
    }

    fn step(&mut self, c: char) {
        match &mut self.state {
            State::Text if self.at_start && self.marks.bare && c == '{' && self.held.is_empty() => {
                self.state = State::Bare(c.to_string());
            }
            State::Text | State::Reasoning => {
                self.held.push(c);
                self.settle();
            }
            State::Calls(_) => self.block(c),
            State::Bare(text) => text.push(c),
            State::Over => {}
        }
    }

    /// Gives away what can no longer become a mark, and acts on a mark that is whole.
    fn settle(&mut self) {
        while !self.held.is_empty() {
            let reasoning = matches!(self.state, State::Reasoning);
            let marks: &[&str] = if reasoning {
                &[THINK_END]
            } else {
                self.marks.in_text
            };
            if let Some(mark) = marks.iter().find(|mark| **mark == self.held) {
                self.held.clear();
                self.mark(mark);
                return;
            }
            if marks.iter().any(|mark| mark.starts_with(&self.held)) {
                return;
            }
            let first = self.held.remove(0);
            if reasoning {
                self.reasoning(first);
            } else {
                self.text(first);
            }
        }
    }

    fn mark(&mut self, mark: &str) {
        self.skip_space = true;
        match (mark, &self.state) {
            (THINK_END, State::Reasoning) => self.state = State::Text,
            (THINK_END, _) => self.fail(OutputError::UnopenedReasoning),
            (THINK, _) => self.state = State::Reasoning,
            _ if self.marks.silent.contains(&mark) => {}
            _ => self.state = State::Calls(Block::default()),
        }
    }

    fn text(&mut self, c: char) {
        if c.is_whitespace() && self.skip_space {
            return;
        }
        self.at_start &= c.is_whitespace();
        self.skip_space = false;
        match self.events.last_mut() {
            Some(OutputEvent::Text(text)) => text.push(c),
            _ => self.events.push(OutputEvent::Text(c.to_string())),
        }
    }

    fn reasoning(&mut self, c: char) {
        match self.events.last_mut() {
            Some(OutputEvent::Reasoning(text)) => text.push(c),
            _ => self.events.push(OutputEvent::Reasoning(c.to_string())),
        }
    }

    fn fail(&mut self, error: OutputError) {
        self.events.push(OutputEvent::Error(error));
        self.state = State::Over;
        self.held.clear();
    }

    /// A character between or inside the calls of a block.
    fn block(&mut self, c: char) {
        let State::Calls(block) = &mut self.state else {
            return;
        };
        if let Some(call) = &mut block.call {
            match call.feed(c, self.calls, &mut self.events) {
                Fed::More => {}
                Fed::Whole => {
                    block.call = None;
                    block.whole += 1;
                    self.calls += 1;
                }
                Fed::Malformed(reason) => {
                    let text = call.written().to_owned();
                    self.fail(OutputError::MalformedCall { text, reason });
                }
            }
            return;
        }
        if block.between.is_empty()
            && (c.is_whitespace() || (block.whole > 0 && self.marks.separators.contains(c)))
        {
            return;
        }
        let opens_list = self.marks.list && block.list == List::Before;
        let may_call = !self.marks.list || block.list == List::Open;
        match c {
            '[' if opens_list && block.between.is_empty() => block.list = List::Open,
            ']' if block.list == List::Open && block.between.is_empty() => {
                block.list = List::Closed
            }
            '{' if may_call && block.between.is_empty() => {
                let mut call = CallReader::default();
                call.feed(c, self.calls, &mut self.events);
                block.call = Some(call);
            }
            _ => self.between(c),
        }
    }

    /// A character that must belong to the mark that ends the block.
    fn between(&mut self, c: char) {
        let State::Calls(block) = &mut self.state else {
            return;
        };
        block.between.push(c);
        if self.marks.ends.contains(&block.between.as_str()) {
            if block.whole == 0 {
                let text = block.between.clone();
                return self.fail(OutputError::MalformedCall {
                    text,
                    reason: "there is no call in it".to_owned(),
                });
            }
            self.skip_space = true;
            self.state = State::Text;
        } else if !self
            .marks
            .ends
            .iter()
            .any(|end| end.starts_with(&block.between))
        {
            let text = block.between.clone();
            self.fail(OutputError::MalformedCall {
                text,
                reason: "neither a call nor its end".to_owned(),
            });
        }
    }

    fn finish_block(&mut self, block: Block) {
        match block.call {
            Some(call) => self.fail(OutputError::HalfCall {
                text: call.written().to_owned(),
            }),
            None if block.whole == 0 => self.fail(OutputError::HalfCall {
                text: block.between,
            }),
            // The end mark itself may be what ended the generation.
            None => {}
        }
    }

    /// Calls of offered tools and nothing else are calls; anything else is text.
    fn finish_bare(&mut self, text: &str) {
        if let Some(events) = self.bare_calls(text) {
            self.events.extend(events);
            self.state = State::Over;
        } else if self.looks_cut(text) {
            let text = text.to_owned();
            self.fail(OutputError::HalfCall { text });
        } else {
            // Text like any other, with marks of its own.
            self.at_start = false;
            self.state = State::Text;
            text.chars().for_each(|c| self.step(c));
        }
    }

    fn bare_calls(&self, text: &str) -> Option<Vec<OutputEvent>> {
        let mut events = Vec::new();
        let mut index = 0;
        let mut call: Option<CallReader> = None;
        for c in text.chars() {
            match &mut call {
                Some(reader) => match reader.feed(c, index, &mut events) {
                    Fed::More => {}
                    Fed::Whole => {
                        call = None;
                        index += 1;
                    }
                    Fed::Malformed(_) => return None,
                },
                None if c == '{' => {
                    let reader = call.insert(CallReader::default());
                    reader.feed(c, index, &mut events);
                }
                None if c.is_whitespace() || self.marks.separators.contains(c) => {}
                None => return None,
            }
        }
        let offered = |event: &OutputEvent| match event {
            OutputEvent::CallBegin { name, .. } => self.tools.contains(name),
            _ => true,
        };
        (call.is_none() && index > 0 && events.iter().all(offered)).then_some(events)
    }

    /// The beginning of a call to an offered tool.
    fn looks_cut(&self, text: &str) -> bool {
        let mut reader = CallReader::default();
        let mut events = Vec::new();
        let open = text
            .chars()
            .all(|c| matches!(reader.feed(c, 0, &mut events), Fed::More));
        let named = events.iter().any(|event| matches!(event, OutputEvent::CallBegin { name, .. } if self.tools.contains(name)));
        open && named
    }
}

#[cfg(test)]
mod tests;
