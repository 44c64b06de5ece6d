//! Puts checks round the operands of `*`, `+` and `~` in the code of a template.
//!
//! `a * b` becomes `_times(a , b)`, which refuses long repetitions; the operands of `+` and `~` go through the filters
//! `_addend` and `_text`, which refuse long values. Filters bind tighter than any operator, so that only the ends of
//! the operands have to be found, not the structure of the expression.

use super::code::{Kind, Token, tokens};

/// Function in place of `*`.
pub(super) const TIMES: &str = "_times";
/// Filter on the operands of `+`.
pub(super) const ADDEND: &str = "_addend";
/// Filter on the operands of `~`.
pub(super) const TEXT: &str = "_text";

/// The same code with its operands checked.
pub(super) fn guard(code: &str) -> String {
    if !code.contains(['*', '+', '~']) {
        return code.to_owned();
    }
    let tokens = tokens(code);
    let mut edits = Vec::new();
    for at in 1..tokens.len().saturating_sub(1) {
        if !tokens[at - 1].ends_operand() {
            continue;
        }
        match tokens[at].text {
            "*" => {
                let end = tokens[operand_end(&tokens, at + 1)].end();
                edits.push(Edit::insert(
                    tokens[product_start(&tokens, at - 1)].start,
                    "_times(",
                ));
                edits.push(Edit::replace(tokens[at].start, 1, ","));
                edits.push(Edit::insert(end, ")"));
            }
            "+" => wrap(&tokens, at, "|_addend", &mut edits),
            "~" => wrap(&tokens, at, "|_text", &mut edits),
            _ => {}
        }
    }
    apply(code, edits)
}

/// A filter on both operands of the operator at `at`.
fn wrap(tokens: &[Token<'_>], at: usize, filter: &'static str, edits: &mut Vec<Edit>) {
    edits.push(Edit::insert(tokens[at - 1].end(), filter));
    let end = tokens[operand_end(tokens, at + 1)].end();
    edits.push(Edit::insert(end, filter));
}

/// A change of the code: `cut` bytes at `at` give way to `text`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Edit {
    at: usize,
    cut: usize,
    text: &'static str,
}

impl Edit {
    fn insert(at: usize, text: &'static str) -> Self {
        Self::replace(at, 0, text)
    }

    fn replace(at: usize, cut: usize, text: &'static str) -> Self {
        Self { at, cut, text }
    }
}

fn apply(code: &str, mut edits: Vec<Edit>) -> String {
    // A filter belongs to its operand and comes before the bracket that ends a product there.
    edits.sort_by_key(|edit| (edit.at, edit.cut, edit.text == ")"));
    let mut result = String::with_capacity(code.len() + edits.len() * 10);
    let (mut rest, mut before) = (0, None);
    for edit in edits {
        // The operand between two equal operators is checked once.
        if edit.text.starts_with('|') && before == Some(edit) {
            continue;
        }
        result.push_str(&code[rest..edit.at]);
        result.push_str(edit.text);
        rest = edit.at + edit.cut;
        before = Some(edit);
    }
    result.push_str(&code[rest..]);
    result
}

/// Index of the last token of the operand that starts at `at`: signs, then a literal, name or bracket, then calls,
/// indices, attributes, filters and powers.
fn operand_end(tokens: &[Token<'_>], mut at: usize) -> usize {
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
fn product_start(tokens: &[Token<'_>], mut at: usize) -> usize {
    loop {
        let mut start = opening(tokens, at);
        let ends = |index: usize| {
            index
                .checked_sub(1)
                .is_some_and(|left| tokens[left].ends_operand())
        };
        while start > 0 && tokens[start - 1].text == "-" && !ends(start - 1) {
            start -= 1;
        }
        let Some(before) = start.checked_sub(1) else {
            return start;
        };
        let postfix = matches!(tokens[start].text, "(" | "[") && ends(start);
        let joined = matches!(
            tokens[before].text,
            "." | "|" | "*" | "/" | "//" | "%" | "**"
        ) && ends(before);
        at = match (postfix, joined) {
            (true, _) => before,
            (false, true) => before - 1,
            (false, false) => return start,
        };
    }
}

/// The bracket that closes the one at `at`; `at` itself for other tokens.
fn closing(tokens: &[Token<'_>], at: usize) -> usize {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_found_whatever_they_are_made_of() {
        let cases = [
            ("a * b", "_times(a , b)"),
            ("a * b * c", "_times(_times(a , b) , c)"),
            (
                "-a[1:2] * f(x * 2, '*').y|z(3) - 1",
                "_times(-a[1:2] , f(_times(x , 2), '*').y|z(3)) - 1",
            ),
            (
                "x - a / 2 * -b ** 2 + c",
                "x - _times(a / 2 , -b ** 2|_addend) + c|_addend",
            ),
            (
                "'a' + m['c'] + g.h()|trim",
                "'a'|_addend + m['c']|_addend + g.h()|trim|_addend",
            ),
            ("if (a ~ b) in c", "if (a|_text ~ b|_text) in c"),
            ("a ~ 1.5 + 2", "a|_text ~ 1.5|_text|_addend + 2|_addend"),
            ("f(*args, **more)", "f(*args, **more)"),
            (
                "set x = [1] + [2, {'a': 3}]",
                "set x = [1]|_addend + [2, {'a': 3}]|_addend",
            ),
            ("a ** b // c == d", "a ** b // c == d"),
            ("for x in (a) * 2", "for x in _times((a) , 2)"),
            ("a +", "a +"),
            ("* ( + ]", "* ( + ]"),
        ];
        for (code, guarded) in cases {
            assert_eq!(guard(code), guarded);
        }
    }
}
