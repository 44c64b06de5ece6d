//! From written to spoken: what a voice must not read (markdown, tags, URLs, emoji, list marks) leaves the text.

/// Longest tag that is looked for, in bytes; a lone `<` is text after that.
const TAG_BYTES: usize = 80;
/// What a URL begins with, in lower case.
const URL_STARTS: [&str; 3] = ["http://", "https://", "www."];

/// What is to be said for `text`; may be empty. `line_start` tells whether a list mark may open it.
pub(super) fn tts_text(text: &str, line_start: bool) -> String {
    normalise(&strip(text, line_start).text)
}

/// Characters of `text` that make a sound: letters and digits of any script.
pub(super) fn spoken_chars(text: &str, line_start: bool) -> usize {
    strip(text, line_start)
        .text
        .chars()
        .filter(|c| is_spoken(*c))
        .count()
}

/// Whether `text` has something to say whatever follows it.
pub(super) fn surely_spoken(text: &str, line_start: bool) -> bool {
    let stripped = strip(text, line_start);
    stripped.text[..stripped.settled].chars().any(is_spoken)
}

/// Whether a URL, or what may become one, ends `word`: a run without spaces.
pub(super) fn is_url_like(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    if word.contains("://") || word.starts_with("www.") {
        return true;
    }
    let host = word.split(['/', '?']).next().unwrap_or_default();
    let mut labels = host.split('.');
    let top = labels.next_back().unwrap_or_default();
    let label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let named = labels.clone().next().is_some() && labels.all(label);
    named && top.len() >= 2 && top.bytes().all(|b| b.is_ascii_lowercase())
}

fn is_spoken(c: char) -> bool {
    c.is_alphanumeric() && !is_silent(c)
}

/// Emoji, their modifiers, zero-width and control characters.
fn is_silent(c: char) -> bool {
    if c.is_whitespace() {
        return false;
    }
    let pictograph = matches!(c,
        '\u{2300}'..='\u{23ff}' | '\u{2600}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}' | '\u{20e3}' | '\u{3030}'
        | '\u{1f000}'..='\u{1faff}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}');
    let invisible = matches!(c,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fffd}');
    pictograph || invisible || c.is_control()
}

/// Text without its marks, before spaces and punctuation are tidied.
struct Stripped {
    text: String,
    /// Bytes of `text` that no continuation of the source can take back.
    settled: usize,
}

fn strip(source: &str, line_start: bool) -> Stripped {
    let mut out = Stripped {
        text: String::with_capacity(source.len()),
        settled: usize::MAX,
    };
    let mut at_line_start = line_start;
    let mut previous = None;
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        if at_line_start && let Some(length) = out.list_mark(rest) {
            rest = &rest[length..];
            continue;
        }
        let skipped = out.markup(rest, previous);
        if skipped > 0 {
            previous = rest[..skipped].chars().next_back();
            rest = &rest[skipped..];
            at_line_start = false;
            continue;
        }
        let next = rest[c.len_utf8()..].chars().next();
        out.character(c, previous, next);
        at_line_start = c == '\n' || (at_line_start && c.is_whitespace());
        previous = Some(c);
        rest = &rest[c.len_utf8()..];
    }
    out.settled = out.settled.min(out.text.len());
    out
}

impl Stripped {
    /// From here on, what follows may change what was read.
    fn unsettle(&mut self) {
        self.settled = self.settled.min(self.text.len());
    }

    /// Bytes of the list mark, heading or quote mark that opens a line; `None` where there is none.
    fn list_mark(&mut self, rest: &str) -> Option<usize> {
        let body = rest.trim_start_matches('#');
        if body.len() < rest.len() && body.starts_with(' ') {
            return Some(rest.len() - body.len());
        }
        if rest.starts_with('>') {
            return Some(1);
        }
        let mut chars = rest.chars();
        let first = chars.next()?;
        if matches!(first, '-' | '*' | '+' | '•') {
            return chars
                .next()
                .is_some_and(char::is_whitespace)
                .then(|| first.len_utf8());
        }
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = rest.len() - after.len();
        if digits == 0 {
            return None;
        }
        let mut after_chars = after.chars();
        let mark = after_chars.next();
        if !matches!(mark, None | Some('.' | ')')) {
            return None;
        }
        match (mark, after_chars.next()) {
            (Some(_), Some(space)) if space.is_whitespace() => Some(digits + 1),
            (Some(_), Some(_)) => None,
            (_, None) => {
                self.unsettle();
                None
            }
            (None, Some(_)) => None,
        }
    }

