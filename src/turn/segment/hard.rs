//! Where to cut a clause that no mark ends in time: at the last comma, space or wide character, never in a number.

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};

use super::super::speech::is_url_like;
use super::{is_wide, width};

/// The best place within `limit` of width and `max_chars` characters; `None` where every place would hurt.
pub(super) fn place(
    text: &str,
    limit: usize,
    max_chars: usize,
    clause: Option<usize>,
) -> Option<usize> {
    let mut used = 0;
    let (mut soft, mut inside_word, mut reach) = (None, None, 0);
    let mut too_wide = false;
    let mut chars = text.char_indices().peekable();
    for index in 0.. {
        let Some((at, c)) = chars.next() else { break };
        used += width(c);
        too_wide = used > limit;
        if too_wide || index >= max_chars {
            break;
        }
        let end = at + c.len_utf8();
        reach = end;
        let Some((_, next)) = chars.peek() else { break };
        if joined(&text[..end], c, *next) {
            continue;
        }
        if c.is_whitespace() || is_wide(c) || is_wide(*next) {
            soft = Some(end);
        } else {
            inside_word = Some(end);
        }
    }
    // A comma in the first third would make a crumb of the clause.
    let comma = clause.filter(|end| *end <= reach && *end * 3 >= reach);
    // Only a word that is wider than any clause is broken, and an address never.
    let broken = inside_word.filter(|end| too_wide && !is_url_like(last_word(&text[..*end])));
    comma.or(soft).or(broken)
}

fn last_word(text: &str) -> &str {
    text.rsplit(char::is_whitespace).next().unwrap_or_default()
}

/// Whether `before`, which ends in `c`, and `next` belong together: a number and its unit, a character and its marks.
fn joined(before: &str, c: char, next: char) -> bool {
    let numeral = |c: char| c.is_numeric() || matches!(c, '$' | '€' | '£' | '¥' | '￥' | '-' | '+');
    let word_end = before.trim_end().chars().next_back();
    if c.is_whitespace() {
        // A unit or the rest of a price may follow the space.
        return next.is_whitespace() || word_end.is_none_or(numeral) || next == '%';
    }
    let number = numeral(c) || (matches!(c, '.' | ',' | ':' | '/' | '，') && next.is_numeric());
    let closing = matches!(
        next,
        '，' | '。'
            | '！'
            | '？'
            | '、'
            | '；'
            | '：'
            | '…'
            | '）'
            | '”'
            | '’'
            | '】'
            | '》'
            | '」'
            | '』'
            | ','
            | '.'
            | '!'
            | '?'
            | ';'
            | ':'
            | ')'
            | '%'
    );
    let opening = matches!(
        c,
        '（' | '“' | '‘' | '【' | '《' | '「' | '『' | '(' | '[' | '<'
    );
    let mark = matches!(
        next.general_category(),
        GeneralCategory::NonspacingMark
            | GeneralCategory::EnclosingMark
            | GeneralCategory::SpacingMark
    );
    let zero_width = |c| matches!(c, '\u{200d}' | '\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}');
    number
        || closing
        || opening
        || mark
        || next.is_whitespace()
        || zero_width(c)
        || zero_width(next)
}
