//! MCP tools against a real server of the official kit.

use std::collections::BTreeMap;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler};
use serde_json::json;

use crate::tools::tests::server::Server;
use crate::tools::tests::{call, offer, tool};
use crate::tools::{CallResult, Config, McpServer, Outcome, Tools};

#[derive(Clone)]
struct Shop;

impl ServerHandler for Shop {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(
            ServerCapabilities::builder()
                .enable_tools()
                .enable_tool_list_changed()
                .build(),
        )
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let result = match &*request.name {
            "get_stock" => CallToolResult::structured(json!({"sku": arguments["sku"], "stock": 7})),
            "say" => CallToolResult::success(vec![ContentBlock::text("plain words")]),
            "json" => CallToolResult::success(vec![ContentBlock::text("{\"a\": 1}")]),
            "fail" => CallToolResult::error(vec![ContentBlock::text("out of order")]),
            "fail_silently" => CallToolResult::error(vec![]),
            "change" => {
                let _ = context.peer.notify_tool_list_changed().await;
                CallToolResult::success(vec![ContentBlock::text("changed")])
            }
            other => return Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        };
        Ok(result.into())
    }
}

async fn shop() -> String {
    let service: StreamableHttpService<Shop, LocalSessionManager> = StreamableHttpService::new(
        || Ok(Shop),
        std::sync::Arc::default(),
        StreamableHttpServerConfig::default(),
    );
    let router = axum::Router::new().nest_service("/mcp", service);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, router).await });
    host
}

fn tools(host: &str) -> Tools {
    let server = McpServer {
        url: format!("http://{host}/mcp"),
        headers: BTreeMap::from([("x-shop".to_owned(), "{secret:TOKEN}".to_owned())]),
    };
    let config = Config {
        allow_hosts: vec![host.to_owned()],
        mcp: BTreeMap::from([("shop".to_owned(), server)]),
        ..Config::default()
    };
    Tools::new(
        &config,
        BTreeMap::from([("TOKEN".to_owned(), "t".to_owned())]),
    )
    .unwrap()
}

async fn ask(tools: &Tools, name: &str, arguments: &str) -> CallResult {
    let tool = tool(&format!(
        r#"{{"name": "{name}", "description": "d", "kind": "mcp", "input_schema": {{"properties": {{"sku": {{}}}}}}, "mcp": {{"server": "shop"}}}}"#
    ));
    tools
        .run_round(&offer(&[tool]), vec![call("1", name, arguments)])
        .await
        .remove(0)
}

#[tokio::test]
async fn results_of_every_kind_come_back() {
    let tools = tools(&shop().await);
    let result = ask(&tools, "get_stock", r#"{"sku": "A1"}"#).await;
    assert_eq!(
        result.outcome,
        Outcome::Result(json!({"sku": "A1", "stock": 7}))
    );
    assert_eq!(
        ask(&tools, "say", "").await.outcome,
        Outcome::Result(json!("plain words"))
    );
    assert_eq!(
        ask(&tools, "json", "").await.outcome,
        Outcome::Result(json!({"a": 1}))
    );
    for (name, said) in [
        ("fail", "out of order"),
        ("fail_silently", "without saying why"),
        ("none", "no tool none"),
    ] {
        let result = ask(&tools, name, "").await;
        assert!(
            matches!(&result.outcome, Outcome::Error(error) if error.code == "tool_error" && error.message.contains(said)),
            "{result:?}"
        );
    }
    assert!(
        ask(&tools, "say", "").await.is_ok(),
        "an error ends no session"
    );
}

#[tokio::test]
async fn a_changed_list_of_tools_is_noted_once() {
    let tools = tools(&shop().await);
    assert_eq!(tools.changed_servers(), Vec::<String>::new());
    assert!(ask(&tools, "change", "").await.is_ok());
    // The note may come on another stream than the answer.
    let noted = async {
        loop {
            let changed = tools.changed_servers();
            if !changed.is_empty() {
                return changed;
            }
            tokio::task::yield_now().await;
        }
    };
    assert_eq!(noted.await, ["shop"]);
    assert_eq!(tools.changed_servers(), Vec::<String>::new());
}

#[tokio::test]
async fn a_server_that_is_none_or_is_away_is_an_error_of_the_call() {
    let server = Server::json("{\"hello\": 1}").await;
    let result = ask(&tools(&server.host()), "say", "").await;
    assert!(
        matches!(&result.outcome, Outcome::Error(error) if error.code == "unreachable"),
        "{result:?}"
    );
    assert!(server.asked()[0].to_ascii_lowercase().contains("x-shop: t"));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    drop(listener);
    let result = ask(&tools(&host), "say", "").await;
    assert!(
        matches!(&result.outcome, Outcome::Error(error) if error.code == "unreachable"),
        "{result:?}"
    );
}

#[test]
fn a_server_whose_host_is_not_allowed_or_whose_secret_is_not_set_is_refused_at_start() {
    let server = |url: &str, header: &str| McpServer {
        url: url.to_owned(),
        headers: BTreeMap::from([("x".to_owned(), header.to_owned())]),
    };
    for (server, field) in [
        (server("http://10.0.0.1/mcp", "x"), "tools.mcp.shop.url"),
        (
            server("http://10.0.0.2:80/mcp", "{secret:NO}"),
            "tools.mcp.shop.headers",
        ),
    ] {
        let config = Config {
            allow_hosts: vec!["10.0.0.2:80".to_owned()],
            mcp: BTreeMap::from([("shop".to_owned(), server)]),
            ..Config::default()
        };
        let error = Tools::new(&config, BTreeMap::new())
            .map(|_| ())
            .unwrap_err();
        assert!(error.to_string().starts_with(field), "{error}");
    }
}