    /// Bytes of the URL, tag or link target that starts here; 0 where there is none.
    fn markup(&mut self, rest: &str, previous: Option<char>) -> usize {
        if rest.starts_with('<') {
            return self.tag(rest);
        }
        if rest.starts_with("](") {
            return self.link_target(rest);
        }
        if previous.is_some_and(|c| c.is_ascii_alphanumeric()) {
            return 0;
        }
        self.url(rest)
    }

    fn tag(&mut self, rest: &str) -> usize {
        let opens =
            rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!'));
        if !opens {
            return 0;
        }
        match rest[1..].find(['>', '<', '\n']).map(|at| at + 1) {
            Some(end) if end <= TAG_BYTES && rest.as_bytes()[end] == b'>' => end + 1,
            Some(_) => 0,
            None => {
                if rest.len() <= TAG_BYTES {
                    self.unsettle();
                }
                0
            }
        }
    }

    fn link_target(&mut self, rest: &str) -> usize {
        match rest.find(|c: char| c == ')' || c.is_whitespace()) {
            Some(end) if rest.as_bytes()[end] == b')' => end + 1,
            Some(_) => 0,
            None => {
                self.unsettle();
                0
            }
        }
    }

    fn url(&mut self, rest: &str) -> usize {
        let starts = |start: &&str| {
            let head = rest.as_bytes().get(..start.len());
            head.is_some_and(|head| head.eq_ignore_ascii_case(start.as_bytes()))
        };
        if URL_STARTS.iter().any(starts) {
            let in_url = |c: char| {
                c.is_ascii_graphic() && !matches!(c, '<' | '>' | '"' | '(' | ')' | '[' | ']' | '`')
            };
            let end = rest.find(|c| !in_url(c)).unwrap_or(rest.len());
            return rest[..end]
                .trim_end_matches(['.', ',', '!', '?', ';', ':', '*', '\''])
                .len();
        }
        let begun = |start: &&str| {
            let head = start.as_bytes().get(..rest.len());
            head.is_some_and(|head| head.eq_ignore_ascii_case(rest.as_bytes()))
        };
        if URL_STARTS.iter().any(begun) {
            self.unsettle();
        }
        0
    }

    fn character(&mut self, c: char, previous: Option<char>, next: Option<char>) {
        let digits = previous.is_some_and(|c| c.is_ascii_digit())
            && next.is_some_and(|c| c.is_ascii_digit());
        let word_edge = !previous.is_some_and(char::is_alphanumeric)
            || !next.is_some_and(char::is_alphanumeric);
        match c {
            '*' if digits => self.text.push(c),
            '_' if !word_edge => self.text.push(c),
            '*' | '_' | '`' | '[' | ']' | '\\' | '<' | '>' => {}
            '~' if previous == Some('~') || next == Some('~') => {}
            '|' => self.text.push(' '),
            _ if is_silent(c) => {
                if previous.is_some_and(|c| c.is_ascii_alphanumeric()) {
                    self.text.push(' ');
                }
            }
            _ => self.text.push(c),
        }
    }
}

