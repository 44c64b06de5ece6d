//! Which avatar requests are read, how, and how the others are refused.

use serde_json::{Value, json};

use super::*;
use crate::http::error::Code;

fn read(body: Value) -> Result<RespondCall, ApiError> {
    RespondCall::read(body, &Config::default())
}

/// A request with `members` beside room and comment.
fn with(members: Value) -> Result<RespondCall, ApiError> {
    let mut body = json!({"room_id": "r1", "comments": [{"text": "hi"}]});
    let Value::Object(members) = members else {
        panic!("members are an object")
    };
    body.as_object_mut().unwrap().extend(members);
    read(body)
}

#[track_caller]
fn refused(result: Result<RespondCall, ApiError>, code: Code, param: &str) {
    let error = result.expect_err(param);
    assert_eq!((error.code(), error.param()), (code, Some(param)));
}

#[test]
fn one_line_is_enough() {
    let body = json!({
        "room_id": "r1",
        "comments": [{"text": "is it waterproof?"}],
        "context": {"product_id": "trail-jacket"},
    });
    let call = read(body).unwrap();
    assert!(!call.stream);
    let request = call.request;
    assert_eq!(request.comments[0].comment_id, "c1");
    assert_eq!(request.comments[0].text, "is it waterproof?");
    assert_eq!(request.context.product_id, "trail-jacket");
    assert_eq!(request.deadline, Duration::from_secs(6));
    assert_eq!(
        (request.priority, request.max_chars),
        (Priority::Normal, 120)
    );
}

#[test]
fn every_supported_member_reaches_the_turn() {
    let call = read(json!({
        "room_id": "r1", "stream": true, "deadline_ms": 7000,
        "comments": [{"comment_id": "x", "viewer_id": "u", "nickname": "Bo", "text": "price?"}, {"text": "size?"}],
        "context": {"product_id": "p", "facts": {"z": 1, "a": [true]}, "promotions": ["2 for 1", {"code": "A"}]},
        "policy": {"priority": "high", "supersede": "lower", "max_chars": 60, "language": "zh-Hant-TW"},
    }))
    .unwrap();
    assert!(call.stream);
    let request = call.request;
    let ids: Vec<_> = request
        .comments
        .iter()
        .map(|comment| comment.comment_id.as_str())
        .collect();
    assert_eq!(ids, ["x", "c2"]);
    assert_eq!(request.comments[0].nickname, "Bo");
    assert_eq!(request.deadline, Duration::from_secs(7));
    assert_eq!(request.context.facts.keys().collect::<Vec<_>>(), ["z", "a"]);
    assert_eq!(request.context.promotions.len(), 2);
    assert_eq!((request.priority, request.max_chars), (Priority::High, 60));
    assert_eq!(request.language.as_deref(), Some("zh-Hant-TW"));
    assert_eq!(request.supersede, Supersede::Lower);
}

#[test]
fn what_is_not_implemented_is_refused_by_name() {
    for (members, param) in [
        (json!({"request_id": "k"}), "request_id"),
        (json!({"harness": {"nam": "live"}}), "harness.nam"),
        (json!({"output": {"voices": []}}), "output.voices"),
        (json!({"trigger": {"type": "idle"}}), "trigger.type"),
        (json!({"policy": {"merge": true}}), "policy.merge"),
        (
            json!({"policy": {"on_disconnect": "finish"}}),
            "policy.on_disconnect",
        ),
        (json!({"context": {"spoken": {}}}), "context.spoken"),
        (
            json!({"comments": [{"text": "a", "age_ms": 400}]}),
            "comments[0].age_ms",
        ),
        (
            json!({"comments": [{"text": "a", "level": 3}]}),
            "comments[0].level",
        ),
        (
            json!({"comments": [{"text": "a", "txt": 3}]}),
            "comments[0].txt",
        ),
        (json!({"session_id": "s"}), "session_id"),
    ] {
        refused(with(members), Code::UnsupportedParameter, param);
    }
}

