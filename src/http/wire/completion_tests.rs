//! Which text completion requests are read, how, and how the others are refused.

use super::*;
use crate::engine::Sampling;
use crate::http::error::Code;

fn body(members: Value) -> Value {
    let mut body = json!({"prompt": "once"});
    if let (Value::Object(body), Value::Object(members)) = (&mut body, members) {
        body.extend(members);
    }
    body
}

fn read(members: Value) -> CompletionCall {
    CompletionCall::read(body(members), || 42).unwrap()
}

#[track_caller]
fn refused(members: Value, code: Code, param: &str) {
    let shown = members.to_string();
    let error = CompletionCall::read(body(members), || 42).expect_err(&shown);
    assert_eq!(error.code(), code, "{shown}");
    assert_eq!(error.param(), Some(param), "{shown}");
}

#[test]
fn prompts_are_texts_or_token_ids_or_lists_of_them() {
    let text = |text: &str| RawPrompt::Text(text.to_owned());
    let ids = |ids: &[u32]| RawPrompt::Tokens(ids.to_vec());
    for (given, expected) in [
        (json!("a"), vec![text("a")]),
        (json!(""), vec![text("")]),
        (json!(["a", "b"]), vec![text("a"), text("b")]),
        (
            json!([5, 0, 4_294_967_295_u32]),
            vec![ids(&[5, 0, u32::MAX])],
        ),
        (json!([[5], [6, 7]]), vec![ids(&[5]), ids(&[6, 7])]),
        (json!(["a", [6]]), vec![text("a"), ids(&[6])]),
    ] {
        assert_eq!(read(json!({"prompt": given})).prompts, expected);
    }
    for (given, param) in [
        (json!(5), "prompt"),
        (json!({"text": "a"}), "prompt"),
        (json!([]), "prompt"),
        (json!([1, -1]), "prompt[1]"),
        (json!([1, 1.5]), "prompt[1]"),
        (json!([4_294_967_296_u64]), "prompt[0]"),
        (json!(["a", 5]), "prompt[1]"),
        (json!([[1], [2, "x"]]), "prompt[1][1]"),
        (json!(["a", null]), "prompt[1]"),
        (json!(vec!["x"; 65]), "prompt"),
    ] {
        refused(json!({"prompt": given}), Code::InvalidParameter, param);
    }
    refused(json!({"prompt": null}), Code::MissingParameter, "prompt");
}

#[test]
fn what_is_not_said_has_its_default() {
    let call = read(json!({}));
    assert!(!call.stream && !call.echo && !call.include_usage && !call.seeded);
    assert!(read(json!({"seed": 0})).seeded);
    assert_eq!((call.n, call.options.max_tokens), (1, None));
    assert_eq!(
        (call.options.logprobs, call.options.prompt_logprobs),
        (None, None)
    );
    let sampling = Sampling {
        temperature: 1.0,
        seed: 42,
        ..Sampling::default()
    };
    assert_eq!(call.options.sampling, sampling);
}

#[test]
fn likelihoods_of_the_prompt_come_with_its_echo() {
    let asked = |members| {
        let options = read(members).options;
        (options.logprobs, options.prompt_logprobs)
    };
    assert_eq!(asked(json!({"logprobs": 0})), (Some(0), None));
    assert_eq!(
        asked(json!({"logprobs": 20, "echo": true})),
        (Some(20), Some(20))
    );
    assert_eq!(asked(json!({"echo": true})), (None, None));
}

#[test]
fn no_tokens_are_for_scoring_only() {
    let scoring = json!({"max_tokens": 0, "echo": true, "logprobs": 1});
    assert_eq!(read(scoring).options.max_tokens, Some(0));
    for members in [
        json!({"max_tokens": 0}),
        json!({"max_tokens": 0, "echo": true}),
        json!({"max_tokens": 0, "logprobs": 1}),
        json!({"max_tokens": -1}),
    ] {
        refused(members, Code::InvalidParameter, "max_tokens");
    }
}

#[test]
fn what_is_not_implemented_or_out_of_range_is_named() {
    use Code::{InvalidParameter, UnsupportedParameter};
    for (name, value, code) in [
        ("suffix", json!("end"), UnsupportedParameter),
        ("suffix", json!(""), UnsupportedParameter),
        ("best_of", json!(2), UnsupportedParameter),
        ("messages", json!([]), UnsupportedParameter),
        ("top_logprobs", json!(2), UnsupportedParameter),
        ("max_completion_tokens", json!(2), UnsupportedParameter),
        ("n", json!(0), InvalidParameter),
        ("n", json!(9), InvalidParameter),
        ("logprobs", json!(21), InvalidParameter),
        ("logprobs", json!(true), InvalidParameter),
        ("echo", json!(1), InvalidParameter),
        ("temperature", json!(2.5), InvalidParameter),
    ] {
        refused(json!({name: value}), code, name);
    }
    read(json!({"best_of": 1, "suffix": null, "n": 8, "logit_bias": {}}));
}
