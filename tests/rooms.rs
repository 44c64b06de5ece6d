//! Live rooms: one turn speaks in each, the others wait, give way, or come too late; each is counted once.

use compere::engine::SubmitError;
use serde_json::{Value, json};

use crate::support::client::{Event, SseReader};
use crate::support::engine::{Act, say};
use crate::support::{TestServer, until};

const RESPOND: &str = "/v1/avatar/respond";

fn ask(comment: &str) -> Value {
    json!({
        "room_id": "r1", "stream": true, "deadline_ms": 60_000,
        "comments": [{"comment_id": comment, "text": format!("{comment}?")}],
    })
}

fn with_policy(comment: &str, policy: Value) -> Value {
    let mut body = ask(comment);
    body["policy"] = policy;
    body
}

/// A server whose answers stop in the middle until they are released.
fn holding() -> TestServer {
    let server = TestServer::start();
    let script = [say("First part. "), Act::Hold, say("Second part.")];
    server.engine.script(script);
    server
}

/// A turn that has begun to speak.
fn speaking(server: &TestServer, body: Value) -> SseReader {
    let mut events = server.stream(RESPOND, body);
    assert_eq!(name(&mut events), "response.started");
    assert_eq!(name(&mut events), "segment");
    events
}

fn name(events: &mut SseReader) -> String {
    events.next().and_then(|event| event.name).expect("a name")
}

fn id(events: &SseReader) -> String {
    let id = events.head.header("x-response-id");
    id.expect("the turn has an id").to_owned()
}

fn last(events: impl Iterator<Item = Event>) -> Value {
    events.last().expect("a terminal event").json()
}

fn delete(server: &TestServer, path: &str, body: &str) -> crate::support::client::Response {
    let mut client = server.client();
    client.request("DELETE", path, "content-type: application/json\r\n", body);
    client.response()
}

#[test]
fn a_turn_that_waits_is_told_so_and_speaks_when_the_one_before_has_ended() {
    let server = holding();
    let first = speaking(&server, ask("a"));
    let mut second = server.stream(RESPOND, ask("b"));
    let queued = second.next().expect("it is told at once");
    assert_eq!(queued.name.as_deref(), Some("response.queued"));
    let told = json!({"response_id": id(&second), "position": 1});
    assert_eq!((queued.id, queued.json()), (Some(1), told));
    let mut third = server.client();
    let mut buffered = with_policy("c", json!({"priority": "low"}));
    buffered["stream"] = json!(false);
    third.post(RESPOND, &buffered.to_string());
    until("the third waits", || server.conserved() == 3.0);
    let fourth = server.stream(RESPOND, with_policy("d", json!({"priority": "high"})));
    assert_eq!(server.engine.asked(), 1, "one speaks");
    server.engine.release();
    assert_eq!(last(first)["finish_reason"], "stop");
    for waited in [second, fourth] {
        assert_eq!(last(waited)["finish_reason"], "stop");
    }
    let whole = third.response().json();
    assert_eq!(whole["queued"]["response_id"], whole["response_id"]);
    assert_eq!(whole["queued"]["position"], 2);
    assert_eq!(whole["segments"][0]["reply_to"], json!(["c"]));
    assert_eq!(whole["completed"]["finish_reason"], "stop");
    assert_eq!(server.conserved(), 4.0);
}

/// Fault: what was left of an interrupted answer was delivered with the next one.
#[test]
fn an_interrupted_answer_ends_as_such_and_leaves_nothing_in_the_next() {
    let server = holding();
    let first = speaking(&server, ask("a"));
    let waiting = server.stream(RESPOND, ask("b"));
    server.engine.script([say("All of it.")]);
    let next = server.stream(RESPOND, with_policy("c", json!({"supersede": "all"})));
    let rest: Vec<_> = first.collect();
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(rest[0].name.as_deref(), Some("response.completed"));
    assert_eq!(rest[0].json()["finish_reason"], "superseded");
    assert_eq!(last(waiting)["finish_reason"], "superseded");
    let events: Vec<_> = next.collect();
    let said: Vec<_> = events
        .iter()
        .map(|event| event.json()["text"].clone())
        .collect();
    assert_eq!(said, [json!(null), json!("All of it."), json!(null)]);
    let superseded = "avatar_turns_total{outcome=\"superseded\"}";
    assert_eq!(server.metric(superseded), 2.0);
    assert_eq!(server.conserved(), 3.0);
    until("the engine was told", || {
        let running = &server.engine.counts().running;
        running.load(std::sync::atomic::Ordering::SeqCst) == 0
    });
}

#[test]
fn a_full_queue_is_refused_with_something_to_say() {
    let server = TestServer::turning(|config| config.rooms.waiting = 1);
    server.engine.script([Act::Hold, say("Yes.")]);
    let first = server.stream(RESPOND, ask("a"));
    let second = server.stream(RESPOND, ask("b"));
    let refused = server.post(RESPOND, ask("c"));
    refused.error(429, "queue_full");
    assert_eq!(refused.head.header("retry-after"), Some("1"));
    assert!(refused.json()["fallback"]["tts_text"].is_string());
    let mut elsewhere = ask("d");
    elsewhere["room_id"] = json!("r2");
    let elsewhere = server.stream(RESPOND, elsewhere);
    server.engine.release();
    for turn in [first, second, elsewhere] {
        assert_eq!(last(turn)["finish_reason"], "stop");
    }
    let refused = "avatar_turns_rejected_total{reason=\"room_queue_full\"}";
    assert_eq!(server.metric(refused), 1.0);
    assert_eq!(server.conserved(), 3.0);
}

