//! Turns: a stream and one object say the same, a turn can be stopped, and each is counted once.

use compere::engine::{FinishReason, SubmitError};
use serde_json::{Value, json};

use crate::support::client::Event;
use crate::support::engine::{Act, say};
use crate::support::{MODEL, TestServer, until};

const RESPOND: &str = "/v1/avatar/respond";

fn body(stream: bool) -> Value {
    json!({
        "room_id": "r1",
        "stream": stream,
        "comments": [{"comment_id": "x", "text": "is it waterproof?"}, {"text": "and warm?"}],
        "context": {"product_id": "trail-jacket", "facts": {"rain": "up to 10,000 mm"}},
    })
}

fn named<'a>(events: &'a [Event], name: &str) -> Vec<&'a Event> {
    let named = events
        .iter()
        .filter(|event| event.name.as_deref() == Some(name));
    named.collect()
}

/// Asserts that so many turns were accepted and each is in flight or has one outcome.
#[track_caller]
fn assert_conserved(server: &TestServer, accepted: u32) {
    assert_eq!(server.conserved(), f64::from(accepted));
}

#[test]
fn a_stream_says_what_one_object_says() {
    let server = TestServer::start();
    server.engine.script(
        [
            "Yes, up to ",
            "10,000 mm. ",
            "它很",
            "暖和！还有",
            "\r\n[x] **Bye**.",
        ]
        .map(say),
    );
    let whole = server.post(RESPOND, body(false));
    assert_eq!(whole.status(), 200, "{}", whole.body);
    let mut events = server.stream(RESPOND, body(true));
    let id = events.head.header("x-response-id").unwrap().to_owned();
    let events: Vec<_> = events.by_ref().collect();
    let (whole_id, whole) = (
        whole.head.header("x-response-id").unwrap().to_owned(),
        whole.json(),
    );

    let mut started = events[0].json();
    assert_eq!(events[0].name.as_deref(), Some("response.started"));
    assert_eq!(
        (&started["response_id"], &started["model"]),
        (&json!(id), &json!(MODEL))
    );
    assert_eq!(started["comment_ids"], json!(["x", "c2"]));
    assert_eq!(whole["response_id"], json!(whole_id));
    started["response_id"] = whole["started"]["response_id"].clone();
    started["queue_ms"] = whole["started"]["queue_ms"].clone();
    assert_eq!(started, whole["started"]);

    let segments: Vec<_> = named(&events, "segment")
        .iter()
        .map(|event| event.json())
        .collect();
    assert_eq!(json!(segments), whole["segments"]);
    assert!(segments.len() > 1);
    let text: String = segments
        .iter()
        .map(|segment| segment["text"].as_str().unwrap())
        .collect();
    assert_eq!(text, "Yes, up to 10,000 mm. 它很暖和！还有\r\n[x] **Bye**.");

    let mut completed = events.last().unwrap().json();
    assert_eq!(
        events.last().unwrap().name.as_deref(),
        Some("response.completed")
    );
    assert_eq!(completed["finish_reason"], "stop");
    completed["timings"] = whole["completed"]["timings"].clone();
    assert_eq!(completed, whole["completed"]);
    assert_eq!(events.len(), segments.len() + 2, "one start, one end");
    assert_conserved(&server, 2);
}

#[test]
fn the_one_line_of_the_documentation_works() {
    let server = TestServer::start();
    let line = r#"{"room_id":"r1","comments":[{"text":"is it waterproof?"}],"context":{"product_id":"trail-jacket"}}"#;
    let answer = server.post(RESPOND, line).json();
    assert_eq!(answer["segments"][0]["tts_text"], "Yes, it is waterproof.");
    assert_eq!(answer["segments"][0]["reply_to"], json!(["c1"]));
}

fn cancel(server: &TestServer, id: &str, body: &str) -> u16 {
    let mut client = server.client();
    let kind = if body.is_empty() {
        ""
    } else {
        "content-type: application/json\r\n"
    };
    client.request(
        "POST",
        &format!("/v1/avatar/responses/{id}/cancel"),
        kind,
        body,
    );
    client.response().status()
}

#[test]
fn a_turn_can_be_stopped_before_its_first_segment_and_after() {
    let server = TestServer::start();
    for (script, body, heard) in [
        (vec![Act::Hold], String::new(), 0),
        (
            vec![say("First part. "), Act::Hold, say("Never.")],
            r#"{"played_through_seq":0}"#.to_owned(),
            1,
        ),
    ] {
        server.engine.script(script);
        let mut events = server.stream(RESPOND, self::body(true));
        let id = events.head.header("x-response-id").unwrap().to_owned();
        let mut seen = vec![events.next().unwrap()];
        seen.extend(events.by_ref().take(heard));
        assert_eq!(cancel(&server, &id, &body), 200);
        seen.extend(events);
        assert_eq!(seen.len(), heard + 2);
        assert_eq!(seen.last().unwrap().json()["finish_reason"], "cancelled");
        until("the engine was told", || {
            server
                .engine
                .counts()
                .running
                .load(std::sync::atomic::Ordering::SeqCst)
                == 0
        });
        until("it is forgotten", || cancel(&server, &id, "") == 404);
    }
    assert_conserved(&server, 2);
    assert_eq!(
        server.metric("avatar_turns_total{outcome=\"cancelled\"}"),
        2.0
    );
}

