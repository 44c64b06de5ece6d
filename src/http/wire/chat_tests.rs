//! Which chat requests are read, how, and how the others are refused.

use serde_json::{Value, json};

use super::*;
use crate::engine::Sampling;

/// A request with `members` beside one message.
fn body(members: Value) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": "hi"}]});
    let Value::Object(members) = members else {
        panic!("members are an object")
    };
    body.as_object_mut().unwrap().extend(members);
    body
}

fn read(members: Value) -> ChatCall {
    ChatCall::read(body(members), || 42).unwrap()
}

#[track_caller]
fn refused(members: Value, code: Code, param: &str) {
    let shown = members.to_string();
    let error = ChatCall::read(body(members), || 42).expect_err(&shown);
    assert_eq!(error.code(), code, "{shown}");
    assert_eq!(error.param(), Some(param), "{shown}");
}

#[test]
fn what_is_not_said_has_openais_defaults() {
    let call = read(json!({}));
    assert_eq!(call.model, "");
    assert!(!call.stream && !call.include_usage);
    assert_eq!(
        (call.options.max_tokens, call.options.stop.len()),
        (None, 0)
    );
    let sampling = Sampling {
        temperature: 1.0,
        seed: 42,
        ..Sampling::default()
    };
    assert_eq!(call.options.sampling, sampling);
}

#[test]
fn every_sampling_field_reaches_the_engine() {
    let call = read(json!({
        "temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.1, "repetition_penalty": 1.1,
        "presence_penalty": -1, "frequency_penalty": 2, "seed": -3,
    }));
    let sampling = Sampling {
        temperature: 0.5,
        top_k: 7,
        top_p: 0.9,
        min_p: 0.1,
        repetition_penalty: 1.1,
        presence_penalty: -1.0,
        frequency_penalty: 2.0,
        logit_bias: Vec::new(),
        seed: (-3_i64).cast_unsigned(),
    };
    assert_eq!(call.options.sampling, sampling);
}

#[test]
fn numbers_outside_their_range_are_named() {
    let cases = [
        (
            "temperature",
            vec![
                json!(2.01),
                json!(-0.1),
                json!(1e300),
                json!("NaN"),
                json!([1]),
            ],
        ),
        ("top_p", vec![json!(0), json!(1.1), json!("1")]),
        ("min_p", vec![json!(-0.1), json!(1.5)]),
        ("repetition_penalty", vec![json!(0), json!(10.5), json!(-1)]),
        (
            "presence_penalty",
            vec![json!(2.5), json!(-2.5), json!(true)],
        ),
        ("frequency_penalty", vec![json!(2.5), json!(-2.5)]),
        ("top_k", vec![json!(-1), json!(1.5)]),
        (
            "seed",
            vec![
                json!(1e22),
                json!(-1e22),
                json!("7"),
                json!(1.5),
                json!(u64::MAX),
            ],
        ),
        (
            "max_tokens",
            vec![json!(0), json!(-1), json!(1.5), json!("5")],
        ),
        ("max_completion_tokens", vec![json!(0)]),
        (
            "n",
            vec![json!(0), json!(-1), json!(9), json!(1_000_000), json!(1.0)],
        ),
        ("stream", vec![json!("true"), json!(1)]),
        ("model", vec![json!(5)]),
    ];
    for (field, values) in cases {
        for value in values {
            refused(json!({field: value}), Code::InvalidParameter, field);
        }
    }
    assert_eq!(
        read(json!({"seed": i64::MAX})).options.sampling.seed,
        i64::MAX.cast_unsigned()
    );
}