/// Single spaces, single marks, no punctuation without words before it, no empty brackets.
fn normalise(text: &str) -> String {
    if !text.chars().any(is_spoken) {
        return String::new();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let last = out.chars().next_back();
        if c.is_whitespace() {
            if last.is_some_and(|last| last != ' ') {
                out.push(' ');
            }
            continue;
        }
        if matches!(
            c,
            '!' | '?' | '！' | '？' | '。' | '…' | '，' | '、' | '-' | '='
        ) && last == Some(c)
        {
            continue;
        }
        if matches!(c, ',' | '.' | '!' | '?' | '，' | '。' | '！' | '？') && last == Some(' ') {
            out.pop();
        }
        out.push(c);
        for empty in ["()", "（）", "【】", "\"\"", "“”"] {
            if out.ends_with(empty) {
                out.truncate(out.len() - empty.len());
            }
        }
    }
    trim_punctuation(&out).to_owned()
}

/// Drops marks that have lost the words before them; the point of `.5` stays.
fn trim_punctuation(text: &str) -> &str {
    let mut rest = text.trim();
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let orphan = matches!(
            c,
            ',' | '.'
                | '!'
                | '?'
                | ';'
                | ':'
                | ')'
                | '，'
                | '。'
                | '！'
                | '？'
                | '；'
                | '：'
                | '、'
                | '…'
                | '）'
                | '】'
                | '」'
                | '』'
                | '”'
        );
        if !orphan || after.starts_with(|c: char| c.is_ascii_digit()) {
            break;
        }
        rest = after.trim_start();
    }
    rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::test_text::text;
    use super::*;

    #[test]
    fn marks_leave_and_words_stay() {
        for (written, said) in [
            ("**Great** `choice`!", "Great choice!"),
            ("1. First\n2) second\n- third", "First second third"),
            ("## Why\n> because", "Why because"),
            (
                "See [our shop](https://a.b/c?d=1.5) now.",
                "See our shop now.",
            ),
            ("Go to https://a.b/c?d=e!f. Then pay", "Go to. Then pay"),
            ("Go (www.abc.com).", "Go."),
            ("<b>bold</b> and 3 < 5", "bold and 3 5"),
            ("哇！！！！！", "哇！"),
            ("真的吗？！？！好……", "真的吗？！？！好…"),
            ("好👏👏的❤️", "好的"),
            ("Great👏stuff 1️⃣", "Great stuff 1"),
            ("a\u{200b}b\u{feff}", "a b"),
            ("snake_case and _emphasis_", "snake_case and emphasis"),
            ("3*4 is 12", "3*4 is 12"),
            ("，好的", "好的"),
            (".5 litres", ".5 litres"),
            ("￥1,299.00", "￥1,299.00"),
        ] {
            assert_eq!(tts_text(written, true), said, "{written:?}");
        }
    }

    #[test]
    fn what_has_no_words_is_not_said() {
        for silent in [
            "",
            "  ",
            "👏👏👏",
            "……",
            "？！？！",
            "。",
            "\u{200b}\u{200b}",
            "https://a.b",
            "<br>",
            "**",
            "- ",
            "1. ",
            "🇨🇳",
            "🅰",
        ] {
            assert_eq!(tts_text(silent, true), "", "{silent:?}");
            assert_eq!(spoken_chars(silent, true), 0, "{silent:?}");
        }
    }

    #[test]
    fn addresses_are_told_from_sentences() {
        for url in ["https://a", "www.a", "abc.com", "abc.com/x?y", "a-b.co.uk"] {
            assert!(is_url_like(url), "{url}");
        }
        for other in ["Hello", "3.5", "1.", "e.", "good?", "v2.0"] {
            assert!(!is_url_like(other), "{other}");
        }
    }

    proptest! {
        #[test]
        fn what_is_surely_spoken_stays_spoken(text in text(), cut in 0..200_usize, line_start: bool) {
            let cut = text.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(text.len());
            if surely_spoken(&text[..cut], line_start) {
                prop_assert!(!tts_text(&text, line_start).is_empty(), "{:?} then {:?}", &text[..cut], &text[cut..]);
            }
        }

        #[test]
        fn speech_is_one_line_without_silent_characters(text in text()) {
            let said = tts_text(&text, true);
            prop_assert!(!said.chars().any(is_silent), "{said:?}");
            prop_assert!(!said.contains('\n') && said.trim() == said, "{said:?}");
        }
    }
}
