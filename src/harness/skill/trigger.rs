//! Words and patterns that activate a skill before the model is asked.

use regex::{Regex, RegexBuilder};
use unicode_normalization::UnicodeNormalization as _;

/// Most memory of one compiled pattern, in bytes.
const PATTERN: usize = 1 << 20;

/// What activates a skill: any word or pattern that a comment holds. Case and width of letters do not matter.
#[derive(Clone, Debug, Default)]
pub struct Triggers {
    words: Vec<String>,
    patterns: Vec<Regex>,
}

impl Triggers {
    /// Reads `how much, 多少钱, /size (s|m|l)/`: parts separated by commas or line ends, a pattern between slashes.
    ///
    /// # Errors
    /// Every part that cannot be used, with its reason.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        let (mut triggers, mut faults) = (Self::default(), Vec::new());
        for part in parts(text) {
            let pattern = part.strip_prefix('/').filter(|rest| !rest.is_empty());
            let Some(pattern) = pattern else {
                triggers.words.push(fold(part));
                continue;
            };
            let Some(pattern) = pattern
                .strip_suffix('/')
                .filter(|pattern| !pattern.is_empty())
            else {
                faults.push(format!("{part:?} is a pattern that no slash closes"));
                continue;
            };
            match RegexBuilder::new(pattern)
                .case_insensitive(true)
                .size_limit(PATTERN)
                .build()
            {
                Ok(pattern) if pattern.is_match("") => {
                    faults.push(format!(
                        "/{pattern}/ matches the empty text, so every comment"
                    ));
                }
                Ok(pattern) => triggers.patterns.push(pattern),
                Err(error) => {
                    faults.push(format!("/{pattern}/: {}", last_line(&error.to_string())))
                }
            }
        }
        if faults.is_empty() {
            Ok(triggers)
        } else {
            Err(faults)
        }
    }

    /// Whether nothing activates it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && self.patterns.is_empty()
    }

    /// Whether a comment activates it.
    #[must_use]
    pub fn matches(&self, comment: &str) -> bool {
        if self.is_empty() {
            return false;
        }
        let folded = fold(comment);
        self.words.iter().any(|word| holds(&folded, word))
            || self
                .patterns
                .iter()
                .any(|pattern| pattern.is_match(comment) || pattern.is_match(&folded))
    }
}

/// Case and width of letters aside.
pub(in crate::harness) fn fold(text: &str) -> String {
    text.trim().nfkc().collect::<String>().to_lowercase()
}

/// The regex engine draws the pattern first; the reason is its last line.
fn last_line(text: &str) -> &str {
    text.lines()
        .last()
        .unwrap_or_default()
        .trim_start_matches("error: ")
}

/// Splits at commas and line ends outside patterns.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    let mut last = None;
    for (at, c) in text.char_indices() {
        match c {
            '/' if inside && last != Some('\\') => inside = false,
            '/' if !inside && text[start..at].trim().is_empty() => inside = true,
            '\n' | ',' | '，' | '、' if !inside || c == '\n' => {
                parts.push(text[start..at].trim());
                start = at + c.len_utf8();
                inside = false;
            }
            _ => {}
        }
        last = if last == Some('\\') { None } else { Some(c) };
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// Whether `text` holds `word`: as a whole word in scripts that put spaces between words, anywhere in others.
pub(in crate::harness) fn holds(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !joined(before.chars().next_back(), word.chars().next())
            && !joined(word.chars().next_back(), after.chars().next())
    })
}

/// Whether two neighbours belong to one word.
fn joined(one: Option<char>, other: Option<char>) -> bool {
    let within = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() && !is_unspaced(c));
    within(one) && within(other)
}

/// Letters of scripts that are written without spaces: Thai to Burmese, Chinese, Japanese, Korean.
fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c), 0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1100..=0x11FF | 0x1780..=0x17FF
        | 0x2E80..=0x9FFF | 0xA960..=0xA97F | 0xAC00..=0xD7FF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_whole_where_words_have_spaces() {
        let triggers = Triggers::parse("size, how much,多少钱、サイズ").expect("valid");
        for comment in [
            "What SIZE?",
            "size",
            "how much is it",
            "这个多少钱呀",
            "ＳＩＺＥ",
            "サイズは？",
            "size多大",
        ] {
            assert!(triggers.matches(comment), "{comment}");
        }
        for comment in ["resize it", "sizes", "how muchly", "多少", ""] {
            assert!(!triggers.matches(comment), "{comment}");
        }
    }

    #[test]
    fn a_pattern_may_hold_commas_and_slashes() {
        let triggers = Triggers::parse(r"/colou?r{1,2}\b/, /km\/h/").expect("valid");
        assert!(triggers.matches("which Color?") && triggers.matches("30 km/h"));
        assert!(!triggers.matches("colt"));
    }

    #[test]
    fn every_bad_part_is_named() {
        let faults = Triggers::parse(r"/(/, /x*/, /open, fine").expect_err("bad");
        assert_eq!(faults.len(), 3, "{faults:?}");
        Triggers::parse(&format!("/{}/", "(a{1000}){1000}")).expect_err("too large");
    }

    #[test]
    fn nothing_matches_nothing() {
        assert!(!Triggers::parse(" , ").expect("valid").matches("anything"));
    }
}
