//! Cuts text into the words that merging never crosses, as the model's training did.
//!
//! The published rules are regular expressions; these are the same rules as scanners that look at each character a
//! bounded number of times and never recurse, so that no input costs more than its length.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

use super::TokenizerError;

/// A rule by which text is cut into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Splitter {
    /// GPT-2's rule.
    Gpt2,
    /// Each numeric character alone, GPT-2's rule between them.
    SmolLm,
    /// The rule of Llama 3 and Qwen 2, which differ in how many digits a word holds.
    Modern {
        /// Longest run of digits that is one word.
        digits: usize,
    },
}

impl Splitter {
    /// Finds the rule that a model file names.
    pub(super) fn named(pre: &str) -> Result<Self, TokenizerError> {
        match pre {
            "smollm" => Ok(Self::SmolLm),
            "gpt-2" | "default" => Ok(Self::Gpt2),
            "llama-bpe" => Ok(Self::Modern { digits: 3 }),
            "qwen2" => Ok(Self::Modern { digits: 1 }),
            _ => Err(TokenizerError::at(
                "tokenizer.ggml.pre",
                format!(
                    "`{pre}` is not supported, only `smollm`, `gpt-2`, `default`, `llama-bpe` and `qwen2`"
                ),
            )),
        }
    }

    /// Whether a word that is a token is taken whole, where a file does not say: Llama 3's rule.
    pub(super) fn prefers_whole_words(self) -> bool {
        self == Self::Modern { digits: 3 }
    }

    /// Whether text is brought to Unicode's form C first, where a file does not say: Qwen 2's rule.
    pub(super) fn composes(self) -> bool {
        self == Self::Modern { digits: 1 }
    }

    /// Calls `take` with each word in order; together they are the whole text.
    pub(super) fn each_word<'a>(self, text: &'a str, mut take: impl FnMut(&'a str)) {
        match self {
            Self::Gpt2 => words(text, gpt2_word, &mut take),
            Self::SmolLm => smollm_words(text, &mut take),
            Self::Modern { digits } => words(text, |rest| modern_word(rest, digits), &mut take),
        }
    }
}

/// Cuts off words of the length that `next` finds, which is at least one character.
fn words<'a>(text: &'a str, next: impl Fn(&str) -> usize, take: &mut impl FnMut(&'a str)) {
    let mut rest = text;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(next(rest));
        take(word);
        rest = after;
    }
}

/// Digits stand alone, and what is between two digits is cut as if it were a text of its own.
fn smollm_words<'a>(text: &'a str, take: &mut impl FnMut(&'a str)) {
    let mut start = 0;
    for (at, digit) in text.char_indices().filter(|&(_, c)| is_number(c)) {
        words(&text[start..at], gpt2_word, take);
        start = at + digit.len_utf8();
        take(&text[at..start]);
    }
    words(&text[start..], gpt2_word, take);
}

