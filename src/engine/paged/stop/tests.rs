//! The matcher against the plain definition of what it does.

use proptest::prelude::*;

use super::StopMatcher;

/// Feeds pieces; returns what came out of each, and whether a stop text ended it.
fn feed(stops: &[&str], pieces: &[&str]) -> (Vec<String>, bool) {
    let mut matcher = StopMatcher::new(stops.iter().map(|stop| (*stop).to_owned()).collect());
    let mut deltas = Vec::new();
    for piece in pieces {
        let mut out = String::new();
        let stopped = matcher.push(piece, &mut out);
        deltas.push(out);
        if stopped {
            return (deltas, true);
        }
    }
    let mut rest = String::new();
    matcher.finish(&mut rest);
    deltas.push(rest);
    (deltas, false)
}

/// The text before the stop text that is complete first, the longest of those that end there.
fn naive(stops: &[&str], text: &str) -> Option<String> {
    let ends = text
        .char_indices()
        .map(|(at, character)| at + character.len_utf8());
    for end in ends {
        let matching = stops.iter().filter(|stop| text[..end].ends_with(**stop));
        if let Some(longest) = matching.map(|stop| stop.len()).max() {
            return Some(text[..end - longest].to_owned());
        }
    }
    None
}

#[test]
fn no_stop_texts_hold_nothing_back() {
    assert_eq!(feed(&[], &["a", "", "bc"]).0, ["a", "", "bc", ""]);
}

#[test]
fn only_what_may_become_a_stop_text_is_held_back() {
    let (deltas, stopped) = feed(&["STOP"], &["aS", "T", "x", "ST", "OP", "no"]);
    assert_eq!(deltas, ["a", "", "STx", "", ""]);
    assert!(stopped);
}

#[test]
fn a_failed_start_may_hold_the_next_one() {
    assert_eq!(feed(&["aab"], &["a", "a", "a", "b"]).0, ["", "", "a", ""]);
}

#[test]
fn the_longest_of_those_that_end_together_is_cut() {
    assert_eq!(
        feed(&["c", "abc"], &["xab", "c"]),
        (vec!["x".to_owned(), String::new()], true)
    );
}

#[test]
fn the_first_complete_one_wins() {
    let (deltas, stopped) = feed(&["bcd", "c"], &["abcd"]);
    assert_eq!((deltas.concat().as_str(), stopped), ("ab", true));
}

#[test]
fn a_held_back_end_is_given_back() {
    let (deltas, stopped) = feed(&["谢谢"], &["好谢"]);
    assert_eq!(deltas, ["好", "谢"]);
    assert!(!stopped);
}

fn texts(letters: &'static str) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(letters, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn it_cuts_like_the_plain_search_however_the_text_is_split(
        stops in prop::collection::vec("[ab\u{4f60}]{1,4}", 0..4),
        pieces in texts("[ab\u{4f60}]{0,4}"),
    ) {
        let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let text = pieces.concat();
        let (deltas, stopped) = feed(&stops, &pieces);
        let expected = naive(&stops, &text);
        prop_assert_eq!(stopped, expected.is_some());
        prop_assert_eq!(deltas.concat(), expected.unwrap_or(text));
    }

    /// What is shown at any moment is never taken back by a stop text that comes later.
    #[test]
    fn nothing_shown_is_part_of_a_later_match(
        stop in "[ab]{1,5}",
        pieces in texts("[ab]{0,3}"),
    ) {
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let mut matcher = StopMatcher::new(vec![stop.clone()]);
        let (mut shown, mut fed) = (String::new(), String::new());
        for piece in pieces {
            fed.push_str(piece);
            if matcher.push(piece, &mut shown) {
                break;
            }
            let held = &fed[shown.len()..];
            prop_assert!(stop.starts_with(held) && held.len() < stop.len());
            let longer = (0..shown.len()).map(|at| &fed[at..]);
            prop_assert!(longer.into_iter().all(|end| !stop.starts_with(end)));
        }
    }
}
