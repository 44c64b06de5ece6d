//! The way down: new turns are refused at once, what runs may finish, then it ends with an event, then all closes.

use serde_json::{Value, json};

use crate::support::client::{Event, SseReader};
use crate::support::engine::{Act, say};
use crate::support::{TestServer, until};

const CHAT: &str = "/v1/chat/completions";
const RESPOND: &str = "/v1/avatar/respond";
/// Longer than any test runs.
const LONG_DRAIN_MS: u64 = 3_600_000;

fn chat(stream: bool) -> Value {
    json!({"stream": stream, "messages": [{"role": "user", "content": "hi"}]})
}

fn respond(stream: bool) -> Value {
    json!({"stream": stream, "room_id": "r", "comments": [{"text": "hi"}]})
}

/// A server whose answers stop in the middle until they are released.
fn holding(drain_ms: u64) -> TestServer {
    let server = TestServer::with(|config| config.drain_ms = drain_ms);
    server
        .engine
        .script([say("First part. "), Act::Hold, say("Second part.")]);
    server
}

/// A stream of each kind, both with something said already.
fn streams(server: &TestServer) -> [SseReader; 2] {
    [(CHAT, chat(true)), (RESPOND, respond(true))].map(|(path, body)| {
        let mut events = server.stream(path, body);
        assert!(events.next().is_some() && events.next().is_some());
        events
    })
}

fn last(events: SseReader) -> Event {
    events.last().expect("a stream ends with an event")
}

#[test]
fn what_runs_finishes_while_new_turns_are_refused() {
    let mut server = holding(LONG_DRAIN_MS);
    let [chatting, speaking] = streams(&server);
    server.shutdown.request();
    server.get("/readyz").error(503, "draining");
    assert_eq!(server.get("/livez").status(), 200);
    let refused = server.post(CHAT, chat(false));
    refused.error(503, "draining");
    assert!(refused.head.header("retry-after").is_some());
    assert_eq!(refused.head.header("connection"), Some("close"));
    let refused = server.post(RESPOND, respond(true));
    refused.error(503, "draining");
    assert!(refused.json()["fallback"]["tts_text"].is_string());
    server.engine.release();
    assert_eq!(last(chatting).data, "[DONE]");
    assert_eq!(last(speaking).json()["finish_reason"], "stop");
    server.stopped();
}

#[test]
fn what_does_not_finish_in_time_ends_with_an_event() {
    let mut server = holding(50);
    let [chatting, speaking] = streams(&server);
    server.shutdown.request();
    assert_eq!(last(chatting).json()["error"]["code"], "shutting_down");
    let end = last(speaking);
    assert_eq!(end.name.as_deref(), Some("response.completed"));
    assert_eq!(end.json()["finish_reason"], "cancelled");
    server.stopped();
}

#[test]
fn one_object_ends_in_time_too() {
    let mut server = holding(LONG_DRAIN_MS);
    let mut chatting = server.client();
    chatting.post(CHAT, &chat(false).to_string());
    let mut speaking = server.client();
    speaking.post(RESPOND, &respond(false).to_string());
    until("both run", || server.engine.asked() == 2);
    server.shutdown.request();
    server.shutdown.request();
    chatting.response().error(503, "shutting_down");
    let answer = speaking.response().json();
    assert_eq!(answer["completed"]["finish_reason"], "cancelled");
    server.stopped();
}

#[test]
fn the_second_request_ends_the_drain() {
    let mut server = holding(LONG_DRAIN_MS);
    let [chatting, speaking] = streams(&server);
    server.shutdown.request();
    server.shutdown.request();
    assert_eq!(last(chatting).json()["error"]["code"], "shutting_down");
    assert_eq!(last(speaking).json()["finish_reason"], "cancelled");
    server.stopped();
}

#[test]
fn idle_connections_hold_nothing_up() {
    let mut server = holding(LONG_DRAIN_MS);
    let mut idle: Vec<_> = (0..20).map(|_| server.client()).collect();
    idle[0].request("GET", "/livez", "", "");
    assert_eq!(idle[0].response().status(), 200);
    idle[1].send("GET /livez HTTP/1.1\r\n");
    server.shutdown.request();
    server.stopped();
    for client in &mut idle {
        assert!(client.is_closed());
    }
}

#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let mut server = TestServer::with(|config| config.drain_ms = 50);
    let long = vec![say(&"on and on. ".repeat(1000)); 2000];
    server.engine.script(long);
    let mut deaf = server.client();
    deaf.post(CHAT, &chat(true).to_string());
    until("it runs", || server.engine.asked() == 1);
    server.shutdown.request();
    server.stopped();
}
