//! A whole run against a scripted server: what it says, what it writes, and when it fails.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::*;

const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
    event: segment\ndata: {\"seq\":0}\n\nevent: response.completed\ndata: {\"finish_reason\":\"stop\"}\n\n";
const REFUSAL: &str =
    "HTTP/1.1 429 Too Many Requests\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// A server that refuses every fourth request; it ends with the tests.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    std::thread::spawn(move || {
        for (number, socket) in listener.incoming().enumerate() {
            let mut socket = socket.expect("a connection");
            let mut request = Vec::new();
            let mut bytes = [0; 4096];
            while !is_whole(&request) {
                let read = socket.read(&mut bytes).expect("a request");
                request.extend_from_slice(&bytes[..read]);
            }
            let refused = number % 4 == 3;
            let answer = if refused { REFUSAL } else { ANSWER };
            socket.write_all(answer.as_bytes()).expect("answered");
        }
    });
    url
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .to_ascii_lowercase()
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    body.len() >= length.expect("a length")
}

/// Runs a scenario with these promises; whether they were kept, and the report.
fn outcome(purpose: &str, slo: &str) -> (bool, serde_json::Value) {
    let folder = Folder::new(purpose).expect("a folder");
    let scenario = folder.path().join("scenario.toml");
    let text = format!(
        "name = \"scripted\"\ntarget = \"respond\"\nduration_s = 0.1\nwarm_up_s = 0.02\nrate = 400\n\
         arrivals = \"even\"\n[texts]\nharness = {{ words = 5 }}\nroom_facts = {{ words = 5 }}\n\
         [[swap]]\nat_s = 0\ncommand = [\"true\"]\n[slo]\n{slo}\n"
    );
    std::fs::write(&scenario, text).expect("written");
    let args = RunArgs {
        scenario,
        url: Some(server()),
        server: None,
        model: None,
        threads: 1,
        out: Some(folder.path().join("out")),
    };
    let kept = run(&args).expect("it ran");
    let read = |name: &str| std::fs::read_to_string(folder.path().join("out").join(name));
    assert!(read("report.html").expect("a page").contains("<svg"));
    let json = read("report.json").expect("a report");
    (kept, serde_json::from_str(&json).expect("JSON"))
}

#[test]
fn kept_promises_pass_and_the_report_says_what_came() {
    let (kept, report) = outcome("kept", "error_share = 0.5");
    assert!(kept);
    let summary = &report["stages"][0]["summary"];
    let [requests, completed, refused] = [
        &summary["requests"],
        &summary["completed"],
        &summary["errors"]["status 429"],
    ]
    .map(|count| count.as_u64().expect("a count"));
    assert_eq!(requests, completed + refused);
    assert!(refused > 0 && completed > refused, "{summary}");
    let all = report["stages"][0]["requests"].as_array().expect("a list");
    let warm_up = all.iter().filter(|request| request["counted"] == false);
    assert_eq!(
        warm_up.count() + usize::try_from(requests).expect("small"),
        all.len()
    );
}

#[test]
fn a_promise_that_was_not_kept_fails_the_run_and_is_named() {
    for (purpose, slo) in [
        ("missed-errors", "error_share = 0.1"),
        ("missed-latency", "e2e_p95_ms = 0.000001"),
        ("missed-segment", "first_segment_p95_ms = 0.000001"),
    ] {
        let (kept, report) = outcome(purpose, slo);
        assert!(!kept, "{slo}");
        let missed = report["stages"][0]["missed"][0].as_str().expect("a reason");
        assert!(
            slo.starts_with(missed.split(' ').next().expect("a key")),
            "{missed}"
        );
    }
}

#[test]
fn a_scenario_that_cannot_be_read_is_named() {
    let args = RunArgs {
        scenario: PathBuf::from("no/such.toml"),
        url: Some("http://127.0.0.1:1".to_owned()),
        server: None,
        model: None,
        threads: 1,
        out: None,
    };
    let error = run(&args).expect_err("no file").to_string();
    assert!(error.contains("no/such.toml"), "{error}");
}

#[test]
fn a_harness_is_a_folder_that_a_server_can_be_given() {
    let folder = Folder::new("harness").expect("a folder");
    let settings = harness_settings(&folder, "Be kind.").expect("written");
    let persona = harness_folder(folder.path()).join("prompts/persona.txt");
    assert_eq!(std::fs::read_to_string(persona).expect("there"), "Be kind.");
    assert!(harness_folder(folder.path()).join("harness.toml").exists());
    assert_eq!(settings.len(), 3);
}
