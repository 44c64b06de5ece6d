//! The members of `logprobs`.

use super::*;

fn token(text: &str) -> Spelled {
    Spelled {
        text: text.to_owned(),
        bytes: Some(text.as_bytes().to_vec()),
    }
}

fn scored(token: Spelled, logprob: Option<f32>, top: &[(&str, f32)]) -> ScoredToken {
    let top = top
        .iter()
        .map(|(text, logprob)| (self::token(text), *logprob));
    ScoredToken {
        token,
        logprob,
        top: top.collect(),
    }
}

#[test]
fn offsets_count_characters_and_a_character_begins_in_one_token() {
    let part = |bytes: &[u8]| Spelled {
        text: "part".to_owned(),
        bytes: Some(bytes.to_vec()),
    };
    let control = Spelled {
        text: "<|x|>".to_owned(),
        bytes: None,
    };
    let tokens = [
        scored(control, None, &[]),
        scored(token("a好"), Some(-1.0), &[]),
        scored(part(b"\xe4"), Some(-1.0), &[]),
        scored(part(b"\xbd\xa0"), Some(-1.0), &[]),
        scored(token("b"), Some(-1.0), &[]),
    ];
    for (spelled, expected) in [(true, [0, 5, 7, 8, 8]), (false, [0, 0, 2, 3, 3])] {
        let mut at = 0;
        let json = Likelihoods::of(&tokens, &mut at, spelled).into_json();
        assert_eq!(json["text_offset"], json!(expected));
        assert_eq!(at, expected[4] + 1);
    }
}

#[test]
fn the_token_itself_is_among_the_most_likely_and_equal_texts_are_told_once() {
    let json = |scored: &ScoredToken| top(scored);
    let below = scored(token("c"), Some(-7.5), &[("a", -0.5), ("b", -1.5)]);
    assert_eq!(json(&below), json!({"a": -0.5, "b": -1.5, "c": -7.5}));
    let among = scored(token("a"), Some(-0.5), &[("a", -0.5), ("a", -1.5)]);
    assert_eq!(json(&among), json!({"a": -0.5}));
    assert_eq!(json(&scored(token("a"), None, &[])), Value::Null);
}

/// Fault: minus infinity has no JSON, and asking for likelihoods failed the request.
#[test]
fn what_is_ruled_out_is_a_number_all_the_same() {
    let never = scored(
        token("a"),
        Some(f32::NEG_INFINITY),
        &[("b", f32::NEG_INFINITY)],
    );
    let json = Likelihoods::of(&[never], &mut 0, false).into_json();
    assert_eq!(json["token_logprobs"], json!([-9999.0]));
    assert_eq!(json["top_logprobs"], json!([{"b": -9999.0, "a": -9999.0}]));
}
