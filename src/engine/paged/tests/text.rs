//! Texts said exactly: stop texts, whole characters, end tokens.

use std::sync::Arc;

use proptest::prelude::*;

use super::support::{Reader, Rig, config, limits, prompt};
use crate::engine::paged::fake::{END, FakeRunner, Script, byte_tokenizer};
use crate::engine::{Finish, FinishReason, GenerateRequest};
use crate::tokenizer::{Spaces, TokenId, Tokenizer, TokenizerParts};

fn say(text: &[u8], stop: &[&str], max_tokens: usize) -> (Vec<String>, Finish) {
    let mut reader = read(text, stop, max_tokens, GenerateRequest::default());
    let finish = reader.end();
    (reader.deltas, finish)
}

/// Says `text` as `options` want it.
fn read(text: &[u8], stop: &[&str], max_tokens: usize, options: GenerateRequest) -> Reader {
    read_as(byte_tokenizer(), text, stop, max_tokens, options)
}

/// Says tokens of a vocabulary.
fn read_as(
    tokenizer: Arc<Tokenizer>,
    text: &[u8],
    stop: &[&str],
    max_tokens: usize,
    options: GenerateRequest,
) -> Reader {
    let tokens: Vec<TokenId> = text.iter().map(|byte| TokenId::from(*byte)).collect();
    let script = Script::new(byte_tokenizer(), Vec::new(), END).when_tokens("?", tokens);
    let mut runner_limits = limits(256, 4);
    runner_limits.vocab = 257;
    let runner = FakeRunner::scripted(runner_limits, script);
    let mut rig = Rig::speaking(tokenizer, runner, &config());
    let mut reader: Reader = rig.submit(GenerateRequest {
        prompt: prompt("?"),
        max_tokens: Some(max_tokens),
        stop: stop.iter().map(|stop| (*stop).to_owned()).collect(),
        ..options
    });
    rig.settle();
    reader.read();
    reader
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
    let mut reader = read_as(tokenizer, &[1, 2, 3], &[], 100, GenerateRequest::default());
    let finish = reader.end();
    assert_eq!(reader.deltas.concat(), "1 2 3");
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

/// What has a likelihood, as bytes.
fn scored_bytes(reader: &Reader) -> Vec<u8> {
    reader
        .scores
        .iter()
        .map(|score| score.token as u8)
        .collect()
}

/// Fault: likelihoods told of a stop text that the text itself kept back.
#[test]
fn tokens_of_a_stop_text_have_no_likelihood() {
    let scored = || GenerateRequest {
        logprobs: Some(0),
        ..GenerateRequest::default()
    };
    for (text, stop, expected) in [
        ("abSTOP", "STOP", "ab"),
        ("ab。谢", "。谢", "ab"),
        ("abSTO", "STOP", "abSTO"),
        ("好ab", "b", "好a"),
    ] {
        let mut reader = read(text.as_bytes(), &[stop], 100, scored());
        assert_eq!(reader.text(), expected);
        assert_eq!(scored_bytes(&reader), expected.as_bytes(), "{text}");
    }
    let mut cut = read("好".as_bytes(), &[], 2, scored());
    assert_eq!(cut.text(), "");
    assert_eq!(cut.scores.len(), 2, "tokens that made no text are tokens");
}

#[test]
fn stop_tokens_end_without_being_said() {
    let stopped = GenerateRequest {
        stop_token_ids: vec![TokenId::from(b'x'), TokenId::from(b'd')],
        logprobs: Some(0),
        ..GenerateRequest::default()
    };
    let mut reader = read(b"abcdef", &[], 100, stopped);
    let finish = reader.end();
    assert_eq!(
        (reader.text().as_str(), finish.reason),
        ("abc", FinishReason::Stop)
    );
    assert_eq!(
        finish.usage.completion, 4,
        "it counts, as the end token does"
    );
    assert_eq!(scored_bytes(&reader), b"abc");
}

#[test]
fn an_ignored_end_token_is_a_token_without_text() {
    let on = GenerateRequest {
        ignore_eos: true,
        logprobs: Some(0),
        ..GenerateRequest::default()
    };
    let mut reader = read(b"ab", &[], 6, on.clone());
    let finish = reader.end();
    assert_eq!(
        (reader.text().as_str(), finish.reason),
        ("ab", FinishReason::Length)
    );
    assert_eq!((finish.usage.completion, reader.scores.len()), (6, 6));
    let both = GenerateRequest {
        stop_token_ids: vec![END],
        ..on
    };
    let finish = read(b"ab", &[], 6, both).end();
    assert_eq!(finish.reason, FinishReason::Stop, "asked for by its id");
}

#[test]
fn before_the_least_number_of_tokens_nothing_ends_it() {
    let least = |min_tokens| GenerateRequest {
        min_tokens,
        stop_token_ids: vec![TokenId::from(b'c')],
        ..GenerateRequest::default()
    };
    // The script wants to say c third; so long as that may not be, the fake says its lowest token.
    for (min_tokens, said) in [(0, 3), (2, 3), (3, 4), (5, 6)] {
        let mut reader = read(b"abc", &[], 10, least(min_tokens));
        assert_eq!(reader.end().usage.completion, said, "{min_tokens}");
        assert!(reader.text().starts_with("ab"));
    }
    // The end token likewise, without a stop token.
    let own = |min_tokens| GenerateRequest {
        min_tokens,
        ..GenerateRequest::default()
    };
    assert_eq!(read(b"ab", &[], 10, own(2)).end().usage.completion, 3);
    assert_eq!(read(b"ab", &[], 10, own(5)).end().usage.completion, 6);
}

#[test]
fn the_text_of_the_least_tokens_is_not_searched_for_stop_texts() {
    let least = |min_tokens| GenerateRequest {
        min_tokens,
        ..GenerateRequest::default()
    };
    for (min_tokens, expected) in [
        (0, ""),
        (1, "ab"),
        (2, "ab"),
        (3, "abab"),
        (5, "ababab-"),
        (8, "ababab-ab-"),
    ] {
        let mut reader = read(b"ababab-ab-", &["ab"], 100, least(min_tokens));
        assert_eq!(reader.text(), expected, "{min_tokens}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn text_is_what_the_bytes_say_whatever_they_are(
        text in "[ab\u{e9}\u{4f60}]{0,20}",
        stop in "[ab\u{4f60}]{1,3}",
        logprobs in proptest::option::of(0..3_usize),
    ) {
        let options = GenerateRequest { logprobs, ..GenerateRequest::default() };
        let mut reader = read(text.as_bytes(), &[&stop], 200, options);
        let expected = text.find(&stop).map_or(text.as_str(), |at| &text[..at]);
        prop_assert_eq!(reader.text(), expected);
        prop_assert_eq!(reader.reason(), Some(FinishReason::Stop));
        let scored = scored_bytes(&reader);
        prop_assert_eq!(scored, logprobs.map_or(&[][..], |_| expected.as_bytes()));
    }
}
