//! Routes, methods, content types, request ids, and what slow or greedy clients get.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use compere::engine::Heartbeat;
use compere::telemetry::Metrics;
use serde_json::json;

use crate::support::client::Client;
use crate::support::engine::{Act, ScriptedEngine, say};
use crate::support::{MODEL, TestServer, model, until};

const CHAT: &str = "/v1/chat/completions";
const RESPOND: &str = "/v1/avatar/respond";

fn chat() -> String {
    json!({"messages": [{"role": "user", "content": "hi"}]}).to_string()
}

#[test]
fn every_route_names_its_methods() {
    let server = TestServer::start();
    let mut client = server.client();
    for (path, allowed) in [
        (RESPOND, "POST"),
        (CHAT, "POST"),
        ("/v1/completions", "POST"),
        ("/v1/avatar/responses/x/cancel", "POST"),
        ("/v1/models", "GET,HEAD"),
        ("/v1/models/x/y", "GET,HEAD"),
        ("/tokenize", "POST"),
        ("/detokenize", "POST"),
        ("/livez", "GET,HEAD"),
        ("/readyz", "GET,HEAD"),
        ("/metrics", "GET,HEAD"),
        ("/version", "GET,HEAD"),
    ] {
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
            if allowed.contains(method) {
                continue;
            }
            client.request(method, path, "", "");
            let response = client.response();
            response.error(405, "method_not_allowed");
            assert_eq!(
                response.head.header("allow"),
                Some(allowed),
                "{method} {path}"
            );
        }
        client.request("OPTIONS", path, "", "");
        let response = client.response();
        assert_eq!(
            (response.status(), response.head.header("allow")),
            (204, Some(allowed))
        );
    }
}

#[test]
fn head_is_get_without_its_body() {
    let server = TestServer::start();
    let mut client = server.client();
    for path in ["/livez", "/version", "/v1/models"] {
        client.request("GET", path, "", "");
        let whole = client.response();
        client.request("HEAD", path, "", "");
        let head = client.head();
        assert_eq!(head.status, 200);
        for name in ["content-type", "content-length"] {
            assert_eq!(
                head.header(name),
                whole.head.header(name),
                "{name} of {path}"
            );
        }
    }
    client.request("HEAD", CHAT, "", "");
    assert_eq!(client.head().status, 405);
    // What follows is the next response, not a body.
    client.request("GET", "/livez", "", "");
    assert_eq!(client.response().status(), 200);
}

#[test]
fn unknown_paths_and_trailing_slashes_are_404() {
    let server = TestServer::start();
    for path in [
        "/",
        "/v1",
        "/v1/chat/completions/",
        "/livez/",
        "/V1/models",
        "//livez",
        "/v1/%6dodels",
    ] {
        server.get(path).error(404, "not_found");
    }
    server
        .post("/v1/avatar/respond/", chat())
        .error(404, "not_found");
}

#[test]
fn only_json_in_utf8_is_read() {
    let server = TestServer::start();
    let mut client = server.client();
    for good in [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
    ] {
        client.request("POST", CHAT, &format!("content-type: {good}\r\n"), &chat());
        assert_eq!(client.response().status(), 200, "{good}");
    }
    for bad in [
        "",
        "content-type: text/plain\r\n",
        "content-type: application/json; charset=gbk\r\n",
        "content-type: application/problem+json\r\n",
        "content-type: multipart/form-data\r\n",
        "content-type: application/json\r\ncontent-encoding: gzip\r\n",
        "content-type: application/json\r\ncontent-type: text/plain\r\n",
    ] {
        let mut client = server.client();
        client.request("POST", CHAT, bad, &chat());
        client.response().error(415, "unsupported_media_type");
    }
}

#[test]
fn request_ids_are_kept_when_safe_and_replaced_when_not() {
    let server = TestServer::start();
    let with_id = |line: &str| {
        let mut client = server.client();
        client.request("GET", "/nowhere", line, "");
        let response = client.response();
        response.error(404, "not_found");
        response.head.header("x-request-id").unwrap().to_owned()
    };
    assert_eq!(with_id("x-request-id: abc-1.2_3\r\n"), "abc-1.2_3");
    let long = format!("x-request-id: {}\r\n", "a".repeat(10_000));
    for bad in [
        "",
        "x-request-id: a\tb\r\n",
        "x-request-id: \u{e9}\r\n",
        "x-request-id: one\r\nx-request-id: two\r\n",
        &long,
    ] {
        assert!(with_id(bad).starts_with("req-"), "{bad:.40}");
    }
}