#[test]
fn unknown_turns_cannot_be_stopped() {
    let server = TestServer::start();
    for id in ["resp_0", "%ff", "..%2f"] {
        server
            .post(&format!("/v1/avatar/responses/{id}/cancel"), "{}")
            .error(404, "response_not_found");
    }
    let error = server.post(
        "/v1/avatar/responses/x/cancel",
        r#"{"played_through_seq":"2"}"#,
    );
    assert_eq!(
        error.error(400, "invalid_parameter")["param"],
        "played_through_seq"
    );
}

#[test]
fn a_failed_turn_says_so_and_what_to_speak() {
    let server = TestServer::start();
    let failure = || Act::End(FinishReason::Error("the pass failed".to_owned()));
    server.engine.script([say("First part. "), failure()]);
    let events: Vec<_> = server.stream(RESPOND, body(true)).collect();
    let last = events.last().unwrap();
    assert_eq!(last.name.as_deref(), Some("response.failed"));
    let failed = last.json();
    assert_eq!(failed["code"], "engine_error");
    assert!(!failed["fallback"]["tts_text"].as_str().unwrap().is_empty());
    assert!(named(&events, "response.completed").is_empty());

    let whole = server.post(RESPOND, body(false));
    whole.error(500, "engine_error");
    let whole = whole.json();
    assert_eq!(
        (&whole["failed"], &whole["fallback"]),
        (&failed, &failed["fallback"])
    );
    assert_eq!(
        whole["segments"].as_array().unwrap().len(),
        named(&events, "segment").len()
    );
    assert_conserved(&server, 2);
    assert_eq!(server.metric("avatar_turns_total{outcome=\"failed\"}"), 2.0);
}

#[test]
fn a_refused_turn_says_why_and_what_to_speak() {
    let server = TestServer::start();
    let refused = |error: SubmitError| {
        server.engine.refuse(error);
        server.post(RESPOND, body(true))
    };
    let full = refused(SubmitError::QueueFull { limit: 256 });
    full.error(429, "queue_full");
    assert_eq!(full.head.header("retry-after"), Some("1"));
    assert!(full.json()["fallback"]["tts_text"].is_string());
    let stopped = refused(SubmitError::Stopped);
    stopped.error(503, "engine_stopped");
    assert!(stopped.json()["fallback"]["tts_text"].is_string());
    let long = refused(SubmitError::ContextLength {
        prompt: 5000,
        max_tokens: 10,
        limit: 4096,
    });
    long.error(400, "context_length_exceeded");
    assert!(long.json()["fallback"]["tts_text"].is_string());
    let blank = server.post(
        RESPOND,
        json!({"room_id": "r", "comments": [{"text": "\u{200b}"}]}),
    );
    blank.error(400, "invalid_parameter");
    assert!(blank.json()["fallback"]["tts_text"].is_string());
    for reason in [
        "queue_full",
        "stopped",
        "context_length",
        "invalid_parameter",
    ] {
        let series = format!("avatar_turns_rejected_total{{reason=\"{reason}\"}}");
        assert_eq!(server.metric(&series), 1.0, "{reason}");
    }
    assert_conserved(&server, 0);
}

#[test]
fn many_turns_at_once_never_mix() {
    let server = TestServer::start();
    let clients: Vec<_> = (0..40)
        .map(|index| {
            let mut client = server.client();
            let body = json!({
                "room_id": format!("room-{}", index % 8),
                "stream": true,
                "comments": [{"comment_id": format!("comment-{index}"), "text": "hi"}],
            });
            client.post(RESPOND, &body.to_string());
            (index, client)
        })
        .collect();
    for (index, client) in clients {
        let events: Vec<_> = client.events().collect();
        let own = json!([format!("comment-{index}")]);
        let started = named(&events, "response.started");
        assert_eq!(started[0].json()["comment_ids"], own);
        assert!(
            named(&events, "segment")
                .iter()
                .all(|event| event.json()["reply_to"] == own)
        );
        assert_eq!(events.last().unwrap().json()["finish_reason"], "stop");
    }
    assert_conserved(&server, 40);
}

#[test]
fn a_harness_that_is_not_there_is_refused_by_name_and_never_another_one_speaks() {
    let server = TestServer::start();
    let version = "0".repeat(64);
    for (harness, param) in [
        (json!({"name": "nobody"}), "harness.name"),
        (json!({"label": "canary"}), "harness.label"),
        (json!({"version": version}), "harness.version"),
    ] {
        let mut asked = body(false);
        asked["harness"] = harness;
        let refused = server.post(RESPOND, asked);
        assert_eq!(refused.status(), 404, "{}", refused.body);
        let refused = refused.json();
        assert_eq!(refused["error"]["code"], "harness_not_found");
        assert_eq!(refused["error"]["param"], param);
        assert!(refused["fallback"]["tts_text"].is_string());
    }
    let mut asked = body(false);
    asked["harness"] = json!({"name": "live-room", "label": "production"});
    let answer = server.post(RESPOND, asked).json();
    let started = &answer["started"]["harness"];
    assert_eq!(
        (&started["name"], &started["label"]),
        (&json!("live-room"), &json!("production"))
    );
    assert_eq!(started["version"], answer["completed"]["harness_version"]);
    assert_conserved(&server, 1);
}
