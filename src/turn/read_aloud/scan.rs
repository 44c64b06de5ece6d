//! Walks over a text and lets the first rule that knows what stands at a place say it.

use std::borrow::Cow;

use regex::{Captures, Regex};
use unicode_normalization::UnicodeNormalization as _;

/// What a rule may know of its place besides the match.
pub(super) struct Place<'a> {
    /// Before the match, as written.
    pub(super) before: &'a str,
    /// After it.
    pub(super) after: &'a str,
}

impl Place<'_> {
    /// The character in front.
    pub(super) fn previous(&self) -> Option<char> {
        self.before.chars().next_back()
    }

    /// The character behind.
    pub(super) fn next(&self) -> Option<char> {
        self.after.chars().next()
    }

    /// A Latin letter stands directly in front, or behind a hyphen in front (`WH-1000`).
    pub(super) fn follows_letters(&self) -> bool {
        let before = self.before.strip_suffix('-').unwrap_or(self.before);
        before
            .chars()
            .next_back()
            .is_some_and(|c| c.is_ascii_alphabetic())
    }

    /// A Latin letter stands directly behind.
    pub(super) fn precedes_letters(&self) -> bool {
        self.next().is_some_and(|c| c.is_ascii_alphabetic())
    }
}

/// A pattern that is anchored at its start, and what is said for it; `None` leaves it to later rules.
pub(super) struct Rule {
    pub(super) pattern: Regex,
    pub(super) say: fn(&Captures<'_>, &Place<'_>) -> Option<String>,
}

/// A rule; patterns are tested, so each compiles.
pub(super) fn rule(pattern: &str, say: fn(&Captures<'_>, &Place<'_>) -> Option<String>) -> Rule {
    let pattern =
        Regex::new(&format!("^(?:{pattern})")).expect("a pattern of this file that tests compile");
    Rule { pattern, say }
}

/// A language's rules, in order, and whether words are set apart by spaces.
pub(super) struct Rules {
    pub(super) rules: std::sync::LazyLock<Vec<Rule>>,
    pub(super) spaced: bool,
}

pub(super) fn say(text: &str, language: &Rules) -> String {
    let text = plain(text);
    if !text.contains(|c: char| c.is_ascii_digit()) {
        return text.into_owned();
    }
    let mut out = String::with_capacity(text.len() * 2);
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let found = starts_number(&text, at)
            .then(|| first(&text, at, &language.rules))
            .flatten();
        let Some((said, length)) = found else {
            out.push(c);
            at += c.len_utf8();
            continue;
        };
        if language.spaced && out.ends_with(|c: char| c.is_alphanumeric()) {
            out.push(' ');
        }
        out.push_str(&said);
        at += length;
        if language.spaced
            && text[at..].starts_with(|c: char| c.is_alphanumeric() || c == '$')
            && !out.ends_with(' ')
        {
            out.push(' ');
        }
    }
    out
}

/// Rules begin at a digit, or at a sign directly in front of one.
fn starts_number(text: &str, at: usize) -> bool {
    let mut chars = text[at..].chars();
    let first = chars.next().unwrap_or_default();
    let rest = chars.as_str().trim_start();
    let digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    first.is_ascii_digit()
        || (matches!(first, '$' | '¥' | '€' | '£' | '#') && digit(rest))
        || (matches!(first, '-' | '−' | '+' | '.' | '×' | '*' | '~') && digit(chars.as_str()))
        || (text[at..].starts_with("US$") && digit(text[at + 3..].trim_start()))
}

fn first(text: &str, at: usize, rules: &[Rule]) -> Option<(String, usize)> {
    rules.iter().find_map(|rule| {
        let found = rule.pattern.captures(&text[at..])?;
        let length = found[0].len();
        let place = Place {
            before: &text[..at],
            after: &text[at + length..],
        };
        (rule.say)(&found, &place).map(|said| (said, length))
    })
}

/// Digits of any width or shape, and the signs beside them, as ASCII; all else stays.
fn plain(text: &str) -> Cow<'_, str> {
    let odd = |c: char| {
        !c.is_ascii()
            && (std::iter::once(c).nfkc().any(|c| c.is_ascii_digit())
                || matches!(c, '￥' | '％' | '＄' | '．' | '：' | '～'))
    };
    if !text.contains(odd) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let chars: Vec<char> = text.chars().collect();
    for (index, c) in chars.iter().copied().enumerate() {
        let digit_at = |at: Option<usize>| {
            at.and_then(|at| chars.get(at))
                .is_some_and(|c| std::iter::once(*c).nfkc().all(|c| c.is_ascii_digit()))
        };
        let between = digit_at(index.checked_sub(1)) && digit_at(Some(index + 1));
        match c {
            '￥' => out.push('¥'),
            '％' => out.push('%'),
            '＄' => out.push('$'),
            '．' if between => out.push('.'),
            '：' if between => out.push(':'),
            '～' => out.push('~'),
            '²' | '³' => out.push(c),
            '㎡' => out.push_str("m²"),
            '㎥' => out.push_str("m³"),
            '０'..='９' => out.extend(std::iter::once(c).nfkc()),
            // A number of its own: ½ and ① do not run into their neighbours.
            _ if odd(c) => {
                if out.ends_with(|c: char| c.is_ascii_digit()) {
                    out.push(' ');
                }
                let figures = std::iter::once(c).nfkc();
                out.extend(figures.map(|c| if c == '\u{2044}' { '/' } else { c }));
                if digit_at(Some(index + 1)) {
                    out.push(' ');
                }
            }
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}
