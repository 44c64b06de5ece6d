//! Who leaves costs nothing any more: streamed or not, before the first token, in the middle, or while queued.

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::paged::{PagedServer, load};
use crate::support::until;

const CHAT: &str = "/v1/chat/completions";
const RESPOND: &str = "/v1/avatar/respond";

/// Far more than any test lets the model say.
fn endless() -> String {
    "on and on, ".repeat(400)
}

/// Both routes' requests, streamed or not.
fn requests(stream: bool) -> [(&'static str, Value); 2] {
    let message = json!({"role": "user", "content": "hi"});
    [
        (CHAT, json!({"stream": stream, "messages": [message]})),
        (
            RESPOND,
            json!({"stream": stream, "room_id": "r", "comments": [{"text": "hi"}], "policy": {"max_chars": 4000}}),
        ),
    ]
}

fn sent(paged: &PagedServer, path: &str, body: &Value) -> Client {
    let mut client = paged.server.client();
    client.post(path, &body.to_string());
    client
}

/// Asserts that generation stopped long before its end and that nothing is left.
fn assert_stopped(paged: &PagedServer, before: u64) {
    paged.step_until("everything is freed", |stats| {
        let sequences = load(&stats.requests_running) + load(&stats.requests_waiting);
        sequences + load(&stats.kv_blocks_used) == 0
    });
    paged.assert_all_freed();
    let generated = load(&paged.stats.generation_tokens) - before;
    assert!(
        generated < 2000,
        "{generated} tokens for a client that left"
    );
}

#[test]
fn leaving_a_stream_stops_it() {
    for (path, body) in requests(true) {
        let paged = PagedServer::saying(&endless());
        paged.control.close();
        let mut events = sent(&paged, path, &body).events();
        paged.step_until("some tokens", |stats| load(&stats.generation_tokens) > 5);
        assert!(events.next().is_some());
        let before = load(&paged.stats.generation_tokens);
        drop(events);
        assert_stopped(&paged, before);
    }
}

#[test]
fn leaving_before_the_answer_is_whole_stops_it() {
    for (path, body) in requests(false) {
        let paged = PagedServer::saying(&endless());
        paged.control.close();
        let client = sent(&paged, path, &body);
        paged.step_until("some tokens", |stats| load(&stats.generation_tokens) > 5);
        let before = load(&paged.stats.generation_tokens);
        drop(client);
        assert_stopped(&paged, before);
    }
}

#[test]
fn leaving_is_seen_behind_bytes_that_nobody_asked_for() {
    for (path, body) in requests(false) {
        let paged = PagedServer::saying(&endless());
        paged.control.close();
        let mut client = sent(&paged, path, &body);
        client.send("\r\n");
        paged.step_until("some tokens", |stats| load(&stats.generation_tokens) > 5);
        drop(client);
        assert_stopped(&paged, 0);
    }
}

#[test]
fn leaving_in_prefill_stops_it() {
    for stream in [true, false] {
        for (path, body) in requests(stream) {
            let paged = PagedServer::saying(&endless());
            paged.control.close();
            let client = sent(&paged, path, &body);
            paged.control.wait_entered(1);
            drop(client);
            assert_stopped(&paged, 0);
        }
    }
}

#[test]
fn leaving_the_queue_frees_the_place() {
    for stream in [true, false] {
        let paged = PagedServer::with(&endless(), |config| config.max_running = 1);
        paged.control.close();
        let [(path, body), _] = requests(true);
        let first = sent(&paged, path, &body);
        paged.control.wait_entered(1);
        let [(path, body), _] = requests(stream);
        let second = sent(&paged, path, &body);
        paged.step_until("it waits", |stats| load(&stats.requests_waiting) == 1);
        drop(second);
        paged.step_until("it is gone", |stats| load(&stats.requests_waiting) == 0);
        assert_eq!(load(&paged.stats.requests_running), 1, "the first goes on");
        drop(first);
        assert_stopped(&paged, 0);
    }
}

#[test]
fn probes_that_open_a_stream_and_leave_are_all_forgotten() {
    let paged = PagedServer::saying(&endless());
    // Nothing is generated while they come and go, so none of them can be answered before it leaves.
    paged.control.close();
    let [_, (path, mut body)] = requests(true);
    for probe in 0..100 {
        // A room of its own each, else they wait for one another.
        body["room_id"] = json!(format!("r{probe}"));
        let events = sent(&paged, path, &body).events();
        assert!(events.head.header("x-response-id").is_some());
    }
    let server = &paged.server;
    until("all turns ended", || {
        server.metric("avatar_turns_in_flight") == 0.0
    });
    assert_eq!(server.metric("avatar_turns_accepted_total"), 100.0);
    assert_eq!(
        server.metric("avatar_turns_total{outcome=\"cancelled\"}"),
        100.0
    );
    assert_stopped(&paged, 0);
}