#[test]
fn a_head_beyond_all_bounds_is_refused() {
    let server = TestServer::start();
    let mut client = server.client();
    // To the byte, so that the server leaves nothing unread.
    let start = "GET /livez HTTP/1.1\r\nx-request-id: ";
    client.send(start.to_owned() + "a".repeat(64 * 1024 - start.len()).as_str());
    assert_eq!(client.head().status, 431);
    assert_eq!(server.get("/livez").status(), 200);
}

#[test]
fn a_body_up_to_the_limit_is_read_and_one_above_is_413() {
    let server = TestServer::with(|config| config.limits.body_bytes = 3_000_000);
    let padded = |bytes: usize| {
        let frame = json!({"user": "", "messages": [{"role": "user", "content": ""}]}).to_string();
        frame.replace(
            r#""content":"""#,
            &format!(r#""content":"{}""#, "a".repeat(bytes - frame.len())),
        )
    };
    for bytes in [1_900_000, 2_100_000, 3_000_000] {
        let body = padded(bytes);
        assert_eq!(body.len(), bytes);
        assert_ne!(server.post(CHAT, body).status(), 413, "{bytes}");
    }
    for bytes in [3_000_001, 12_000_000] {
        server
            .post(CHAT, padded(bytes))
            .error(413, "body_too_large");
    }
}

#[test]
fn who_asks_before_sending_too_much_is_told_at_once() {
    let server = TestServer::start();
    let mut client = server.client();
    client.send(format!(
        "POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: 99999999\r\nexpect: 100-continue\r\n\r\n"
    ));
    client.response().error(413, "body_too_large");
}

/// Fault: what was declared too large was waited for, and then the wait was what the client was told of.
#[test]
fn who_declares_too_much_is_told_at_once_and_may_send_it_all_the_same() {
    let server = TestServer::with(|config| config.limits.body_read_ms = 600_000);
    let head = |bytes: usize| {
        format!(
            "POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {bytes}\r\n\r\n"
        )
    };
    for bytes in [1_048_577, 99_999_999, 1 << 50] {
        let mut client = server.client();
        client.send(head(bytes));
        client.response().error(413, "body_too_large");
    }
    let mut client = server.client();
    client.send(head(2_000_000));
    client.response().error(413, "body_too_large");
    client.send("x".repeat(2_000_000));
    client.request("GET", "/livez", "", "");
    assert_eq!(client.response().status(), 200, "the connection goes on");
}

#[test]
fn bodies_that_come_after_their_head_do_not_break_a_refusal() {
    let server = TestServer::start();
    let body = "x".repeat(100_000);
    for (path, kind, status) in [
        (CHAT, "text/plain", 415),
        ("/nowhere", "application/json", 404),
        ("/livez", "application/json", 405),
    ] {
        let mut client = server.client();
        client.send(format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        ));
        for part in body.as_bytes().chunks(10_000) {
            client.send(part);
        }
        assert_eq!(client.response().status(), status);
        client.request("GET", "/livez", "", "");
        assert_eq!(client.response().status(), 200, "the connection goes on");
    }
}

#[test]
fn half_sent_heads_do_not_hold_connections() {
    let server = TestServer::with(|config| config.limits.header_read_ms = 100);
    let mut slow: Vec<Client> = (0..50).map(|_| server.client()).collect();
    for client in &mut slow {
        client.send(format!("POST {RESPOND} HTTP/1.1\r\nHost: x\r\n"));
    }
    assert_eq!(server.get("/livez").status(), 200);
    assert!(slow.iter_mut().all(Client::is_closed));
}

#[test]
fn half_sent_bodies_get_408() {
    let server = TestServer::with(|config| config.limits.body_read_ms = 50);
    let mut client = server.client();
    client.send(format!(
        "POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{{"
    ));
    client.response().error(408, "request_timeout");
}

#[test]
fn a_full_house_makes_room_for_who_asks() {
    let server = TestServer::with(|config| config.limits.connections = 4);
    let mut slow: Vec<Client> = (0..12)
        .map(|_| {
            let mut client = server.client();
            client.send("GET /livez HTTP/1.1\r\n");
            client
        })
        .collect();
    for _ in 0..8 {
        assert_eq!(server.get("/livez").status(), 200);
    }
    assert!(slow[0].is_closed(), "the longest idle one made room");
}