#[test]
fn a_waiting_turn_can_be_cancelled_or_left_and_is_never_asked_of_the_model() {
    let server = holding();
    let first = speaking(&server, ask("a"));
    let cancelled = server.stream(RESPOND, ask("b"));
    let left = server.stream(RESPOND, ask("c"));
    let path = format!("/v1/avatar/responses/{}/cancel", id(&cancelled));
    assert_eq!(server.post(&path, "{}").status(), 200);
    drop(left);
    let told: Vec<_> = cancelled.filter_map(|event| event.name).collect();
    assert_eq!(told, ["response.queued", "response.completed"]);
    until("both are counted", || {
        server.metric("avatar_turns_total{outcome=\"cancelled\"}") == 2.0
    });
    server.engine.release();
    assert_eq!(last(first)["finish_reason"], "stop");
    assert_eq!(server.engine.asked(), 1);
    assert_eq!(server.conserved(), 3.0);
}

#[test]
fn a_deadline_that_passes_in_the_queue_is_answered_with_the_fallback_line() {
    let server = holding();
    let first = speaking(&server, ask("a"));
    let mut late = ask("b");
    late["deadline_ms"] = json!(100);
    let events: Vec<_> = server.stream(RESPOND, late).collect();
    let told: Vec<_> = events
        .iter()
        .filter_map(|event| event.name.as_deref())
        .collect();
    let expected = [
        "response.queued",
        "response.started",
        "segment",
        "response.completed",
    ];
    assert_eq!(told, expected);
    let end = events[3].json();
    assert_eq!(
        (&end["finish_reason"], &end["degraded"]),
        (&json!("deadline"), &json!(["cut", "fallback"]))
    );
    drop(first);
    until("nobody is left", || {
        server.metric("avatar_turns_in_flight") == 0.0
    });
    assert_eq!(server.conserved(), 2.0);
}

#[test]
fn what_is_refused_after_the_wait_has_the_status_that_it_would_have_had() {
    let server = holding();
    let first = speaking(&server, ask("a"));
    let mut second = server.client();
    let mut body = ask("b");
    body["stream"] = json!(false);
    second.post(RESPOND, &body.to_string());
    until("it waits", || server.conserved() == 2.0);
    server.engine.refuse(SubmitError::QueueFull { limit: 256 });
    server.engine.release();
    assert_eq!(last(first)["finish_reason"], "stop");
    let refused = second.response();
    refused.error(429, "queue_full");
    assert_eq!(refused.json()["failed"]["retryable"], true);
    assert!(refused.json()["fallback"]["tts_text"].is_string());
    assert_eq!(server.metric("avatar_turns_total{outcome=\"failed\"}"), 1.0);
    assert_eq!(server.conserved(), 2.0);
}

#[test]
fn a_room_can_be_ended_once() {
    let server = holding();
    let path = "/v1/avatar/rooms/r1";
    delete(&server, path, "").error(404, "room_not_found");
    let first = speaking(&server, ask("a"));
    let second = server.stream(RESPOND, ask("b"));
    let wrong = delete(&server, path, r#"{"now": true}"#);
    assert_eq!(wrong.error(400, "unsupported_parameter")["param"], "now");
    let ended = delete(&server, path, "").json();
    let told = json!({"room_id": "r1", "status": "ended", "cancelled": 2});
    assert_eq!(ended, told);
    for turn in [first, second] {
        assert_eq!(last(turn)["finish_reason"], "cancelled");
    }
    delete(&server, path, "").error(404, "room_not_found");
    let other = server.get(path);
    other.error(405, "method_not_allowed");
    assert_eq!(other.head.header("allow"), Some("DELETE"));
    assert_eq!(server.conserved(), 2.0);
}

/// Fault: comments that came at the same moment broke the pipeline, or were answered with one another's answers.
#[test]
fn a_burst_in_one_room_is_answered_in_order_or_refused() {
    let server = TestServer::turning(|config| config.rooms.waiting = 20);
    let clients: Vec<_> = (0..40)
        .map(|index| {
            let mut client = server.client();
            client.post(RESPOND, &ask(&format!("c{index}")).to_string());
            (index, client)
        })
        .collect();
    let mut answered = 0.0;
    for (index, mut client) in clients {
        let response = client.response();
        if response.status() != 200 {
            response.error(429, "queue_full");
            continue;
        }
        answered += 1.0;
        let own = format!("\"reply_to\":[\"c{index}\"]");
        assert!(response.body.contains(&own), "{}", response.body);
        assert!(response.body.contains("\"finish_reason\":\"stop\""));
    }
    assert!(
        answered >= 21.0,
        "as many as may wait, and the one that speaks"
    );
    assert_eq!(server.conserved(), answered);
}

#[test]
fn a_drain_lets_waiting_turns_speak_and_its_end_ends_them() {
    let mut server = holding();
    let first = speaking(&server, ask("a"));
    let second = server.stream(RESPOND, ask("b"));
    server.shutdown.request();
    server.engine.release();
    for turn in [first, second] {
        assert_eq!(last(turn)["finish_reason"], "stop");
    }
    server.stopped();
    let mut server = holding();
    let first = speaking(&server, ask("a"));
    let second = server.stream(RESPOND, ask("b"));
    server.shutdown.request();
    server.shutdown.request();
    for turn in [first, second] {
        assert_eq!(last(turn)["finish_reason"], "cancelled");
    }
    server.stopped();
}
