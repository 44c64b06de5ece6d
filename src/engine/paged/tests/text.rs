//! Texts said exactly: stop texts, whole characters, end tokens.

use std::sync::Arc;

use proptest::prelude::*;

use super::support::{Reader, Rig, config, limits, prompt};
use crate::engine::paged::fake::{END, FakeRunner, Script, byte_tokenizer};
use crate::engine::{Finish, FinishReason, GenerateRequest, Priority, Sampling};
use crate::tokenizer::{Spaces, TokenId, Tokenizer, TokenizerParts};

fn say(text: &[u8], stop: &[&str], max_tokens: usize) -> (Vec<String>, Finish) {
    say_as(byte_tokenizer(), text, stop, max_tokens)
}

/// Says tokens of a vocabulary.
fn say_as(
    tokenizer: Arc<Tokenizer>,
    text: &[u8],
    stop: &[&str],
    max_tokens: usize,
) -> (Vec<String>, Finish) {
    let tokens: Vec<TokenId> = text.iter().map(|byte| TokenId::from(*byte)).collect();
    let script = Script::new(byte_tokenizer(), Vec::new(), END).when_tokens("?", tokens);
    let mut runner_limits = limits(256, 4);
    runner_limits.vocab = 257;
    let runner = FakeRunner::scripted(runner_limits, script);
    let mut rig = Rig::speaking(tokenizer, runner, &config());
    let mut reader: Reader = rig.submit(GenerateRequest {
        prompt: prompt("?"),
        max_tokens: Some(max_tokens),
        sampling: Sampling::default(),
        stop: stop.iter().map(|stop| (*stop).to_owned()).collect(),
        priority: Priority::Normal,
        deadline: None,
    });
    rig.settle();
    let finish = reader.end();
    (reader.deltas, finish)
}

/// Fault: an answer began with the space that a vocabulary of pieces puts in front of every text.
#[test]
fn the_space_in_front_of_the_first_piece_is_not_said() {
    let end = ("</s>".to_owned(), 3);
    let numbers = (0..256).map(|number| (format!("\u{2581}{number}"), 1));
    let (tokens, kinds): (Vec<String>, Vec<i32>) = numbers.chain([end]).unzip();
    let parts = TokenizerParts {
        model: "llama".to_owned(),
        scores: vec![0.0; tokens.len()],
        tokens,
        kinds,
        eos: Some(END),
        spaces: Spaces {
            strip: true,
            ..Spaces::default()
        },
        ..TokenizerParts::default()
    };
    let tokenizer = Arc::new(Tokenizer::new(parts).unwrap());
    let (deltas, finish) = say_as(tokenizer, &[1, 2, 3], &[], 100);
    assert_eq!(deltas.concat(), "1 2 3");
    assert_eq!(finish.usage.completion, 4);
}

const DIGITS: &str = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13";

/// Fault: a stop text over several tokens leaked, or matched only at token edges.
#[test]
fn a_stop_text_over_several_tokens_is_cut_exactly() {
    for (stop, expected) in [
        ("7, 8", "1, 2, 3, 4, 5, 6, "),
        ("1, 1", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1"),
    ] {
        let (deltas, finish) = say(DIGITS.as_bytes(), &[stop], 100);
        assert_eq!(deltas.concat(), expected);
        assert_eq!(finish.reason, FinishReason::Stop);
        assert_eq!(finish.usage.completion, expected.len() + stop.len());
    }
}

#[test]
fn what_was_held_back_is_said_at_the_end() {
    for max_tokens in [5, 100] {
        let (deltas, finish) = say(b"abcSTOx STO", &["STOP"], max_tokens);
        let expected = &"abcSTOx STO"[..max_tokens.min(11)];
        assert_eq!(deltas.concat(), expected);
        let limited = finish.reason == FinishReason::Length;
        assert_eq!(limited, max_tokens == 5);
    }
}

/// Fault: a stop text spelled like the end token never fired, and its spelling leaked.
#[test]
fn the_end_token_ends_without_a_text() {
    let (deltas, finish) = say(b"done", &["<|end|>"], 100);
    assert_eq!(deltas.concat(), "done");
    assert_eq!(finish.reason, FinishReason::Stop);
    assert_eq!(finish.usage.completion, 5, "the end token counts");
    let (deltas, finish) = say(b"", &[], 100);
    assert!(deltas.is_empty());
    assert_eq!(
        (finish.reason, finish.usage.completion),
        (FinishReason::Stop, 1)
    );
}

/// Fault: characters over two tokens became replacement marks.
#[test]
fn characters_are_never_split() {
    let text = "优惠价👍🏽🧧很划算";
    let (deltas, _) = say(text.as_bytes(), &[], 100);
    assert_eq!(deltas.concat(), text);
    assert!(deltas.iter().all(|delta| !delta.contains('\u{fffd}')));
}

/// Fault: a token limit in the middle of a character was an error.
#[test]
fn the_token_limit_cuts_between_characters() {
    let bytes = "🦙🦙".as_bytes();
    for (max_tokens, expected) in [(1, ""), (3, ""), (4, "🦙"), (7, "🦙"), (8, "🦙🦙")] {
        let (deltas, finish) = say(bytes, &[], max_tokens);
        assert_eq!(deltas.concat(), expected);
        assert_eq!(finish.reason, FinishReason::Length);
        assert_eq!(finish.usage.completion, max_tokens);
    }
}

#[test]
fn bytes_that_are_no_text_become_replacement_marks() {
    let (deltas, _) = say(b"a\xff\xe4\xbdb", &[], 100);
    assert_eq!(deltas.concat(), "a\u{fffd}\u{fffd}b");
}

#[test]
fn a_stop_text_of_several_bytes_is_one_text() {
    let (deltas, finish) = say("好的。谢谢。".as_bytes(), &["谢", "。谢"], 100);
    assert_eq!(deltas.concat(), "好的");
    assert_eq!(finish.reason, FinishReason::Stop);
}

#[test]
fn a_stop_text_at_the_token_limit_is_a_stop() {
    let (deltas, finish) = say(b"abcEND", &["END"], 6);
    assert_eq!(deltas.concat(), "abc");
    assert_eq!(finish.reason, FinishReason::Stop);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn text_is_what_the_bytes_say_whatever_they_are(text in "[ab\u{e9}\u{4f60}]{0,20}", stop in "[ab\u{4f60}]{1,3}") {
        let (deltas, finish) = say(text.as_bytes(), &[&stop], 200);
        let expected = text.find(&stop).map_or(text.as_str(), |at| &text[..at]);
        prop_assert_eq!(deltas.concat(), expected);
        prop_assert_eq!(finish.reason, FinishReason::Stop);
    }
}
