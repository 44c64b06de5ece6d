//! From a rendering with marks to tokens and sections.

use super::marks::{Edge, Marks};
use super::{Prompt, Section};
use crate::tokenizer::{TokenId, Tokenizer};

/// Encodes a rendering in which content is cut: what still spells an added token is markup.
///
/// Ordinary text between two added tokens is encoded in one piece, whatever it is made of, as the reference does.
pub(super) fn encode(
    tokenizer: &Tokenizer,
    marks: &Marks<'_>,
    text: &str,
    edges: &[Edge],
) -> Prompt {
    let mut assembly = Assembly {
        tokenizer,
        marks,
        text,
        edges,
        tokens: Vec::with_capacity(text.len() / 3 + 1),
        places: Vec::with_capacity(edges.len()),
    };
    let mut rest = 0;
    for (range, token) in tokenizer.find_added(text) {
        assembly.ordinary(rest, range.start);
        assembly.added(range.end, token);
        rest = range.end;
    }
    assembly.ordinary(rest, text.len());
    let sections = sections(edges, &assembly.places);
    Prompt {
        tokens: assembly.tokens,
        sections,
    }
}

struct Assembly<'a> {
    tokenizer: &'a Tokenizer,
    marks: &'a Marks<'a>,
    text: &'a str,
    edges: &'a [Edge],
    tokens: Vec<TokenId>,
    /// The first token at or after each edge, for the edges passed so far.
    places: Vec<usize>,
}

impl Assembly<'_> {
    /// A stretch of ordinary text.
    fn ordinary(&mut self, start: usize, end: usize) {
        let clean = self.marks.clean(&self.text[start..end]);
        let encoded = if start == 0 {
            self.tokenizer.encode(&clean)
        } else {
            self.tokenizer.encode_continued(&clean)
        };
        // Both are counted in bytes that have tokens, so that bytes without one shift nothing. What the tokens have
        // more than the text is a space in front.
        let bytes = |token: &TokenId| self.tokenizer.token_bytes(*token).len();
        let all: usize = encoded.iter().map(bytes).sum();
        let in_front = all.saturating_sub(self.tokenizer.encoded_len(&clean));
        let (mut from, mut edge_at) = (start, 0);
        let (mut token, mut token_at) = (0, 0);
        while let Some(edge) = self
            .edges
            .get(self.places.len())
            .filter(|edge| edge.at <= end)
        {
            let to = edge.at.max(from);
            edge_at += self
                .tokenizer
                .encoded_len(&self.marks.clean(&self.text[from..to]));
            from = to;
            // A content that nothing comes before begins with that space.
            let wanted = if edge_at == 0 { 0 } else { in_front + edge_at };
            while token_at < wanted && token < encoded.len() {
                token_at += bytes(&encoded[token]);
                token += 1;
            }
            self.places.push(self.tokens.len() + token);
        }
        self.tokens.extend(encoded);
    }

    /// An added token that ends at `end`.
    fn added(&mut self, end: usize, token: TokenId) {
        while self
            .edges
            .get(self.places.len())
            .is_some_and(|edge| edge.at < end)
        {
            self.places.push(self.tokens.len());
        }
        self.tokens.push(token);
    }
}

/// Pairs the edges of each message; of a content that the template repeats, the first place.
fn sections(edges: &[Edge], places: &[usize]) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut opened: Option<(usize, usize)> = None;
    for (edge, &place) in edges.iter().zip(places) {
        if edge.open {
            opened = Some((edge.message, place));
            continue;
        }
        let Some((message, start)) = opened
            .take()
            .filter(|(message, _)| *message == edge.message)
        else {
            continue;
        };
        if sections.iter().all(|section| section.message != message) {
            let end = place.max(start);
            sections.push(Section {
                message,
                start,
                end,
            });
        }
    }
    sections.sort_by_key(|section| section.message);
    sections
}
