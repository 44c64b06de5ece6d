//! What counts as text that somebody wrote.

use unicode_properties::{GeneralCategory as Category, UnicodeGeneralCategory};

/// Whether nobody would see anything: white space, zero-width characters, controls, lone marks.
pub(super) fn is_blank(text: &str) -> bool {
    text.chars().all(is_invisible)
}

fn is_invisible(letter: char) -> bool {
    // Letters and symbols by category, but drawn as nothing: fillers and the empty Braille cell.
    let drawn_as_nothing = matches!(
        letter,
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{2800}'
    );
    drawn_as_nothing
        || letter.is_whitespace()
        || matches!(
            letter.general_category(),
            Category::Control
                | Category::Format
                | Category::NonspacingMark
                | Category::EnclosingMark
                | Category::LineSeparator
                | Category::ParagraphSeparator
                | Category::SpaceSeparator
                | Category::Unassigned
        )
}

/// Whether a text names something: not blank, no control characters, so that it is safe in a log line.
pub(super) fn is_name(text: &str) -> bool {
    !is_blank(text) && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_blank() {
        for blank in [
            "",
            "   ",
            "\u{200b}\u{200b}",
            "\u{feff}",
            "\u{2060}\u{200d}",
            "\u{fe0f}",
            "\t\n\u{3000}",
            "\u{3164}",
            "\u{e0020}",
            "\u{202e}\u{2066}",
        ] {
            assert!(is_blank(blank), "{blank:?}");
        }
    }

    #[test]
    fn what_somebody_sees_is_not() {
        for seen in [
            "a",
            "。",
            "……",
            "？！",
            "👏👏👏",
            "👨\u{200d}👩",
            " \u{200b}1",
            "e\u{301}",
        ] {
            assert!(!is_blank(seen), "{seen:?}");
        }
    }

    #[test]
    fn names_carry_no_control_characters() {
        assert!(is_name("room 1"));
        for bad in ["", "\u{200b}", "a\nb", "a\u{1b}[31m", "a\u{85}"] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }
}
