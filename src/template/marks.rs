//! Marks that keep content apart from markup through a rendering, and come out again afterwards.
//!
//! A *cut* breaks every spelling of an added token that content could be part of: it follows each character of the
//! content that starts a spelling and comes before each that ends one. So no spelling that begins or ends in content
//! is whole, wherever a template puts the content or a piece of it. Content that is itself the middle of a spelling
//! gets a cut too. *Edges* say where the content of a message begins and ends; they stand inside its white space,
//! so that trimming works as ever.
//!
//! All marks are characters that occur neither in the conversation nor in the template.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use crate::tokenizer::Tokenizer;

/// Characters that spellings of added tokens begin and end with.
#[derive(Debug)]
pub(super) struct Cutter {
    first: HashSet<char>,
    last: HashSet<char>,
    /// Spellings of a single character, which no cut can break; content has stand-ins for them.
    single: Vec<char>,
    spellings: Vec<String>,
}

impl Cutter {
    /// Looks at all added tokens. White space is left alone: it is no control token, and templates trim it.
    pub(super) fn new(tokenizer: &Tokenizer) -> Self {
        let added = tokenizer.added_tokens().into_iter();
        let spellings: Vec<String> = added
            .filter(|spelling| !spelling.trim().is_empty())
            .map(str::to_owned)
            .collect();
        let (longer, single): (Vec<&String>, Vec<&String>) = spellings
            .iter()
            .partition(|spelling| spelling.chars().nth(1).is_some());
        Self {
            first: longer
                .iter()
                .filter_map(|spelling| spelling.chars().next())
                .collect(),
            last: longer
                .iter()
                .filter_map(|spelling| spelling.chars().next_back())
                .collect(),
            single: single
                .iter()
                .filter_map(|spelling| spelling.chars().next())
                .collect(),
            spellings,
        }
    }
}

/// The marks of one rendering.
#[derive(Debug)]
pub(super) struct Marks<'a> {
    cutter: &'a Cutter,
    cut: char,
    open: char,
    close: char,
    stand_ins: HashMap<char, char>,
    originals: HashMap<char, char>,
}

/// Where the content of a message begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    /// Index of the message.
    pub(super) message: usize,
    /// In bytes of the text without edges, but with cuts.
    pub(super) at: usize,
    /// Whether the content begins here.
    pub(super) open: bool,
}

impl<'a> Marks<'a> {
    /// Chooses marks that none of `texts` holds.
    pub(super) fn new<'t>(
        cutter: &'a Cutter,
        texts: impl Iterator<Item = &'t str> + Clone,
    ) -> Self {
        let mut unused = unused(texts);
        let mut next = || {
            unused
                .next()
                .expect("there are more characters than a conversation may hold")
        };
        let (cut, open, close) = (next(), next(), next());
        let stand_ins: HashMap<char, char> = cutter.single.iter().map(|&c| (c, next())).collect();
        let originals = stand_ins
            .iter()
            .map(|(&original, &c)| (c, original))
            .collect();
        Self {
            cutter,
            cut,
            open,
            close,
            stand_ins,
            originals,
        }
    }

    /// Content that spells no added token.
    pub(super) fn cut(&self, content: &str) -> String {
        let mut text = String::with_capacity(content.len() + 16);
        if self.is_within_a_spelling(content.trim()) {
            let spaces = content.len() - content.trim_start().len();
            text.push_str(&content[..spaces]);
            text.push(self.cut);
            text.push_str(&content[spaces..]);
            return text;
        }
        for c in content.chars() {
            if self.cutter.last.contains(&c) {
                text.push(self.cut);
            }
            text.push(self.stand_ins.get(&c).copied().unwrap_or(c));
            if self.cutter.first.contains(&c) {
                text.push(self.cut);
            }
        }
        text
    }

    fn is_within_a_spelling(&self, content: &str) -> bool {
        let inner = |spelling: &str| {
            let mut chars = spelling.chars();
            chars.next();
            chars.next_back();
            chars.as_str().contains(content)
        };
        !content.is_empty() && self.cutter.spellings.iter().any(|spelling| inner(spelling))
    }

    /// Cut content between its edges; blank content has none.
    pub(super) fn edged(&self, message: usize, cut: &str) -> String {
        let inner = cut.trim();
        if inner.is_empty() {
            return cut.to_owned();
        }
        let start = cut.len() - cut.trim_start().len();
        let (before, after) = (&cut[..start], &cut[start + inner.len()..]);
        let (open, close) = (self.open, self.close);
        format!("{before}{open}{message}{open}{inner}{close}{message}{close}{after}")
    }

    /// Takes the edges out of a rendering. Edges that the template broke are lost.
    pub(super) fn take_edges(&self, rendered: &str) -> (String, Vec<Edge>) {
        let mut text = String::with_capacity(rendered.len());
        let mut edges = Vec::new();
        let mut rest = rendered;
        while let Some(at) = rest.find([self.open, self.close]) {
            text.push_str(&rest[..at]);
            let open = rest[at..].starts_with(self.open);
            let mark = if open { self.open } else { self.close };
            rest = &rest[at + mark.len_utf8()..];
            let Some((index, after)) = rest.split_once(mark) else {
                continue;
            };
            if let Ok(message) = index.parse() {
                let at = text.len();
                edges.push(Edge { message, at, open });
                rest = after;
            }
        }
        text.push_str(rest);
        (text, edges)
    }

    /// The text that was meant, without cuts and stand-ins.
    pub(super) fn clean(&self, text: &str) -> String {
        let kept = text.chars().filter(|&c| c != self.cut);
        kept.map(|c| self.originals.get(&c).copied().unwrap_or(c))
            .collect()
    }

    /// As [`Marks::clean`], of a message that may also hold edges.
    pub(super) fn clean_all(&self, text: &str) -> String {
        self.clean(&self.take_edges(text).0)
    }
}

/// Characters that Unicode says never are in a text.
pub(super) const NEVER: RangeInclusive<char> = '\u{FDD0}'..='\u{FDEF}';
/// The planes without assignments, and all after them.
pub(super) const UNASSIGNED: RangeInclusive<char> = '\u{40000}'..='\u{10FFFD}';

/// Characters that no text holds: those that Unicode says never are in a text, then all from the planes without
/// assignments on.
fn unused<'t>(texts: impl Iterator<Item = &'t str> + Clone) -> impl Iterator<Item = char> {
    let is_candidate = |c: &char| NEVER.contains(c) || UNASSIGNED.contains(c);
    let used: HashSet<char> = texts.flat_map(str::chars).filter(is_candidate).collect();
    NEVER.chain(UNASSIGNED).filter(move |c| !used.contains(c))
}
