//! Word lists that are found whatever the case, width, accents and spacing, and not inside other words.
//! A list has one word or phrase a line; `#` begins a comment line.

use std::collections::HashMap;
use std::ops::Range;

use unicode_normalization::UnicodeNormalization as _;

/// Longer lines are no words.
const MOST_CHARS: usize = 64;
const MOST_WORDS: usize = 50_000;

/// Words and phrases, by their first letter.
#[derive(Clone, Debug, Default)]
pub struct Words {
    by_first: HashMap<char, Vec<Word>>,
    count: usize,
}

#[derive(Clone, Debug)]
struct Word {
    /// Folded letters and digits.
    letters: Vec<char>,
    /// Whether the list has a gap before each letter.
    gaps: Vec<bool>,
}

/// A letter or digit of a text, folded.
#[derive(Clone, Copy, Debug)]
struct Letter {
    folded: char,
    start: usize,
    end: usize,
    gap: Gap,
}

/// What stands before a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    None,
    /// Spaces or marks that some people put between the letters of a word.
    Loose,
    /// The end of a sentence: no word goes on behind it.
    Stop,
}

impl Words {
    /// Adds one word or phrase.
    ///
    /// # Errors
    /// When it has no letter or digit, is too long, or there are too many.
    pub fn add(&mut self, word: &str) -> Result<(), String> {
        let letters = fold(word);
        let Some(first) = letters.first() else {
            return Err(format!("{word:?} has no letter or digit"));
        };
        if letters.len() > MOST_CHARS {
            return Err(format!("{} letters, at most {MOST_CHARS}", letters.len()));
        }
        if self.count == MOST_WORDS {
            return Err(format!("more than {MOST_WORDS} words"));
        }
        let known = self.by_first.entry(first.folded).or_default();
        known.push(Word {
            letters: letters.iter().map(|letter| letter.folded).collect(),
            gaps: letters
                .iter()
                .map(|letter| letter.gap != Gap::None)
                .collect(),
        });
        self.count += 1;
        Ok(())
    }

    /// Adds a list, one word a line.
    ///
    /// # Errors
    /// The line, from 1, and what is wrong with it.
    pub fn add_list(&mut self, list: &str) -> Result<(), (usize, String)> {
        let list = list.trim_start_matches('\u{feff}');
        for (index, line) in list.lines().enumerate() {
            let word = line.trim();
            if word.is_empty() || word.starts_with('#') {
                continue;
            }
            self.add(word).map_err(|reason| (index + 1, reason))?;
        }
        Ok(())
    }

    /// Whether there is no word.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Where words stand in `text`, in bytes; in order, without overlaps, the longest at each place.
    #[must_use]
    pub fn find(&self, text: &str) -> Vec<Range<usize>> {
        let letters = fold(text);
        let mut found = Vec::new();
        let mut at = 0;
        while at < letters.len() {
            let longest = self
                .by_first
                .get(&letters[at].folded)
                .into_iter()
                .flatten()
                .filter(|word| word.stands_at(&letters, at))
                .map(|word| word.letters.len())
                .max();
            match longest {
                Some(length) => {
                    found.push(letters[at].start..letters[at + length - 1].end);
                    at += length;
                }
                None => at += 1,
            }
        }
        found
    }
}

impl Word {
    fn stands_at(&self, letters: &[Letter], at: usize) -> bool {
        let Some(here) = letters.get(at..at + self.letters.len()) else {
            return false;
        };
        let same = here
            .iter()
            .zip(&self.letters)
            .all(|(letter, own)| letter.folded == *own);
        if !same || here[1..].iter().any(|letter| letter.gap == Gap::Stop) {
            return false;
        }
        if !spaces_words(here[0].folded) && !spaces_words(here[here.len() - 1].folded) {
            return true;
        }
        let after = letters.get(at + here.len());
        edge(at.checked_sub(1).map(|before| letters[before]), here[0])
            && after.is_none_or(|after| edge(Some(here[here.len() - 1]), *after))
            && self.spaced_as_listed_or_throughout(here)
    }

    /// A word's letters stand together, or all apart ("b e s t"); single gaps ("as sure") are other words.
    fn spaced_as_listed_or_throughout(&self, here: &[Letter]) -> bool {
        let inner = || here[1..].iter().zip(&self.gaps[1..]);
        let throughout = inner().all(|(letter, _)| letter.gap != Gap::None);
        throughout || inner().all(|(letter, gap)| letter.gap == Gap::None || *gap)
    }
}

/// Whether a word may begin or end between these two letters.
fn edge(before: Option<Letter>, after: Letter) -> bool {
    let Some(before) = before else {
        return true;
    };
    after.gap != Gap::None
        || spaces_words(before.folded) != spaces_words(after.folded)
        || !spaces_words(after.folded)
        || before.folded.is_numeric() != after.folded.is_numeric()
}

/// Whether the letter's script puts spaces between words.
fn spaces_words(c: char) -> bool {
    !matches!(c, '\u{0e00}'..='\u{0eff}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

fn fold(text: &str) -> Vec<Letter> {
    let mut letters: Vec<Letter> = Vec::with_capacity(text.len());
    let mut gap = Gap::None;
    for (start, c) in text.char_indices() {
        let end = start + c.len_utf8();
        if is_invisible(c) {
            continue;
        }
        let before = letters.len();
        for folded in std::iter::once(c).nfkd().flat_map(char::to_lowercase) {
            if folded.is_alphanumeric() {
                letters.push(Letter {
                    folded,
                    start,
                    end,
                    gap,
                });
                gap = Gap::None;
            } else if is_accent(folded)
                && let Some(last) = letters.last_mut()
            {
                last.end = end;
            }
        }
        let silent = letters.len() == before && !is_accent(c);
        if silent && gap != Gap::Stop {
            gap = if is_stop(c) { Gap::Stop } else { Gap::Loose };
        }
    }
    letters
}

fn is_accent(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

/// Zero-width characters, which nobody sees between letters.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

fn is_stop(c: char) -> bool {
    matches!(c, '。' | '！' | '？' | '!' | '?' | '\n')
}