#[test]
fn harness_output_and_debugging_are_read() {
    let version = "0".repeat(64);
    let call = with(json!({
        "harness": {"name": "shop", "version": version}, "debug": true,
        "output": {"emotions": ["happy", "高兴"], "actions": ["show_product"]},
    }))
    .unwrap();
    let harness = &call.request.harness;
    assert_eq!(harness.name.as_deref(), Some("shop"));
    assert_eq!(harness.which.as_deref(), Some(version.as_str()));
    assert_eq!(call.request.output.emotions, ["happy", "高兴"]);
    assert_eq!(call.request.output.actions, ["show_product"]);
    assert!(call.request.debug);
    for (members, param) in [
        (
            json!({"harness": {"label": "a", "version": version}}),
            "harness.version",
        ),
        (json!({"harness": {"version": "abc"}}), "harness.version"),
        (json!({"harness": {"name": ""}}), "harness.name"),
        (json!({"harness": "shop"}), "harness"),
        (
            json!({"output": {"emotions": ["a b"]}}),
            "output.emotions[0]",
        ),
        (json!({"output": {"actions": [1]}}), "output.actions[0]"),
        (json!({"debug": "yes"}), "debug"),
    ] {
        refused(with(members), Code::InvalidParameter, param);
    }
}

#[test]
fn defaults_of_what_is_not_implemented_pass() {
    with(json!({
        "debug": false, "trigger": {"type": "comments", "reason": ""}, "output": {"emotions": [], "actions": []},
        "policy": {"supersede": "none", "merge": false, "on_disconnect": "cancel"},
        "context": {"spoken": null}, "harness": null,
    }))
    .unwrap();
}

#[test]
fn wrong_values_are_named() {
    for (members, param) in [
        (json!({"room_id": ""}), "room_id"),
        (json!({"room_id": "a\nid: 7"}), "room_id"),
        (json!({"room_id": "r".repeat(129)}), "room_id"),
        (json!({"room_id": 5}), "room_id"),
        (json!({"deadline_ms": 99}), "deadline_ms"),
        (json!({"deadline_ms": 120_001}), "deadline_ms"),
        (json!({"comments": {}}), "comments"),
        (json!({"comments": ["hi"]}), "comments[0]"),
        (
            json!({"comments": [{"text": "a"}, {"text": 5}]}),
            "comments[1].text",
        ),
        (
            json!({"comments": [{"text": "a", "comment_id": "x\r"}]}),
            "comments[0].comment_id",
        ),
        (
            json!({"comments": [{"text": "a".repeat(2001)}]}),
            "comments[0].text",
        ),
        (
            json!({"comments": vec![json!({"text": "a"}); 65]}),
            "comments",
        ),
        (json!({"context": {"facts": []}}), "context.facts"),
        (
            json!({"context": {"promotions": [5]}}),
            "context.promotions[0]",
        ),
        (json!({"policy": {"priority": "urgent"}}), "policy.priority"),
        (json!({"policy": {"max_chars": 0}}), "policy.max_chars"),
        (json!({"policy": {"supersede": "some"}}), "policy.supersede"),
        (
            json!({"policy": {"language": "english please"}}),
            "policy.language",
        ),
    ] {
        refused(with(members), Code::InvalidParameter, param);
    }
}

#[test]
fn comments_that_nobody_can_see_are_refused() {
    for blank in ["", "   ", "\u{200b}\u{200b}", "\u{feff}\n"] {
        let comments = json!([{"text": "a"}, {"text": blank}]);
        refused(
            with(json!({"comments": comments})),
            Code::InvalidParameter,
            "comments[1].text",
        );
    }
}

#[test]
fn comments_are_told_apart_by_their_ids() {
    let twice = json!([{"text": "a", "comment_id": "c2"}, {"text": "b"}]);
    refused(
        with(json!({"comments": twice})),
        Code::InvalidParameter,
        "comments[1].comment_id",
    );
}

#[test]
fn room_and_comment_must_be_there() {
    refused(
        read(json!({"comments": [{"text": "a"}]})),
        Code::MissingParameter,
        "room_id",
    );
    refused(
        read(json!({"room_id": "r"})),
        Code::MissingParameter,
        "comments",
    );
    refused(
        with(json!({"comments": []})),
        Code::MissingParameter,
        "comments",
    );
    refused(
        with(json!({"comments": [{}]})),
        Code::MissingParameter,
        "comments[0].text",
    );
    assert_eq!(read(json!([])).unwrap_err().code(), Code::InvalidParameter);
}

#[test]
fn a_cancellation_may_say_what_was_heard() {
    assert_eq!(read_cancel(json!({})).unwrap(), None);
    assert_eq!(
        read_cancel(json!({"played_through_seq": 2})).unwrap(),
        Some(2)
    );
    assert!(read_cancel(json!({"played_through_seq": -1})).is_err());
    assert!(read_cancel(json!({"played": 1})).is_err());
}