#[test]
fn connections_that_are_answered_are_not_evicted() {
    let server = TestServer::with(|config| config.limits.connections = 2);
    server.engine.script([say("a"), Act::Hold, say("b")]);
    let body = json!({"stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let mut first = server.stream(CHAT, &body);
    let mut second = server.stream(CHAT, &body);
    assert!(first.next().is_some() && second.next().is_some());
    let mut third = server.client();
    third.request("GET", "/livez", "", "");
    third.response().error(503, "too_many_connections");
    server.engine.release();
    assert_eq!(first.last().unwrap().data, "[DONE]");
    assert_eq!(second.last().unwrap().data, "[DONE]");
    until("room again", || {
        let mut client = server.client();
        client.request("GET", "/livez", "", "");
        client.response().status() == 200
    });
}

#[test]
fn requests_on_one_connection_are_answered_in_turn() {
    let server = TestServer::start();
    let mut client = server.client();
    for _ in 0..3 {
        client.request("GET", "/livez", "", "");
    }
    for _ in 0..3 {
        assert_eq!(client.response().json(), json!({"status": "ok"}));
    }
}

#[test]
fn broken_http_closes_its_own_connection_only() {
    let server = TestServer::start();
    for bad in [
        "\x16\x03\x01\x02\x00",
        "GET\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut client = server.client();
        client.send(bad);
        // With or without a 400, whatever follows on it is not read.
        assert!(client.is_refused(), "{bad:?}");
    }
    assert_eq!(server.get("/livez").status(), 200);
}

#[test]
fn until_the_model_is_loaded_only_health_answers() {
    let template = model::template();
    let engine = Arc::new(ScriptedEngine::new(Arc::clone(template.tokenizer())));
    let (server, _door) = TestServer::bound(engine, &Arc::new(Metrics::new()), |_| {});
    assert_eq!(server.get("/livez").status(), 200);
    assert_eq!(server.get("/metrics").status(), 200);
    assert_eq!(server.get("/version").json()["model"], json!(null));
    server.get("/readyz").error(503, "loading");
    server.get("/v1/models").error(503, "loading");
    let refused = server.post(CHAT, chat());
    refused.error(503, "loading");
    assert!(refused.head.header("retry-after").is_some());
    let refused = server.post(
        RESPOND,
        json!({"room_id": "r", "comments": [{"text": "hi"}]}),
    );
    refused.error(503, "loading");
    assert!(
        !refused.json()["fallback"]["tts_text"]
            .as_str()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn the_engine_decides_whether_the_process_lives() {
    let server = TestServer::with(|config| config.stall_ms = 1000);
    let beat = |alive, busy, ms| {
        server.engine.beat(Heartbeat {
            alive,
            busy,
            since_step: Duration::from_millis(ms),
        });
    };
    assert_eq!(server.get("/livez").status(), 200);
    beat(true, false, 99_999);
    assert_eq!(server.get("/livez").status(), 200, "idle for long");
    beat(true, true, 1000);
    server.get("/livez").error(503, "engine_stopped");
    assert_eq!(
        server.get("/readyz").status(),
        200,
        "a slow step is no reason to send traffic away"
    );
    beat(false, false, 0);
    server.get("/livez").error(503, "engine_stopped");
    server.get("/readyz").error(503, "engine_stopped");
}

#[test]
fn models_version_and_metrics_say_what_is_served() {
    let server = TestServer::start();
    let models = server.get("/v1/models").json();
    assert_eq!(models["object"], "list");
    let model = &models["data"][0];
    assert_eq!(&server.get(&format!("/v1/models/{MODEL}")).json(), model);
    assert_eq!(&server.get("/v1/models/test%2Ftiny").json(), model);
    server.get("/v1/models/other").error(404, "model_not_found");
    assert_eq!(
        (model["id"].as_str(), model["object"].as_str()),
        (Some(MODEL), Some("model"))
    );
    assert_eq!(
        (&model["max_model_len"], &model["adapters"]),
        (&json!(4096), &json!([]))
    );
    let version = server.get("/version").json();
    assert_eq!(
        (version["version"].as_str(), version["model"].as_str()),
        (Some("0.1.0"), Some(MODEL))
    );
    let metrics = server.get("/metrics");
    let kind = metrics.head.header("content-type");
    assert_eq!(kind, Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(
        metrics.body.contains("avatar_turns_accepted_total"),
        "{}",
        metrics.body
    );
}

#[test]
fn a_panic_is_one_failed_request() {
    let server = TestServer::start();
    for path in [CHAT, RESPOND] {
        let body = if path == CHAT {
            chat()
        } else {
            json!({"room_id": "r", "comments": [{"text": "hi"}]}).to_string()
        };
        server.engine.panics.store(true, SeqCst);
        let mut client = server.client();
        client.post(path, &body);
        client.response().error(500, "internal_error");
        client.post(path, &body);
        assert_eq!(
            client.response().status(),
            200,
            "the same connection goes on"
        );
    }
}
