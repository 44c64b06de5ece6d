//! What a run of marks means: the end of a sentence, of a clause, or nothing (a number, an abbreviation, a URL).

use super::super::speech::is_url_like;

/// Words that a full stop follows without ending the sentence, in lower case and without it.
const ABBREVIATIONS: &[&str] = &[
    "mr", "mrs", "ms", "dr", "prof", "st", "sr", "jr", "vs", "etc", "approx", "dept", "inc", "ltd",
    "co", "corp", "fig", "vol", "est", "min", "max", "tel",
];
/// Those that do so only before a number.
const NUMBERED: &[&str] = &["no", "nos", "art", "p", "pp", "ch", "sec"];

/// Consecutive marks and the spaces after them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Where the first mark begins.
    pub(super) start: usize,
    /// Where the last mark or space ends.
    pub(super) end: usize,
    pub(super) newline: bool,
    /// A mark that ends a sentence by itself in any script.
    full: bool,
    /// `!` or `?`, which also stand in URLs.
    ascii: bool,
    dot: bool,
    /// A mark that ends a clause by itself.
    clause: bool,
    /// A comma, which needs a space.
    comma: bool,
    spaced: bool,
    /// A closing quote follows the marks.
    quoted: bool,
    /// A closing bracket follows the marks: the sentence goes on around it.
    bracketed: bool,
}

impl Run {
    /// The run that `c`, ending at `end`, begins.
    pub(super) fn start(c: char, end: usize) -> Option<Self> {
        let mut run = Self {
            start: end - c.len_utf8(),
            end,
            newline: false,
            full: false,
            ascii: false,
            dot: false,
            clause: false,
            comma: false,
            spaced: false,
            quoted: false,
            bracketed: false,
        };
        run.mark(c).then_some(run)
    }

    fn mark(&mut self, c: char) -> bool {
        match c {
            '\n' => self.newline = true,
            '。' | '｡' | '！' | '？' | '…' => self.full = true,
            '!' | '?' => self.ascii = true,
            '.' => self.dot = true,
            '，' | '、' | '；' | ';' => self.clause = true,
            ',' => self.comma = true,
            _ => return false,
        }
        self.bracketed = false;
        true
    }

    /// Takes `c` into the run if it belongs there.
    pub(super) fn extend(&mut self, c: char, end: usize, brackets: &mut Brackets) -> bool {
        let belongs = if c.is_whitespace() {
            self.newline |= c == '\n';
            self.spaced = true;
            true
        } else if self.spaced || self.newline {
            false
        } else if self.mark(c) {
            true
        } else if brackets.close(c) {
            let quote = is_quote(c);
            self.quoted |= quote;
            self.bracketed |= !quote;
            true
        } else {
            false
        };
        if belongs {
            self.end = end;
        }
        belongs
    }

    /// Whether a sentence ends here, given the text before and the character after; no brackets are open.
    pub(super) fn ends_sentence(&self, before: &str, next: Option<char>) -> bool {
        if self.newline {
            return true;
        }
        if self.bracketed || (self.quoted && next.is_some_and(char::is_lowercase)) {
            return false;
        }
        if self.full {
            return true;
        }
        let word = last_word(before);
        if self.ascii {
            return self.spaced || !is_url_like(word);
        }
        self.dot && self.spaced && !is_abbreviation(word, next)
    }

    /// As [`Run::ends_sentence`], when nothing is known of what comes next.
    pub(super) fn ends_if_last(&self, before: &str) -> bool {
        let open = self.dot && !self.spaced && before.ends_with(|c: char| c.is_ascii_digit());
        let settled = Self {
            spaced: true,
            ..*self
        };
        !open && settled.ends_sentence(before, None)
    }

    /// Whether a comma or its like ends a clause here.
    pub(super) fn ends_clause(&self, before: &str, next: Option<char>) -> bool {
        let digits = before.ends_with(|c: char| c.is_ascii_digit())
            && next.is_none_or(|c| c.is_ascii_digit());
        if self.bracketed || (digits && !self.spaced) {
            return false;
        }
        let url = !self.spaced && is_url_like(last_word(before));
        (self.clause && !url) || (self.comma && self.spaced && !digits)
    }
}

/// The ASCII run that ends `text`.
fn last_word(text: &str) -> &str {
    let start = text.rfind(|c: char| !c.is_ascii_graphic());
    let start = start.map_or(0, |at| {
        at + text[at..].chars().next().map_or(0, char::len_utf8)
    });
    text[start..].trim_start_matches(['(', '"', '[', '*'])
}

fn is_abbreviation(word: &str, next: Option<char>) -> bool {
    let word = word.trim_end_matches('.').to_ascii_lowercase();
    let letters = || {
        word.split('.')
            .all(|part| part.len() == 1 && part.as_bytes()[0].is_ascii_alphabetic())
    };
    if ABBREVIATIONS.contains(&word.as_str()) || (letters() && word != "i") {
        return true;
    }
    NUMBERED.contains(&word.as_str()) && next.is_some_and(|c| c.is_ascii_digit())
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '”' | '’' | '」' | '』')
}

/// Open brackets, quotes and tags, innermost last.
#[derive(Debug, Default)]
pub(super) struct Brackets {
    /// What closes each.
    open: Vec<char>,
}

impl Brackets {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    /// Closes the innermost one if `c` does that.
    pub(super) fn close(&mut self, c: char) -> bool {
        if self.open.last() != Some(&c) {
            return false;
        }
        self.open.pop();
        true
    }

    /// Follows one character that is no mark.
    pub(super) fn track(&mut self, c: char, previous: Option<char>) {
        if self.close(c) {
            return;
        }
        let smiley = c == '(' && matches!(previous, Some(':' | ';' | '-'));
        let inches = c == '"' && previous.is_some_and(|c| c.is_ascii_digit());
        let tag = previous == Some('<') && (c.is_ascii_alphabetic() || c == '/');
        let closes = match c {
            _ if smiley || inches => return,
            _ if tag => '>',
            '(' => ')',
            '[' => ']',
            '{' => '}',
            '（' => '）',
            '【' => '】',
            '《' => '》',
            '「' => '」',
            '『' => '』',
            '“' => '”',
            '‘' => '’',
            '"' => '"',
            '`' => '`',
            _ => return,
        };
        self.open.push(closes);
    }
}
