//! Streams that no text breaks: one event a block, one line of data, comments while nothing is said.

use serde_json::json;

use crate::support::TestServer;
use crate::support::client::Event;
use crate::support::engine::{Act, say};

const RESPOND: &str = "/v1/avatar/respond";

fn respond(server: &TestServer, comment: &str) -> Vec<Event> {
    let body = json!({
        "stream": true,
        "room_id": "r",
        "comments": [{"text": comment, "nickname": "Bo\r\nevent: x\r\ndata: y", "viewer_id": "a\nid: 7"}],
        "context": {"product_id": "p\r\nid: 9", "facts": {"title\n\nevent: z": "\r"}},
    });
    server.stream(RESPOND, body).collect()
}

#[test]
fn line_ends_in_names_and_text_start_no_field() {
    let server = TestServer::start();
    server.engine.script([
        say("第一行\r\n第二行\r第三行。"),
        say("id: 1\nevent: x\ndata: y\u{2028}z\u{2029}w\u{85}v."),
    ]);
    let events = respond(&server, "hi\r\n\r\nevent: response.failed\r\ndata: {}");
    let names: Vec<_> = events
        .iter()
        .filter_map(|event| event.name.as_deref())
        .collect();
    assert_eq!(
        (names[0], names[names.len() - 1]),
        ("response.started", "response.completed")
    );
    assert!(
        names[1..names.len() - 1]
            .iter()
            .all(|name| *name == "segment"),
        "{names:?}"
    );
    let texts = events
        .iter()
        .filter_map(|event| Some(event.json()["text"].as_str()?.to_owned()));
    let text: String = texts.collect();
    assert_eq!(
        text,
        "第一行\r\n第二行\r第三行。id: 1\nevent: x\ndata: y\u{2028}z\u{2029}w\u{85}v."
    );
    for event in &events {
        assert!(
            !event.data.contains(['\u{85}', '\u{2028}', '\u{2029}']),
            "{:?}",
            event.data
        );
    }
}

#[test]
fn ids_count_the_events() {
    let server = TestServer::start();
    server.engine.script([
        say("One sentence. "),
        say("And another one. "),
        say("The end."),
    ]);
    let ids: Vec<_> = respond(&server, "hi")
        .into_iter()
        .map(|event| event.id)
        .collect();
    let expected: Vec<_> = (1..=ids.len() as u64).map(Some).collect();
    assert_eq!(ids, expected);
}

#[test]
fn silence_is_filled_with_comments() {
    let server = TestServer::with(|config| config.keep_alive_ms = 5);
    server
        .engine
        .script([say("Hello there. "), Act::Hold, say("Bye now.")]);
    let body = json!({"stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let mut events = server.stream("/v1/chat/completions", body);
    let said: Vec<_> = (0..4).map(|_| events.block().unwrap()).collect();
    assert_eq!(said[2..], [": keep-alive\n\n", ": keep-alive\n\n"]);
    server.engine.release();
    assert_eq!(events.last().unwrap().data, "[DONE]");
}

#[test]
fn streams_tell_proxies_to_keep_out() {
    let server = TestServer::start();
    let body = json!({"stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let head = server.stream("/v1/chat/completions", body).head;
    assert_eq!(head.header("cache-control"), Some("no-store"));
    assert_eq!(head.header("x-accel-buffering"), Some("no"));
    assert!(head.header("x-request-id").is_some());
}
