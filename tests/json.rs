//! What bodies may hold: every refusal names the field, and a request after it is served.

use serde_json::json;

use crate::support::TestServer;

const CHAT: &str = "/v1/chat/completions";
const RESPOND: &str = "/v1/avatar/respond";
const MESSAGES: &str = r#""messages":[{"role":"user","content":"hi"}]"#;

#[test]
fn numbers_that_are_none_are_refused_before_generation() {
    let server = TestServer::start();
    for field in [
        "temperature",
        "top_p",
        "min_p",
        "presence_penalty",
        "frequency_penalty",
    ] {
        for (value, code) in [
            ("NaN", "invalid_json"),
            ("Infinity", "invalid_json"),
            ("-Infinity", "invalid_json"),
            ("1e999", "invalid_json"),
            ("\"NaN\"", "invalid_parameter"),
        ] {
            let body = format!("{{{MESSAGES},\"{field}\":{value}}}");
            let error = server.post(CHAT, body).error(400, code);
            assert_eq!(error["param"], field, "{value}");
        }
    }
    assert_eq!(server.engine.asked(), 0);
    assert_eq!(server.post(CHAT, format!("{{{MESSAGES}}}")).status(), 200);
}

#[test]
fn seeds_beyond_64_bits_are_refused_and_the_largest_is_used() {
    let server = TestServer::start();
    for seed in [
        "98765432109876543210987",
        "-98765432109876543210987",
        "\"7\"",
        "1.5",
    ] {
        let error = server
            .post(CHAT, format!("{{{MESSAGES},\"seed\":{seed}}}"))
            .error(400, "invalid_parameter");
        assert_eq!(error["param"], "seed");
    }
    let body = format!("{{{MESSAGES},\"seed\":9223372036854775807}}");
    assert_eq!(server.post(CHAT, body).status(), 200);
    assert_eq!(
        server.engine.last_request().sampling.seed,
        i64::MAX.cast_unsigned()
    );
}

#[test]
fn duplicate_keys_are_refused_on_every_route() {
    let server = TestServer::start();
    for (path, body, param) in [
        (
            CHAT,
            format!(r#"{{"model":"a","model":"b",{MESSAGES}}}"#),
            "model",
        ),
        (
            CHAT,
            format!(r#"{{{MESSAGES},"max_tokens":5,"max_tokens":5000}}"#),
            "max_tokens",
        ),
        (
            CHAT,
            format!(r#"{{{MESSAGES},"metadata":{{"a":"1","a":"2"}}}}"#),
            "metadata.a",
        ),
        (
            RESPOND,
            r#"{"room_id":"r","comments":[{"text":"a","text":"b"}]}"#.to_owned(),
            "comments[0].text",
        ),
        (
            "/v1/avatar/responses/x/cancel",
            r#"{"a":{"b":1,"b":1}}"#.to_owned(),
            "a.b",
        ),
    ] {
        let error = server.post(path, body).error(400, "invalid_json");
        assert_eq!(error["param"], param);
    }
    assert_eq!(server.engine.asked(), 0);
}

#[test]
fn deep_bodies_are_refused_and_deep_text_is_text() {
    let server = TestServer::start();
    let deep = "[".repeat(100_000) + "]".repeat(100_000).as_str();
    for path in [CHAT, RESPOND] {
        server.post(path, &deep).error(400, "invalid_json");
        server
            .post(path, format!("{{\"a\":{deep}}}"))
            .error(400, "invalid_json");
    }
    let body = json!({"messages": [{"role": "user", "content": "[".repeat(3000)}]});
    assert_eq!(server.post(CHAT, body).status(), 200);
}

#[test]
fn what_is_not_json_is_refused() {
    let server = TestServer::start();
    for bad in ["{", "{}{}", "nul", "{'a':1}", "\u{feff}{}"] {
        server.post(CHAT, bad).error(400, "invalid_json");
    }
    for other in ["[]", "null", "5", "\"{}\""] {
        server.post(CHAT, other).error(400, "invalid_parameter");
    }
    let mut client = server.client();
    client.send(format!(
        "POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 8\r\n\r\n"
    ));
    client.send(b"{\"a\":\"\xff\"");
    let error = client.response().error(400, "invalid_json");
    assert!(
        error["message"].as_str().unwrap().contains("UTF-8"),
        "{error}"
    );
}

#[test]
fn unknown_members_are_refused_by_path() {
    let server = TestServer::start();
    let body = json!({"room_id": "r", "comments": [{"text": "a", "gift": 5}]});
    let error = server
        .post(RESPOND, body)
        .error(400, "unsupported_parameter");
    assert_eq!(error["param"], "comments[0].gift");
    assert_eq!(error["type"], "invalid_request_error");
    let body = format!(r#"{{{MESSAGES},"functions":{{"5":1e30}}}}"#);
    let error = server.post(CHAT, body).error(400, "unsupported_parameter");
    assert_eq!(error["param"], "functions");
}
