//! Where the operands of an operator begin and end in the code of a template.

use super::code::{Kind, Token};

/// Index of the last token of the operand that starts at `at`: signs, then a literal, name or bracket, then calls,
/// indices, attributes, filters and powers.
pub(super) fn operand_end(tokens: &[Token<'_>], mut at: usize) -> usize {
    let last = tokens.len() - 1;
    loop {
        while at < last && (tokens[at].text == "-" || tokens[at].text == "not") {
            at += 1;
        }
        at = closing(tokens, at);
        while at < last {
            match tokens[at + 1].text {
                "." | "|" if at + 2 <= last => at += 2,
                "(" | "[" => at = closing(tokens, at + 1),
                _ => break,
            }
        }
        if at + 2 > last || tokens[at + 1].text != "**" {
            return at;
        }
        at += 2;
    }
}

/// Index of the first token of the product whose last token is at `at`, its signs included: to the engine, a sign
/// belongs to the name after it and not to what the name is called or indexed with.
pub(super) fn product_start(tokens: &[Token<'_>], mut at: usize) -> usize {
    loop {
        let mut start = postfix_start(tokens, at);
        while start > 0 && tokens[start - 1].text == "-" && !ends_before(tokens, start - 1) {
            start -= 1;
        }
        let joined = |before: usize| matches!(tokens[before].text, "*" | "/" | "//" | "%" | "**");
        if start == 0 || !joined(start - 1) || !ends_before(tokens, start - 1) {
            return start;
        }
        at = start - 2;
    }
}

/// Index of the first token of a name, literal or bracket with the calls, indices, attributes and filters on it,
/// whose last token is at `at`.
pub(super) fn postfix_start(tokens: &[Token<'_>], mut at: usize) -> usize {
    loop {
        let start = opening(tokens, at);
        if !ends_before(tokens, start)
            && (start == 0 || !matches!(tokens[start - 1].text, "." | "|"))
        {
            return start;
        }
        let dotted = matches!(tokens[start - 1].text, "." | "|") && ends_before(tokens, start - 1);
        at = match tokens[start].text {
            "(" | "[" if ends_before(tokens, start) => start - 1,
            _ if dotted => start - 2,
            _ => return start,
        };
    }
}

/// Whether an operand ends right before the token at `at`.
fn ends_before(tokens: &[Token<'_>], at: usize) -> bool {
    at.checked_sub(1)
        .is_some_and(|before| tokens[before].ends_operand())
}

/// The bracket that closes the one at `at`; `at` itself for other tokens.
pub(super) fn closing(tokens: &[Token<'_>], at: usize) -> usize {
    matching(tokens, at..tokens.len(), Kind::Open, Kind::Close).unwrap_or(at)
}

/// The bracket that opens the one at `at`; `at` itself for other tokens.
fn opening(tokens: &[Token<'_>], at: usize) -> usize {
    matching(tokens, (0..=at).rev(), Kind::Close, Kind::Open).unwrap_or(at)
}

/// Where the bracket at the start of `path` has its partner.
fn matching(
    tokens: &[Token<'_>],
    path: impl Iterator<Item = usize>,
    deeper: Kind,
    back: Kind,
) -> Option<usize> {
    let mut depth = 0_usize;
    for index in path {
        if tokens[index].kind == deeper {
            depth += 1;
        } else if depth > 0 && tokens[index].kind == back {
            depth -= 1;
        }
        if depth == 0 {
            return Some(index);
        }
    }
    None
}
