//! Puts checks round what makes large or deep values in the code of a template: operators, literals and slices.
//!
//! `a * b` becomes `_times(a , b)`, which refuses long repetitions; the operands of `+` and `~` go through the filters
//! `_addend` and `_text`, which refuse long values, and so do lists, mappings and tuples, which refuse deep ones: a
//! value that holds itself thousands deep would exhaust the stack when it is dropped. Slices become lists of their own.
//! Filters bind tighter than any operator, so that only the ends of the operands have to be found, not the structure
//! of the expression.

use super::code::{Kind, Token, tokens};
use super::operands::{closing, operand_end, postfix_start, product_start};

/// Function in place of `*`.
pub(super) const TIMES: &str = "_times";
/// Filter on the operands of `+`.
pub(super) const ADDEND: &str = "_addend";
/// Filter on slices.
pub(super) const LISTED: &str = "_listed";
/// Filter on the operands of `~`.
pub(super) const TEXT: &str = "_text";

/// The same code with its operands checked.
pub(super) fn guard(code: &str) -> String {
    if !code.contains(['*', '+', '~', '[', '{', '(']) {
        return code.to_owned();
    }
    let tokens = tokens(code);
    let mut edits = Vec::new();
    for at in 0..tokens.len() {
        if tokens[at].kind == Kind::Open {
            guard_brackets(&tokens, at, &mut edits);
        } else if at > 0 && at + 1 < tokens.len() && tokens[at - 1].ends_operand() {
            guard_operator(&tokens, at, &mut edits);
        }
    }
    apply(code, edits)
}

fn guard_operator(tokens: &[Token<'_>], at: usize, edits: &mut Vec<Edit>) {
    match tokens[at].text {
        "*" => {
            let end = tokens[operand_end(tokens, at + 1)].end();
            let start = tokens[product_start(tokens, at - 1)].start;
            edits.push(Edit::insert(start, "_times("));
            edits.push(Edit::replace(tokens[at].start, 1, ","));
            edits.push(Edit::insert(end, ")"));
        }
        "+" => wrap(tokens, at, "|_addend", edits),
        "~" => wrap(tokens, at, "|_text", edits),
        _ => {}
    }
}

/// Checks a literal or a slice that opens at `at`.
fn guard_brackets(tokens: &[Token<'_>], at: usize, edits: &mut Vec<Edit>) {
    let close = closing(tokens, at);
    if close == at {
        return;
    }
    let after_operand = at > 0 && tokens[at - 1].ends_operand();
    let has = |text: &str| at_top_level(&tokens[at + 1..close]).any(|token| token.text == text);
    let (start, filter) = match (tokens[at].text, after_operand) {
        ("[", true) if has(":") => (postfix_start(tokens, at - 1), "|_listed)"),
        ("[" | "{", false) => (at, "|_addend)"),
        ("(", false) if has(",") && !is_target(tokens, at, close) => (at, "|_addend)"),
        _ => return,
    };
    if filter == "|_listed)" || tokens[at + 1..close].iter().any(Token::is_name) {
        edits.push(Edit::insert(tokens[start].start, "("));
        edits.push(Edit::insert(tokens[close].end(), filter));
    }
}

/// The tokens that are in no brackets of their own.
fn at_top_level<'a, 't>(tokens: &'t [Token<'a>]) -> impl Iterator<Item = &'t Token<'a>> {
    let mut depth = 0_usize;
    tokens.iter().filter(move |token| {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })
}

/// Whether the names in brackets are given values here, as in `for (a, b) in c`.
fn is_target(tokens: &[Token<'_>], at: usize, close: usize) -> bool {
    let before = at.checked_sub(1).map_or("", |before| tokens[before].text);
    let after = tokens.get(close + 1).map_or("", |after| after.text);
    matches!(before, "for" | "set" | "call") || matches!(after, "in" | "=")
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

    /// Which of the edits at one place is first: of those that open, the outer one; of those that close, the inner.
    fn order(&self) -> u8 {
        match self.text {
            "_times(" | "|_listed)" | "|_addend)" => 0,
            ")" => 2,
            _ => 1,
        }
    }
}

fn apply(code: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| (edit.at, edit.cut, edit.order()));
    let mut result = String::with_capacity(code.len() + edits.len() * 10);
    let (mut rest, mut before) = (0, None);
    for edit in edits {
        // The operand between two equal operators is checked once.
        if edit.order() == 1 && edit.text.starts_with('|') && before == Some(edit) {
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
                "_times(-(a[1:2]|_listed) , f(_times(x , 2), '*').y|z(3)) - 1",
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
                "set x = [a] + {'b': [c]}.b",
                "set x = ([a]|_addend)|_addend + ({'b': ([c]|_addend)}|_addend).b|_addend",
            ),
            (
                "m[1:][0].x[::-1] * 2",
                "_times(((m[1:]|_listed)[0].x[::-1]|_listed) , 2)",
            ),
            (
                "for a, (b, c) in (d, e)",
                "for a, (b, c) in ((d, e)|_addend)",
            ),
            (
                "f((a), (b, 1), [for_, x[0]])",
                "f((a), ((b, 1)|_addend), ([for_, x[0]]|_addend))",
            ),
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