#[test]
fn stops_are_a_text_or_a_few_and_never_empty() {
    assert_eq!(read(json!({"stop": "END"})).options.stop, ["END"]);
    assert_eq!(
        read(json!({"stop": ["a", "b\n"]})).options.stop,
        ["a", "b\n"]
    );
    assert_eq!(read(json!({"stop": "版".repeat(64)})).options.stop.len(), 1);
    for none in [json!(null), json!([])] {
        assert!(read(json!({"stop": none})).options.stop.is_empty());
    }
    let many = vec!["x"; 17];
    for (value, param) in [
        (json!(""), "stop"),
        (json!([""]), "stop[0]"),
        (json!(["", "END"]), "stop[0]"),
        (json!(["END", 1]), "stop[1]"),
        (json!(7), "stop"),
        (json!(many), "stop"),
        (json!("x".repeat(65)), "stop"),
    ] {
        refused(json!({"stop": value}), Code::InvalidParameter, param);
    }
}

#[test]
fn both_names_of_max_tokens_must_agree() {
    assert_eq!(read(json!({"max_tokens": 5})).options.max_tokens, Some(5));
    let both = json!({"max_tokens": 5, "max_completion_tokens": 5});
    assert_eq!(read(both).options.max_tokens, Some(5));
    let clash = json!({"max_tokens": 5, "max_completion_tokens": 5000});
    refused(clash, Code::InvalidParameter, "max_tokens");
}

#[test]
fn what_is_not_implemented_is_refused_by_name() {
    for (name, value) in [
        ("tools", json!([{"type": "function"}])),
        ("tool_choice", json!("required")),
        ("response_format", json!({"type": "json_object"})),
        ("store", json!(true)),
        ("modalities", json!(["audio"])),
        ("functions", json!([])),
        ("reasoning_effort", json!("low")),
        ("service_tier", json!("flex")),
        ("strategy", json!("beam")),
        ("temprature", json!(1)),
    ] {
        refused(json!({name: value}), Code::UnsupportedParameter, name);
    }
    let nested = json!({"stream": true, "stream_options": {"include_usage": true, "x": 1}});
    refused(nested, Code::UnsupportedParameter, "stream_options.x");
}

#[test]
fn what_clients_send_without_meaning_anything_passes() {
    read(json!({
        "n": 1, "logprobs": false, "top_logprobs": 0, "logit_bias": {}, "tools": [], "tool_choice": "none",
        "response_format": {"type": "text"}, "store": false, "user": "u", "metadata": {"run": "7"},
        "parallel_tool_calls": true, "service_tier": "auto", "modalities": ["text"], "seed": null,
    }));
    refused(
        json!({"metadata": {"run": 7}}),
        Code::InvalidParameter,
        "metadata.run",
    );
}

#[test]
fn choices_likelihoods_and_what_ends_an_answer_reach_the_engine() {
    let call = read(json!({
        "n": 8, "logprobs": true, "top_logprobs": 20, "logit_bias": {"5": -100, "0": 1.5},
        "stop_token_ids": [7, 8], "ignore_eos": true, "min_tokens": 4,
    }));
    let options = call.options;
    assert_eq!(
        (call.n, options.logprobs, options.prompt_logprobs),
        (8, Some(20), None)
    );
    assert_eq!(options.sampling.logit_bias, [(5, -100.0), (0, 1.5)]);
    assert_eq!(options.stop_token_ids, [7, 8]);
    assert_eq!((options.ignore_eos, options.min_tokens), (true, 4));
    assert_eq!(read(json!({"logprobs": true})).options.logprobs, Some(0));
    assert_eq!(
        read(json!({"logprobs": false, "top_logprobs": 0}))
            .options
            .logprobs,
        None
    );
}

