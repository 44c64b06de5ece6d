//! The vocabulary as files state it.

use super::super::testing::GgufBuilder;
use super::*;
use crate::tokenizer::SpacePrefix;

const KINDS: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";

/// A vocabulary of one word, without kinds.
fn plain() -> GgufBuilder {
    GgufBuilder::new()
        .text("tokenizer.ggml.model", "gpt2")
        .strings("tokenizer.ggml.tokens", &["a"])
}

#[test]
fn a_vocabulary_is_handed_over_whole() {
    let builder = with_vocabulary(GgufBuilder::new())
        .value("tokenizer.ggml.add_bos_token", Value::Bool(true));
    let parts = open(&builder).unwrap().tokenizer_parts().unwrap();
    assert_eq!(
        (parts.model.as_str(), parts.pre.as_str()),
        ("gpt2", "smollm")
    );
    assert_eq!(parts.tokens, ["<|end|>", "a", "\u{120}b"]);
    assert_eq!(parts.kinds, [3, 1, 1]);
    assert_eq!(parts.merges, ["\u{120} b"]);
    assert_eq!((parts.bos, parts.eos, parts.add_bos), (None, Some(0), true));
}

#[test]
fn a_vocabulary_of_pieces_says_how_it_treats_spaces() {
    let builder = plain()
        .value(SCORES, Value::Array(Array::F32(vec![-1.5])))
        .u32("tokenizer.ggml.unknown_token_id", 0)
        .u32("tokenizer.ggml.eot_token_id", 0);
    let parts = open(&builder).unwrap().tokenizer_parts().unwrap();
    assert_eq!(
        (parts.scores, parts.unknown, parts.ends),
        (vec![-1.5], Some(0), vec![0])
    );
    assert_eq!(
        (
            parts.spaces.prefix,
            parts.spaces.strip,
            parts.spaces.squeeze
        ),
        (SpacePrefix::Segments, true, false)
    );
    let builder = plain()
        .value("tokenizer.ggml.add_space_prefix", Value::Bool(false))
        .value("tokenizer.ggml.remove_extra_whitespaces", Value::Bool(true));
    let spaces = open(&builder).unwrap().tokenizer_parts().unwrap().spaces;
    assert_eq!(
        (spaces.prefix, spaces.strip, spaces.squeeze),
        (SpacePrefix::Never, false, true)
    );
}

#[test]
fn a_file_without_kinds_has_ordinary_tokens() {
    let parts = open(&plain()).unwrap().tokenizer_parts().unwrap();
    assert_eq!((parts.kinds, parts.pre.as_str()), (vec![1], "default"));
}

#[test]
fn a_file_without_vocabulary_lists_all_that_is_missing() {
    let file = open(&GgufBuilder::new().text("general.architecture", "llama")).unwrap();
    let error = file.tokenizer_parts().unwrap_err().to_string();
    assert!(
        error.ends_with("tokenizer: missing tokenizer.ggml.model, tokenizer.ggml.tokens"),
        "{error}"
    );
}

/// Arrays of one element, in every type of the format.
fn one_element() -> Vec<Array> {
    let mut text = Strings::default();
    text.push("1");
    vec![
        Array::U8(vec![1]),
        Array::I8(vec![1]),
        Array::U16(vec![1]),
        Array::I16(vec![1]),
        Array::U32(vec![1]),
        Array::I32(vec![1]),
        Array::U64(vec![1]),
        Array::I64(vec![1]),
        Array::F32(vec![1.0]),
        Array::F64(vec![1.0]),
        Array::Bool(vec![true]),
        Array::Text(text),
    ]
}

#[test]
fn kinds_and_scores_are_taken_in_their_own_element_type_only() {
    for array in one_element() {
        for (key, right) in [(KINDS, "i32"), (SCORES, "f32")] {
            let file = open(&plain().value(key, Value::Array(array.clone()))).unwrap();
            let parts = file.tokenizer_parts();
            if array.kind() == right {
                assert_eq!(parts.unwrap().kinds, [1]);
                continue;
            }
            let error = parts.unwrap_err().to_string();
            let message = format!(
                "{key}: expected an array of {right}, found array of {}",
                array.kind()
            );
            assert!(error.ends_with(&message), "{error}");
        }
    }
}

#[test]
fn arrays_of_another_length_than_the_vocabulary_are_refused() {
    for count in [0, 2] {
        let kinds = plain().i32s(KINDS, &vec![1; count]);
        let error = open(&kinds).unwrap().tokenizer_parts().unwrap_err();
        assert_eq!(
            (
                error.field.as_str(),
                matches!(error.fault, Fault::Invalid(_))
            ),
            (KINDS, true)
        );
        let scores = plain().value(SCORES, Value::Array(Array::F32(vec![0.0; count])));
        assert_eq!(
            open(&scores).unwrap().tokenizer_parts().unwrap_err().field,
            SCORES
        );
    }
}

#[test]
fn special_tokens_outside_the_vocabulary_are_refused() {
    for key in [
        "tokenizer.ggml.bos_token_id",
        "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.eot_token_id",
        "tokenizer.ggml.unknown_token_id",
    ] {
        for id in [1, u32::MAX] {
            let error = open(&plain().u32(key, id))
                .unwrap()
                .tokenizer_parts()
                .unwrap_err();
            assert_eq!(error.field, key);
        }
        let wrong = plain().text(key, "0");
        assert!(matches!(
            open(&wrong).unwrap().tokenizer_parts().unwrap_err().fault,
            Fault::WrongType { .. }
        ));
    }
}

#[test]
fn a_chat_template_is_optional_text() {
    const KEY: &str = "tokenizer.chat_template";
    assert_eq!(open(&plain()).unwrap().chat_template(), None);
    assert_eq!(
        open(&plain().text(KEY, "{{ x }}")).unwrap().chat_template(),
        Some("{{ x }}")
    );
}
