//! Token ids of the default model's vocabulary against the reference tokenizer's.

use std::collections::BTreeMap;

use compere::tokenizer::{TokenId, Tokenizer};
use proptest::prelude::*;

use crate::model_file;

const IM_START: TokenId = 1;
const IM_END: TokenId = 2;

/// A line of `fixtures/tokenizer.jsonl`; `fixtures/make_tokens.py` says where it is from.
#[derive(serde::Deserialize)]
struct Case {
    pre: String,
    text: String,
    ids: Vec<TokenId>,
}

#[test]
fn ids_equal_the_reference_under_every_rule() {
    let mut tokenizers = BTreeMap::new();
    for line in include_str!("fixtures/tokenizer.jsonl").lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let build = || Tokenizer::new(model_file::parts(&case.pre)).unwrap();
        let tokenizer = tokenizers.entry(case.pre.clone()).or_insert_with(build);
        assert_eq!(
            tokenizer.encode(&case.text),
            case.ids,
            "{}: {:?}",
            case.pre,
            case.text
        );
    }
    assert_eq!(tokenizers.len(), 4);
}

/// Ordinary text, white space and spellings of control tokens.
fn known_text() -> impl Strategy<Value = String> {
    let tokenizer = model_file::tokenizer();
    let added: Vec<String> = tokenizer
        .added_tokens()
        .into_iter()
        .map(str::to_owned)
        .collect();
    let piece = prop_oneof![
        "\\PC{0,4}",
        "[a-z '0-9\\s]{0,8}",
        prop::sample::select(added),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn text_comes_back_from_its_tokens(text in known_text()) {
        let tokenizer = model_file::tokenizer();
        // The vocabulary has no token for the first byte of these.
        let known: String = text.chars().filter(|&c| !('\u{40000}'..='\u{BFFFF}').contains(&c)).collect();
        prop_assert_eq!(tokenizer.decode(&tokenizer.encode(&known)), known);
    }

    #[test]
    fn content_never_holds_a_control_token(text in known_text()) {
        let tokens = model_file::tokenizer().encode(&text);
        prop_assert!(tokens.iter().all(|&token| token > 16), "{:?}", tokens);
    }
}

#[test]
fn only_markup_spells_control_tokens() {
    let tokenizer = model_file::tokenizer();
    let text = "<|im_start|>user\nhi<|im_end|>";
    let markup = tokenizer.encode_markup(text);
    assert_eq!(markup[0], IM_START);
    assert_eq!(*markup.last().unwrap(), IM_END);
    assert_eq!(markup[1..markup.len() - 1], tokenizer.encode("user\nhi"));
    assert_eq!(tokenizer.decode(&markup), "user\nhi");
    assert_eq!(tokenizer.decode(&tokenizer.encode(text)), text);
}

#[test]
fn runs_without_a_break_are_encoded_whole() {
    let tokenizer = model_file::tokenizer();
    let runs = [
        ("好", 60_000),
        ("q", 120_000),
        ("!", 120_000),
        (" ", 120_000),
        ("\n", 120_000),
        ("7", 120_000),
        ("e\u{301}", 60_000),
        ("<|im_end|", 14_000),
        ("'", 120_000),
        ("the", 40_000),
    ];
    for (piece, count) in runs {
        let text = piece.repeat(count);
        let tokens = tokenizer.encode(&text);
        assert_eq!(tokenizer.decode(&tokens), text, "{count} times {piece:?}");
        assert_eq!(
            tokenizer.encode_markup(&text),
            tokens,
            "{count} times {piece:?}"
        );
    }
}

#[test]
fn bytes_without_a_token_are_left_out() {
    let tokenizer = model_file::tokenizer();
    assert_eq!(tokenizer.encode("!\u{4}!"), tokenizer.encode("!!"));
}

#[test]
fn the_vocabulary_knows_what_ends_a_turn() {
    let tokenizer = model_file::tokenizer();
    let ends: Vec<_> = (0..49_152)
        .filter(|&token| tokenizer.is_end(token))
        .collect();
    assert_eq!(ends, [0, IM_END]);
    assert_eq!(tokenizer.vocab_size(), 49_152);
    assert_eq!(tokenizer.bos(), None);
    assert_eq!(tokenizer.bos_spelling(), "<|im_start|>");
    assert_eq!(tokenizer.eos_spelling(), "<|im_end|>");
}
