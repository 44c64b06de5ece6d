//! HTTP tools against a real server: what may be reached, what is sent, and what becomes of each kind of answer.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::client::Client;
use super::guard::{Guard, Names, Route};
use super::{Http, request};
use crate::harness::tool::{Kind, Tool};
use crate::tools::tests::server::{Server, redirect, response};
use crate::tools::tests::tool;
use crate::tools::{Config, ToolError};

/// Names that lead where the test says.
struct Fixed(BTreeMap<&'static str, Vec<IpAddr>>);

impl Names for Fixed {
    fn look_up(
        &self,
        host: String,
    ) -> Pin<Box<dyn Future<Output = std::io::Result<Vec<IpAddr>>> + Send>> {
        let found = self.0.get(host.as_str()).cloned();
        Box::pin(async move { found.ok_or_else(|| std::io::Error::other("no such host")) })
    }
}

fn http(hosts: &[&str], names: &[(&'static str, &[&str])]) -> Http {
    let config = Config {
        allow_hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        ..Config::default()
    };
    let names = names
        .iter()
        .map(|(host, addresses)| {
            (
                *host,
                addresses.iter().map(|a| a.parse().unwrap()).collect(),
            )
        })
        .collect();
    let client = Client::with_names(&config, Arc::new(Fixed(names))).unwrap();
    Http::new(
        client,
        BTreeMap::from([("TOKEN".to_owned(), "s3cret".to_owned())]),
    )
}

fn get(url: &str, more: &str) -> Tool {
    let schema = r#"{"properties": {"sku": {"type": "string"}, "lang": {}}}"#;
    tool(&format!(
        r#"{{"name": "get", "description": "d", "kind": "http", "input_schema": {schema}, "http": {{"method": "GET", "url": "{url}"{more}}}}}"#
    ))
}

async fn fetch(http: &Http, tool: &Tool) -> Result<Value, ToolError> {
    http.fetch(tool, &Map::new()).await
}

fn arguments(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[tokio::test]
async fn names_and_spellings_of_private_addresses_are_refused_without_a_connection() {
    let server = Server::json("{}").await;
    let port = server.port;
    let names: &[(&'static str, &[&str])] = &[
        ("127.0.0.1.nip.io", &["127.0.0.1"]),
        ("mixed.example", &["8.8.8.8", "127.0.0.1"]),
        ("metadata.example", &["169.254.169.254"]),
        ("mapped.example", &["::ffff:127.0.0.1"]),
        ("inside.example", &["10.0.0.5"]),
    ];
    // Everything is on the list by host, which allows public addresses only.
    let hosts = [
        "127.0.0.1.nip.io",
        "mixed.example",
        "metadata.example",
        "mapped.example",
        "inside.example",
        "127.0.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "[::ffff:127.0.0.1]",
        "[::1]",
        "localhost",
    ];
    let http = http(&hosts, names);
    let urls = [
        "http://127.0.0.1.nip.io/",
        "http://mixed.example/",
        "http://metadata.example/latest/",
        "http://mapped.example/",
        "http://inside.example/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::1]/",
        "http://0/",
        "http://127.1/",
        "http://169.254.169.254/latest/",
    ];
    for url in urls {
        let error = fetch(&http, &get(url, "")).await.unwrap_err();
        assert!(error.message.contains("public address"), "{url}: {error}");
    }
    let with_port = format!("http://127.0.0.1.nip.io:{port}/");
    assert_eq!(
        fetch(&http, &get(&with_port, "")).await.unwrap_err().code,
        "refused",
        "another port than the default"
    );
    assert_eq!(server.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn a_private_address_is_reached_only_where_its_host_and_port_are_listed() {
    let server = Server::json(r#"{"ok": true}"#).await;
    let names: &[(&'static str, &[&str])] = &[("inside.example", &["127.0.0.1"])];
    let socket = format!("inside.example:{}", server.port);
    let http = http(&[&server.host(), &socket], names);
    for host in [server.host(), socket] {
        assert_eq!(
            fetch(&http, &get(&format!("http://{host}/"), "")).await,
            Ok(json!({"ok": true}))
        );
    }
    let error = fetch(&http, &get("http://inside.example/", ""))
        .await
        .unwrap_err();
    assert!(error.message.contains("allowed hosts"), "{error}");
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn every_redirect_is_judged_like_a_first_request() {
    let inside = Server::json(r#"{"secret": 1}"#).await;
    let target = inside.host();
    let places = [
        format!("http://{target}/admin"),
        "file:///etc/passwd".to_owned(),
        "gopher://x/".to_owned(),
        "http://169.254.169.254/latest/".to_owned(),
        format!("//{target}/admin"),
        format!("http://u:p@{target}/"),
    ];
    for place in places {
        let server = Server::start(move |_, _| redirect(&place)).await;
        let http = http(&[&server.host()], &[]);
        let error = fetch(&http, &get(&format!("http://{}/", server.host()), ""))
            .await
            .unwrap_err();
        assert_eq!(error.code, "refused", "{error}");
    }
    assert_eq!(inside.asked(), Vec::<String>::new());
    let round = Server::start(|_, _| redirect("/again")).await;
    let http = http(&[&round.host()], &[]);
    let error = fetch(&http, &get(&format!("http://{}/", round.host()), ""))
        .await
        .unwrap_err();
    assert!(error.message.contains("redirects"), "{error}");
}

#[tokio::test]
async fn an_allowed_redirect_is_followed_without_the_secret() {
    let second = Server::json(r#"{"ok": 1}"#).await;
    let place = format!("http://{}/next", second.host());
    let first = Server::start(move |_, _| redirect(&place)).await;
    let http = http(&[&first.host(), &second.host()], &[]);
    let tool = get(
        &format!("http://{}/", first.host()),
        r#", "headers": {"authorization": "Bearer {secret:TOKEN}"}"#,
    );
    assert_eq!(fetch(&http, &tool).await, Ok(json!({"ok": 1})));
    assert!(first.asked()[0].contains("Bearer s3cret"));
    assert!(
        !second.asked()[0].contains("s3cret"),
        "a secret is not sent to another host"
    );
}

#[tokio::test]
async fn answers_that_are_no_json_are_errors_with_a_message() {
    let cases: [(&str, Vec<u8>, &str); 6] = [
        (
            "html",
            response("200 OK", "text/html; charset=utf-8", b"<html></html>"),
            "invalid_answer",
        ),
        (
            "utf8",
            response("200 OK", "application/json", b"{\"a\": \"\xff\"}"),
            "invalid_answer",
        ),
        (
            "text",
            response("200 OK", "text/plain", b"sold out"),
            "invalid_answer",
        ),
        (
            "500",
            response("500 Internal Server Error", "text/plain", b""),
            "http_status",
        ),
        (
            "404",
            response(
                "404 Not Found",
                "application/json",
                b"{\"error\": \"no such sku\"}",
            ),
            "http_status",
        ),
        (
            "cut",
            b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_vec(),
            "unreachable",
        ),
    ];
    for (name, bytes, code) in cases {
        let server = Server::start(move |_, _| bytes.clone()).await;
        let http = http(&[&server.host()], &[]);
        let error = fetch(&http, &get(&format!("http://{}/", server.host()), ""))
            .await
            .unwrap_err();
        assert_eq!(error.code, code, "{name}: {error}");
        assert!(
            !error.message.is_empty() && !error.message.contains("http://"),
            "{error}"
        );
    }
    let server = Server::start(|_, _| response("204 No Content", "application/json", b"")).await;
    let http = http(&[&server.host()], &[]);
    assert_eq!(
        fetch(&http, &get(&format!("http://{}/", server.host()), "")).await,
        Ok(Value::Null)
    );
}

#[tokio::test]
async fn an_answer_of_ten_megabytes_is_cut_off_whether_its_length_is_told_or_not() {
    let told = || response("200 OK", "application/json", &vec![b' '; 10 << 20]);
    let untold = || {
        [
            b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".as_slice(),
            &vec![b' '; 10 << 20],
        ]
        .concat()
    };
    for bytes in [told(), untold()] {
        let server = Server::start(move |_, _| bytes.clone()).await;
        let http = http(&[&server.host()], &[]);
        let error = fetch(&http, &get(&format!("http://{}/", server.host()), ""))
            .await
            .unwrap_err();
        assert_eq!(error.code, "too_large");
    }
}

#[tokio::test]
async fn only_idempotent_requests_are_tried_again_and_only_where_it_may_help() {
    let flaky = |index: usize, _: &str| match index {
        0 => response("503 Service Unavailable", "text/plain", b"busy"),
        _ => response("200 OK", "application/json", b"1"),
    };
    let server = Server::start(flaky).await;
    let reach = http(&[&server.host()], &[]);
    assert_eq!(
        fetch(
            &reach,
            &get(&format!("http://{}/", server.host()), r#", "retries": 1"#)
        )
        .await,
        Ok(json!(1))
    );
    assert_eq!(server.asked().len(), 2);
    let server = Server::start(flaky).await;
    let reach = http(&[&server.host()], &[]);
    assert_eq!(
        fetch(&reach, &get(&format!("http://{}/", server.host()), ""))
            .await
            .unwrap_err()
            .code,
        "unavailable"
    );
    let server = Server::start(|_, _| response("404 Not Found", "text/plain", b"")).await;
    let reach = http(&[&server.host()], &[]);
    assert!(
        fetch(
            &reach,
            &get(&format!("http://{}/", server.host()), r#", "retries": 2"#)
        )
        .await
        .is_err()
    );
    assert_eq!(server.asked().len(), 1, "what is not there stays away");
}

#[tokio::test(start_paused = true)]
async fn a_cached_answer_is_good_for_its_time_and_its_arguments() {
    let tool = get("https://shop.example/{sku}", r#", "cache_s": 10"#);
    let Kind::Http(described) = &tool.kind else {
        unreachable!()
    };
    let request = |sku: &str| {
        request::build(described, &arguments(json!({"sku": sku})), &BTreeMap::new()).unwrap()
    };
    let cache = super::Cache::default();
    cache.put(&request("a"), &json!(1), described.cache);
    assert_eq!(cache.get(&request("a")), Some(json!(1)));
    assert_eq!(cache.get(&request("b")), None);
    tokio::time::advance(std::time::Duration::from_secs(11)).await;
    assert_eq!(cache.get(&request("a")), None);
    for n in 0..1_000 {
        cache.put(&request(&n.to_string()), &json!(n), described.cache);
        tokio::time::advance(std::time::Duration::from_millis(1)).await;
    }
    assert_eq!(cache.get(&request("999")), Some(json!(999)));
    assert_eq!(cache.get(&request("0")), None, "the oldest made room");
}

#[tokio::test]
async fn what_a_post_sends() {
    let server = Server::json("{}").await;
    let http = http(&[&server.host()], &[]);
    let tool = tool(&format!(
        r#"{{"name": "put", "description": "d", "kind": "http", "input_schema": {{"properties": {{"room": {{}}, "text": {{}}}}}}, "http": {{"method": "POST", "url": "http://{}/rooms/{{room}}"}}}}"#,
        server.host()
    ));
    http.fetch(&tool, &arguments(json!({"room": "a/b c", "text": "你好"})))
        .await
        .unwrap();
    let asked = &server.asked()[0];
    assert!(
        asked.starts_with("POST /rooms/a%2Fb%20c HTTP/1.1"),
        "{asked}"
    );
    assert!(
        asked.contains("content-type: application/json") && asked.ends_with("{\"text\":\"你好\"}"),
        "{asked}"
    );
}

#[test]
fn places_are_filled_and_absent_ones_of_the_query_leave() {
    let tool = get("https://shop.example/i/{sku}?lang={lang}&v=1", "");
    let Kind::Http(http) = &tool.kind else {
        unreachable!()
    };
    let url = |value: Value| {
        request::build(http, &arguments(value), &BTreeMap::new()).map(|request| request.url)
    };
    assert_eq!(
        url(json!({"sku": "A 1", "lang": "zh&x=1"})).unwrap(),
        "https://shop.example/i/A%201?lang=zh%26x%3D1&v=1"
    );
    assert_eq!(
        url(json!({"sku": "A", "lang": 5})).unwrap(),
        "https://shop.example/i/A?lang=5&v=1"
    );
    assert_eq!(
        url(json!({"sku": "A"})).unwrap(),
        "https://shop.example/i/A?v=1"
    );
    assert_eq!(
        url(json!({"lang": "x"})).unwrap_err().code,
        "invalid_arguments"
    );
    for sku in ["..", ".", ""] {
        assert_eq!(
            url(json!({"sku": sku})).unwrap_err().code,
            "invalid_arguments",
            "{sku:?}"
        );
    }
    assert_eq!(
        url(json!({"sku": ["a"]})).unwrap_err().code,
        "invalid_arguments"
    );
}

proptest! {
    /// No value leaves its place: host, number of path parts and names of the query stay.
    #[test]
    fn no_argument_changes_the_shape_of_a_url(sku in "\\PC{0,12}", lang in "[-./?#&=%@: a-z\\\\]{0,12}") {
        let tool = get("https://shop.example/i/{sku}/p?lang={lang}&v=1", "");
        let Kind::Http(http) = &tool.kind else { unreachable!() };
        if let Ok(request) = request::build(http, &arguments(json!({"sku": sku, "lang": lang})), &BTreeMap::new()) {
            let url = reqwest::Url::parse(&request.url).unwrap();
            prop_assert_eq!(url.host_str(), Some("shop.example"));
            prop_assert_eq!(url.path_segments().unwrap().count(), 3);
            let pairs: Vec<(String, String)> = url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
            prop_assert_eq!(pairs, [("lang".to_owned(), lang.clone()), ("v".to_owned(), "1".to_owned())]);
            prop_assert_eq!(url.fragment(), None);
        }
    }
}

#[test]
fn the_list_of_hosts_is_exact() {
    let guard = Guard::new(&[
        "Shop.Example".to_owned(),
        "10.0.0.5:8080".to_owned(),
        "[::1]:90".to_owned(),
    ])
    .unwrap();
    let route = |url: &str| guard.route(&reqwest::Url::parse(url).unwrap());
    assert_eq!(route("https://shop.example/"), Ok(Route::Public));
    assert_eq!(route("http://10.0.0.5:8080/"), Ok(Route::Any));
    assert_eq!(route("http://[::1]:90/"), Ok(Route::Any));
    for url in [
        "https://shop.example.evil.example/",
        "https://evil.example/shop.example",
        "https://shop.example:8443/",
        "https://shop.example@evil.example/",
        "http://10.0.0.5/",
        "http://10.0.0.5:8081/",
        "ftp://shop.example/",
        "http://[::1]/",
    ] {
        assert!(route(url).is_err(), "{url}");
    }
    for entry in [
        "",
        "https://shop.example",
        "shop.example/path",
        "*.example",
        "shop.example:port",
        "a b",
    ] {
        assert!(Guard::new(&[entry.to_owned()]).is_err(), "{entry}");
    }
}