#[test]
fn likelihoods_and_bias_that_mean_nothing_are_named() {
    for (members, param) in [
        (json!({"top_logprobs": 5}), "top_logprobs"),
        (
            json!({"logprobs": false, "top_logprobs": 5}),
            "top_logprobs",
        ),
        (
            json!({"logprobs": true, "top_logprobs": 21}),
            "top_logprobs",
        ),
        (
            json!({"logprobs": true, "top_logprobs": -1}),
            "top_logprobs",
        ),
        (json!({"logprobs": 5}), "logprobs"),
        (json!({"logit_bias": [5]}), "logit_bias"),
        (json!({"logit_bias": {"-1": 5}}), "logit_bias.-1"),
        (json!({"logit_bias": {"abc": 5}}), "logit_bias.abc"),
        (json!({"logit_bias": {"05": 5}}), "logit_bias.05"),
        (json!({"logit_bias": {"+5": 5}}), "logit_bias.+5"),
        (
            json!({"logit_bias": {"99999999999": 5}}),
            "logit_bias.99999999999",
        ),
        (json!({"logit_bias": {"5": 1e30}}), "logit_bias.5"),
        (json!({"logit_bias": {"5": "1"}}), "logit_bias.5"),
        (json!({"stop_token_ids": [1, -1]}), "stop_token_ids[1]"),
        (json!({"stop_token_ids": 5}), "stop_token_ids"),
        (json!({"stop_token_ids": vec![1; 65]}), "stop_token_ids"),
        (json!({"min_tokens": -1}), "min_tokens"),
        (json!({"ignore_eos": 1}), "ignore_eos"),
    ] {
        refused(members, Code::InvalidParameter, param);
    }
    let many: serde_json::Map<_, _> = (0..1025).map(|id| (id.to_string(), json!(1))).collect();
    refused(
        json!({"logit_bias": many}),
        Code::InvalidParameter,
        "logit_bias",
    );
}

#[test]
fn usage_at_the_end_is_for_streams() {
    let options = json!({"include_usage": true});
    assert!(read(json!({"stream": true, "stream_options": options})).include_usage);
    refused(
        json!({"stream_options": options}),
        Code::InvalidParameter,
        "stream_options",
    );
}

fn message(message: Value) -> Result<Message, ApiError> {
    ChatCall::read(json!({"messages": [message]}), || 0).map(|mut call| call.messages.remove(0))
}

#[test]
fn messages_are_texts_of_known_roles() {
    let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    for (given, role, content) in [
        (json!({"role": "user", "content": "a"}), "user", "a"),
        (json!({"role": "developer", "content": ""}), "system", ""),
        (json!({"role": "user", "content": parts}), "user", "a\nb"),
        (
            json!({"role": "assistant", "content": "a", "refusal": null, "tool_calls": null}),
            "assistant",
            "a",
        ),
    ] {
        let read = message(given).unwrap();
        assert_eq!((read.role.as_str(), read.content.as_str()), (role, content));
    }
}

#[test]
fn other_messages_are_refused_where_they_differ() {
    use Code::{InvalidParameter, MissingParameter, UnsupportedParameter};
    let image = json!([{"type": "image_url", "image_url": {"url": "x"}}]);
    for (given, code, param) in [
        (json!("hi"), InvalidParameter, "messages[0]"),
        (
            json!({"content": "a"}),
            MissingParameter,
            "messages[0].role",
        ),
        (
            json!({"role": "user"}),
            MissingParameter,
            "messages[0].content",
        ),
        (
            json!({"role": "tool", "content": "a"}),
            UnsupportedParameter,
            "messages[0].role",
        ),
        (
            json!({"role": "wizard", "content": "a"}),
            InvalidParameter,
            "messages[0].role",
        ),
        (
            json!({"role": "user", "content": 5}),
            InvalidParameter,
            "messages[0].content",
        ),
        (
            json!({"role": "user", "content": []}),
            InvalidParameter,
            "messages[0].content",
        ),
        (
            json!({"role": "user", "content": image}),
            UnsupportedParameter,
            "messages[0].content[0].type",
        ),
        (
            json!({"role": "user", "content": "a", "name": "Bo"}),
            UnsupportedParameter,
            "messages[0].name",
        ),
    ] {
        let shown = given.to_string();
        let error = message(given).expect_err(&shown);
        assert_eq!(
            (error.code(), error.param()),
            (code, Some(param)),
            "{shown}"
        );
    }
    for none in [json!({}), json!({"messages": []})] {
        let error = ChatCall::read(none, || 0).unwrap_err();
        assert_eq!(
            (error.code(), error.param()),
            (MissingParameter, Some("messages"))
        );
    }
}