/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
fn gpt2_word(text: &str) -> usize {
    if let Some(length) = contraction(text, |a, b| a == b) {
        return length;
    }
    let body = text.strip_prefix(' ').unwrap_or(text);
    let kind = body.chars().next().map_or(Kind::Space, Kind::of);
    if kind == Kind::Space {
        return spaces(text);
    }
    text.len() - body.len() + run(body, |c| Kind::of(c) == kind)
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,n}| ?[^\s\p{L}\p{N}]+[\r\n]*`, then
/// `\s*[\r\n]+|\s+(?!\S)|\s+`
fn modern_word(text: &str, digits: usize) -> usize {
    if let Some(length) = contraction(text, same_letter) {
        return length;
    }
    let mut chars = text.chars();
    let Some(first) = chars.next() else {
        return 0;
    };
    match Kind::of(first) {
        Kind::Letter => return run(text, is_letter),
        Kind::Number => return run_up_to(text, digits, is_number),
        Kind::Space | Kind::Other => {}
    }
    let after_first = chars.as_str();
    if !is_line_end(first) && after_first.starts_with(is_letter) {
        return first.len_utf8() + run(after_first, is_letter);
    }
    let body = text.strip_prefix(' ').unwrap_or(text);
    let other = run(body, |c| Kind::of(c) == Kind::Other);
    if other > 0 {
        let before = text.len() - body.len() + other;
        return before + run(&text[before..], is_line_end);
    }
    let space = run(text, is_space);
    match text[..space].rfind(is_line_end) {
        // Both line ends are one byte long.
        Some(last) => last + 1,
        None => spaces(text),
    }
}

/// `\s+(?!\S)|\s+` on a text that starts with whitespace: all of it before the end of the text or if it is a single
/// character, else all but the last, which joins the next word.
fn spaces(text: &str) -> usize {
    let length = run(text, is_space);
    if length == text.len() {
        return length;
    }
    let last = text[..length]
        .char_indices()
        .next_back()
        .map_or(0, |(at, _)| at);
    if last == 0 { length } else { last }
}

/// Length of an English contraction at the start.
fn contraction(text: &str, same: fn(char, char) -> bool) -> Option<usize> {
    let rest = text.strip_prefix('\'')?;
    ["s", "t", "re", "ve", "m", "ll", "d"]
        .iter()
        .find_map(|ending| {
            let mut chars = rest.chars();
            let matches = ending
                .chars()
                .all(|want| chars.next().is_some_and(|c| same(c, want)));
            matches.then(|| text.len() - chars.as_str().len())
        })
}

/// Case-insensitive equality with a small ASCII letter, in Unicode's sense: the long s is an s.
fn same_letter(c: char, small: char) -> bool {
    c.to_ascii_lowercase() == small || (c == 'ſ' && small == 's')
}

/// What the rules ask of a character.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Letter,
    Number,
    Space,
    Other,
}

impl Kind {
    fn of(c: char) -> Self {
        look();
        if c.is_ascii() {
            return match c {
                'a'..='z' | 'A'..='Z' => Self::Letter,
                '0'..='9' => Self::Number,
                _ if c.is_whitespace() => Self::Space,
                _ => Self::Other,
            };
        }
        match c.general_category_group() {
            GeneralCategoryGroup::Letter => Self::Letter,
            GeneralCategoryGroup::Number => Self::Number,
            _ if c.is_whitespace() => Self::Space,
            _ => Self::Other,
        }
    }
}

fn is_space(c: char) -> bool {
    look();
    c.is_whitespace()
}

/// Counts the characters looked at, for tests of what cutting costs.
fn look() {
    #[cfg(test)]
    tests::LOOKS.with(|looks| looks.set(looks.get() + 1));
}

fn is_letter(c: char) -> bool {
    Kind::of(c) == Kind::Letter
}

fn is_number(c: char) -> bool {
    Kind::of(c) == Kind::Number
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\r' | '\n')
}

/// Bytes of the longest start of `text` whose characters all fit.
fn run(text: &str, fits: impl Fn(char) -> bool) -> usize {
    text.find(|c| !fits(c)).unwrap_or(text.len())
}

/// As [`run`], of at most `most` characters.
fn run_up_to(text: &str, most: usize, fits: impl Fn(char) -> bool) -> usize {
    text.char_indices()
        .enumerate()
        .find(|&(count, (_, c))| count == most || !fits(c))
        .map_or(text.len(), |(_, (at, _))| at)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        pub(super) static LOOKS: Cell<usize> = const { Cell::new(0) };
    }

    /// Words that end long before what was looked at would take the square of a text's length.
    #[test]
    fn each_character_is_looked_at_a_few_times() {
        let pieces = [
            "q",
            "好",
            "!",
            "7",
            " ",
            "\n",
            " \n",
            "\n ",
            "\u{3000}x",
            "'",
            "'s",
            "e\u{301}",
            " !",
            "!\n",
            "½ ",
            "\r\n\t",
        ];
        for splitter in [Splitter::Gpt2, Splitter::SmolLm, modern(1), modern(3)] {
            for piece in pieces {
                let text = piece.repeat(20_000);
                LOOKS.set(0);
                assert!(cut(splitter, &text).concat() == text, "{piece:?} is whole");
                let (looks, count) = (LOOKS.get(), text.chars().count());
                assert!(
                    looks <= 8 * count,
                    "{splitter:?}: {looks} of {count} times {piece:?}"
                );
            }
        }
    }

    fn cut(splitter: Splitter, text: &str) -> Vec<&str> {
        let mut words = Vec::new();
        splitter.each_word(text, |word| words.push(word));
        words
    }

    fn modern(digits: usize) -> Splitter {
        Splitter::Modern { digits }
    }

    #[test]
    fn gpt2_joins_one_space_to_the_word_after() {
        assert_eq!(
            cut(Splitter::Gpt2, "it's  1234,  ok \n\n x  "),
            [
                "it", "'s", " ", " 1234", ",", " ", " ok", " \n\n", " x", "  "
            ]
        );
    }

    #[test]
    fn smollm_cuts_digits_before_anything_else() {
        assert_eq!(
            cut(Splitter::SmolLm, "a  12 ½b"),
            ["a", "  ", "1", "2", " ", "½", "b"]
        );
    }

    #[test]
    fn the_modern_rule_keeps_line_ends_with_what_is_before() {
        assert_eq!(
            cut(modern(3), "He'LL pay 12345!!\n\n  \n  x(y"),
            [
                "He", "'LL", " pay", " ", "123", "45", "!!\n\n", "  \n", " ", " x", "(y"
            ]
        );
        assert_eq!(cut(modern(1), "12"), ["1", "2"]);
    }

    #[test]
    fn words_make_up_the_text() {
        let text = "  \u{3000}«Ünïcödé» ٣٤ 👩‍👩‍👧 é\u{301}\r\n\t'";
        for splitter in [Splitter::Gpt2, Splitter::SmolLm, modern(1), modern(3)] {
            assert_eq!(cut(splitter, text).concat(), text);
        }
    }
}
