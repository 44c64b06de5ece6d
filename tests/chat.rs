//! OpenAI's chat completions: requests reach the engine whole, and a stream says what one object says.

use compere::engine::{FinishReason, SubmitError};
use serde_json::{Value, json};

use crate::support::client::Event;
use crate::support::engine::{Act, say};
use crate::support::{MODEL, TestServer};

const CHAT: &str = "/v1/chat/completions";

fn body(members: Value) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": "hi"}]});
    if let (Value::Object(body), Value::Object(members)) = (&mut body, members) {
        body.extend(members);
    }
    body
}

fn streamed(server: &TestServer, members: Value) -> Vec<Event> {
    let mut body = body(members);
    body["stream"] = json!(true);
    server.stream(CHAT, body).collect()
}

/// The text of a stream's chunks.
fn text(events: &[Event]) -> String {
    let chunks = events.iter().filter(|event| event.data != "[DONE]");
    chunks
        .filter_map(|event| {
            Some(
                event.json()["choices"][0]["delta"]["content"]
                    .as_str()?
                    .to_owned(),
            )
        })
        .collect()
}

#[test]
fn a_stream_says_what_one_object_says() {
    let server = TestServer::start();
    let pieces = [
        "\n\n\n",
        "A",
        "\n\n\n\nB\r\n第一行\r第",
        "\u{2028}x\u{2029}y\u{85}z\u{0}",
        "👩\u{200d}👧\n",
    ];
    server.engine.script(pieces.map(say));
    let whole = server.post(CHAT, body(json!({})));
    assert_eq!(whole.status(), 200);
    let whole = whole.json();
    let events = streamed(&server, json!({"stream_options": {"include_usage": true}}));
    assert_eq!(text(&events), pieces.concat());
    assert_eq!(
        whole["choices"][0]["message"]["content"],
        json!(pieces.concat())
    );
    let (done, chunks) = events.split_last().unwrap();
    assert_eq!(done.data, "[DONE]");
    let (counts, chunks) = chunks.split_last().unwrap();
    assert_eq!(counts.json()["usage"], whole["usage"]);
    assert_eq!(counts.json()["choices"], json!([]));
    let (last, chunks) = chunks.split_last().unwrap();
    assert_eq!(
        last.json()["choices"][0]["finish_reason"],
        whole["choices"][0]["finish_reason"]
    );
    assert_eq!(
        chunks[0].json()["choices"][0]["delta"],
        json!({"role": "assistant", "content": ""})
    );
    for chunk in chunks {
        let chunk = chunk.json();
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!(chunk["choices"][0]["finish_reason"], Value::Null);
        assert_eq!(
            (&chunk["usage"], chunk.get("usage").is_some()),
            (&Value::Null, true)
        );
        assert_eq!(
            (&chunk["model"], &chunk["id"]),
            (&whole["model"], &counts.json()["id"])
        );
    }
}

#[test]
fn one_object_has_openais_members() {
    let server = TestServer::start();
    server.engine.script([say("Hel"), say("lo.")]);
    let answer = server.post(CHAT, body(json!({"model": MODEL}))).json();
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["model"], MODEL);
    assert!(answer["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert!(answer["created"].as_u64().unwrap() > 1_700_000_000);
    let choice = &answer["choices"][0];
    assert_eq!(choice["index"], 0);
    assert_eq!(choice["message"]["role"], "assistant");
    assert_eq!(choice["message"]["content"], "Hello.");
    assert_eq!(choice["finish_reason"], "stop");
    let usage = &answer["usage"];
    assert_eq!(usage["completion_tokens"], 2);
    let sum = usage["prompt_tokens"].as_u64().unwrap() + 2;
    assert_eq!(usage["total_tokens"].as_u64().unwrap(), sum);
}

#[test]
fn usage_comes_only_when_asked_for() {
    let server = TestServer::start();
    let events = streamed(&server, json!({}));
    assert!(
        events[..events.len() - 1]
            .iter()
            .all(|event| event.json().get("usage").is_none())
    );
}

#[test]
fn all_that_is_asked_reaches_the_engine() {
    let server = TestServer::start();
    let members = json!({
        "max_completion_tokens": 7, "stop": ["END"], "temperature": 0.5, "top_p": 0.25, "seed": 3,
        "top_k": 4, "min_p": 0.125, "repetition_penalty": 2, "presence_penalty": 1, "frequency_penalty": -1,
    });
    assert_eq!(server.post(CHAT, body(members)).status(), 200);
    let asked = server.engine.last_request();
    assert_eq!(
        (asked.max_tokens, asked.stop),
        (Some(7), vec!["END".to_owned()])
    );
    let sampling = asked.sampling;
    assert_eq!(
        (sampling.temperature, sampling.top_p, sampling.seed),
        (0.5, 0.25, 3)
    );
    assert_eq!(
        (sampling.top_k, sampling.min_p, sampling.repetition_penalty),
        (4, 0.125, 2.0)
    );
    assert_eq!(
        (sampling.presence_penalty, sampling.frequency_penalty),
        (1.0, -1.0)
    );
}

#[test]
fn requests_without_a_seed_draw_their_own() {
    let server = TestServer::start();
    let seed = || {
        server.post(CHAT, body(json!({})));
        server.engine.last_request().sampling.seed
    };
    assert_ne!(seed(), seed());
}

#[test]
fn unknown_models_are_404() {
    let server = TestServer::start();
    let error = server
        .post(CHAT, body(json!({"model": "gpt-5"})))
        .error(404, "model_not_found");
    assert_eq!(error["param"], "model");
    assert_eq!(server.post(CHAT, body(json!({"model": ""}))).status(), 200);
}

#[test]
fn what_the_engine_refuses_has_its_own_status() {
    let server = TestServer::start();
    let refused = |error: SubmitError| {
        server.engine.refuse(error);
        let plain = server.post(CHAT, body(json!({})));
        let streamed = server.post(CHAT, body(json!({"stream": true})));
        assert_eq!(
            plain.status(),
            streamed.status(),
            "before the first event both fail alike"
        );
        plain
    };
    let too_long = SubmitError::ContextLength {
        prompt: 4000,
        max_tokens: 200,
        limit: 4096,
    };
    refused(too_long).error(400, "context_length_exceeded");
    let full = refused(SubmitError::QueueFull { limit: 256 });
    full.error(429, "queue_full");
    assert!(full.head.header("retry-after").is_some());
    refused(SubmitError::Stopped).error(503, "engine_stopped");
}

#[test]
fn a_failure_is_never_taken_for_an_end() {
    let server = TestServer::start();
    server.engine.script([
        say("half an ans"),
        Act::End(FinishReason::Error("the pass failed".to_owned())),
    ]);
    server
        .post(CHAT, body(json!({})))
        .error(500, "engine_error");
    let events = streamed(&server, json!({"stream_options": {"include_usage": true}}));
    assert_eq!(text(&events), "half an ans");
    let last = events.last().unwrap().json();
    assert_eq!(last["error"]["code"], "engine_error");
    assert!(last["error"]["request_id"].is_string());
    assert!(events.iter().all(|event| event.data != "[DONE]"));
    let finished = |event: &Event| event.json()["choices"][0]["finish_reason"].is_string();
    assert!(
        !events.iter().any(finished),
        "no chunk says that the answer is whole"
    );
}

#[test]
fn the_length_limit_is_told() {
    let server = TestServer::start();
    server
        .engine
        .script([say("a"), Act::End(FinishReason::Length)]);
    let answer = server.post(CHAT, body(json!({}))).json();
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
}
