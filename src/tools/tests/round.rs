//! A round: order, bounds, and that every fault is one call's result.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Barrier;

use super::server::{Server, response};
use super::{call, offer, tool, tools};
use crate::tools::{Outcome, Tools};

const SHOW: &str = r#"{"name": "show_product", "description": "d", "kind": "action", "input_schema": {"properties": {"id": {"type": "string"}}, "required": ["id"]}}"#;
const LOOK: &str = r#"{"name": "look", "description": "d", "kind": "catalog", "input_schema": {"properties": {"query": {"type": "string"}}}}"#;

fn error(outcome: &Outcome) -> (&str, &str) {
    match outcome {
        Outcome::Error(error) => (error.code, &error.message),
        other => panic!("{other:?}"),
    }
}

async fn one(tools: &Tools, text: &str, arguments: &str) -> Outcome {
    let tool = tool(text);
    let name = tool.name.to_string();
    tools
        .run_round(&offer(&[tool]), vec![call("1", &name, arguments)])
        .await
        .remove(0)
        .outcome
}

#[tokio::test]
async fn results_are_in_the_order_of_the_calls_whatever_each_comes_to() {
    let calls = vec![
        call("a", "look", r#"{"query": "a1"}"#),
        call("b", "nothing", "{}"),
        call("c", "show_product", r#"{"id": "A1"}"#),
        call("d", "show_product", r#"{"id": 5}"#),
        call("e", "show_product", r#"{"id": "A1""#),
        call("f", "look", r#"{"query": "boots"}"#),
    ];
    let results = tools(&[])
        .run_round(&offer(&[tool(SHOW), tool(LOOK)]), calls)
        .await;
    let ids: Vec<&str> = results.iter().map(|result| result.id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "c", "d", "e", "f"]);
    assert!(
        matches!(&results[0].outcome, Outcome::Result(value) if value["product"]["price"] == 199)
    );
    assert_eq!(error(&results[1].outcome).0, "unknown_tool");
    assert_eq!(results[2].outcome, Outcome::Action(json!({"id": "A1"})));
    let (code, message) = error(&results[3].outcome);
    assert!(
        code == "invalid_arguments" && message.starts_with("/id: "),
        "{message}"
    );
    assert_eq!(error(&results[4].outcome).0, "invalid_arguments");
    assert!(matches!(&results[5].outcome, Outcome::Result(value) if value["found"] == false));
    for result in &results {
        assert!(
            serde_json::from_str::<Value>(&result.content()).is_ok(),
            "content is JSON"
        );
        assert!(!result.content().is_empty());
    }
}

#[tokio::test]
async fn arguments_that_two_readers_could_read_differently_are_refused() {
    let outcome = one(&tools(&[]), SHOW, r#"{"id": "A1", "id": "B2"}"#).await;
    assert_eq!(error(&outcome).0, "invalid_arguments");
    for arguments in ["[]", "5", "null", &"[".repeat(100_000), "\"{}\""] {
        assert_eq!(
            error(&one(&tools(&[]), SHOW, arguments).await).0,
            "invalid_arguments"
        );
    }
}

#[tokio::test]
async fn an_ambiguous_name_gives_all_it_may_mean() {
    let outcome = one(&tools(&[]), LOOK, r#"{"query": "jacket"}"#).await;
    assert!(
        matches!(outcome, Outcome::Result(value) if value["count"] == 2 && value["ambiguous"] == true)
    );
    assert_eq!(
        error(&one(&tools(&[]), LOOK, "").await).0,
        "invalid_arguments"
    );
}

#[tokio::test]
async fn calls_of_a_round_run_at_once() {
    // Each answer waits for the other request: one after the other would never end.
    let barrier = Arc::new(Barrier::new(2));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let barrier = Arc::clone(&barrier);
            tokio::spawn(async move {
                use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
                let mut buffer = [0; 4096];
                let _ = socket.read(&mut buffer).await;
                barrier.wait().await;
                let _ = socket
                    .write_all(&response("200 OK", "application/json", b"{}"))
                    .await;
            });
        }
    });
    let text = format!(
        r#"{{"name": "get", "description": "d", "kind": "http", "http": {{"method": "GET", "url": "http://{host}/"}}}}"#
    );
    let results = tools(&[&host])
        .run_round(
            &offer(&[tool(&text)]),
            vec![call("1", "get", ""), call("2", "get", "")],
        )
        .await;
    assert!(
        results
            .iter()
            .all(|result| result.outcome == Outcome::Result(json!({}))),
        "{results:?}"
    );
}

#[tokio::test]
async fn calls_beyond_the_bound_of_a_round_get_an_error() {
    let calls = (0..20)
        .map(|n| call(&n.to_string(), "show_product", r#"{"id": "A1"}"#))
        .collect();
    let results = tools(&[]).run_round(&offer(&[tool(SHOW)]), calls).await;
    assert_eq!(results.len(), 20);
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 16);
    assert_eq!(error(&results[19].outcome).0, "too_many_calls");
}

#[tokio::test]
async fn an_answer_that_breaks_the_promised_schema_is_an_error() {
    let server = Server::json(r#"{"price": "free"}"#).await;
    let text = format!(
        r#"{{"name": "get", "description": "d", "kind": "http", "http": {{"method": "GET", "url": "http://{}/"}}, "output_schema": {{"properties": {{"price": {{"type": "number"}}}}}}}}"#,
        server.host()
    );
    let outcome = one(&tools(&[&server.host()]), &text, "").await;
    let (code, message) = error(&outcome);
    assert!(
        code == "invalid_result" && message.contains("/price"),
        "{message}"
    );
}

#[test]
fn a_tool_that_this_setup_cannot_run_is_named_at_load() {
    let http = |url: &str, header: &str| {
        tool(&format!(
            r#"{{"name": "get", "description": "d", "kind": "http", "http": {{"method": "GET", "url": "{url}", "headers": {{"x": "{header}"}}}}}}"#
        ))
    };
    let tools = tools(&["shop.example"]);
    assert_eq!(
        tools.missing(&http("https://shop.example/a", "{secret:TOKEN}")),
        None
    );
    assert!(
        tools
            .missing(&http("https://other.example/a", "x"))
            .unwrap()
            .contains("allowed")
    );
    assert!(
        tools
            .missing(&http("https://shop.example/a", "{secret:NONE}"))
            .unwrap()
            .contains("NONE")
    );
    let mcp =
        tool(r#"{"name": "m", "description": "d", "kind": "mcp", "mcp": {"server": "none"}}"#);
    assert!(tools.missing(&mcp).unwrap().contains("none"));
}
