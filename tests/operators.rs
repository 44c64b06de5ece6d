//! Operators beside the program on the real model: an edit goes live, a broken one does not, nothing secret is told, and
//! the kept states are there when the server is gone.

use std::fs;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::model_file;
use crate::program::{Program, compere, post, started, terminate};
use crate::support::client::{Client, Response};
use crate::support::until;

const COMMENT: &str = "call me on 13800138000, is it waterproof?";
/// What a viewer wrote, what a caller's headers hold, what a tool's header is made of.
const CANARIES: [&str; 3] = ["13800138000", "sk-test-CANARY1", "CANARY4"];

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("folder");
    fs::write(path, text).expect("file");
}

/// Replaces a file whole, as editors do.
fn save(path: &Path, text: &str) {
    let new = path.with_file_name(".new");
    put(&new, text);
    fs::rename(new, path).expect("renamed");
}

fn skill(body: &str) -> String {
    format!(
        "---\nname: stock\ndescription: Tells what is in stock.\nmetadata:\n  avatar/inline: \"true\"\n---\n{body}\n"
    )
}

/// A harness with one skill, and a tool whose header holds a secret.
fn write_room(room: &Path) {
    put(
        &room.join("harness.toml"),
        "language = \"en\"\nfallback = \"One moment.\"\n",
    );
    put(
        &room.join("prompts/persona.txt"),
        "You are the host of a live shopping stream.\n",
    );
    put(
        &room.join("skills/stock/SKILL.md"),
        &skill("Three are left."),
    );
    let tool = json!({
        "name": "get_stock", "description": "Looks the stock up.", "risk": "read", "kind": "http",
        "input_schema": {"type": "object", "properties": {}, "additionalProperties": false},
        "http": {"method": "GET", "url": "https://shop.example.com/stock",
            "headers": {"authorization": "Bearer {secret:SHOP_TOKEN}"}}
    });
    put(&room.join("tools/get_stock.json"), &tool.to_string());
}

fn configured(dir: &Path) -> Command {
    let mut command = compere();
    command
        .env("COMPERE_HARNESS__DIRECTORY", dir.join("harness"))
        .env("COMPERE_HARNESS__STATE", dir.join("state"))
        .env("COMPERE_HARNESS__DEBOUNCE_MS", "20")
        .env("COMPERE_ADMIN__LISTEN", "127.0.0.1:0")
        .env("COMPERE_TOOLS__ALLOW_HOSTS", "[\"shop.example.com\"]")
        .env("COMPERE_TOOLS__SECRETS", "[\"SHOP_TOKEN\"]")
        .env("SHOP_TOKEN", "CANARY4");
    command
}

struct Operators(SocketAddr);

impl Operators {
    /// Where the program says that it listens for them.
    fn of(program: &mut Program) -> Self {
        let line = program.lines.next().expect("a second line").expect("text");
        let (_, rest) = line.split_once("http://").expect("an address");
        let address = rest.split('/').next().expect("an address");
        Self(address.parse().expect("an address"))
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Response {
        let mut client = Client::connect(self.0);
        let headers = "content-type: application/json\r\nauthorization: Bearer sk-test-CANARY1\r\n";
        client.request(method, path, headers, &body.to_string());
        client.response()
    }

    fn room(&self) -> Value {
        self.ask("GET", "/admin/harness/live-room", &json!({}))
            .json()
    }
}

fn ask(address: SocketAddr) -> Value {
    let body = json!({"room_id": "r1", "comments": [{"text": COMMENT}], "deadline_ms": 60_000});
    let mut client = Client::connect(address);
    let headers = "content-type: application/json\r\nauthorization: Bearer sk-test-CANARY1\r\n";
    client.request("POST", "/v1/avatar/respond", headers, &body.to_string());
    let answer = client.response();
    assert_eq!(answer.status(), 200, "{}", answer.body);
    answer.json()
}

/// Fault: the bearer token, a tool's secret or what viewers wrote stood in logs, metrics or errors.
#[test]
fn an_edit_goes_live_a_broken_one_is_told_and_nothing_private_is() {
    let dir = tempfile::tempdir().expect("temp dir");
    let room = dir.path().join("harness/live-room");
    write_room(&room);
    let mut program = started(&mut configured(dir.path()), &[]);
    let operators = Operators::of(&mut program);
    let first = operators.room()["active"]["version"].clone();
    assert_eq!(ask(program.address)["started"]["harness"]["version"], first);

    let level = operators.ask(
        "POST",
        "/admin/log-level",
        &json!({"level": "info,compere=debug"}),
    );
    assert_eq!(level.json()["level"], "info,compere=debug");
    let skill_file = room.join("skills/stock/SKILL.md");
    save(&skill_file, "");
    until("operators see the broken edit", || {
        !operators.room()["last_error"].is_null()
    });
    assert_eq!(operators.room()["active"]["version"], first);
    save(&skill_file, &skill("Nine are left."));
    until("the edit is live", || {
        operators.room()["active"]["version"] != first
    });
    let second = operators.room()["active"]["version"].clone();
    assert_eq!(
        ask(program.address)["started"]["harness"]["version"],
        second
    );

    let trial = json!({"comment": COMMENT, "version": first});
    let tried = operators
        .ask("POST", "/admin/harness/live-room/try", &trial)
        .json();
    assert_eq!(
        (&tried["live"]["version"], &tried["tried"]["version"]),
        (&second, &first)
    );
    for side in ["live", "tried"] {
        assert!(
            tried[side]["sections"][0]["tokens"].as_u64() > Some(0),
            "{tried}"
        );
        assert!(
            tried[side]["answer"]["completed"]["timings"]["total_ms"].is_u64(),
            "{tried}"
        );
    }
    let wrong = post(
        program.address,
        "/v1/avatar/respond",
        &json!({"room_id": 7, "comments": [{"text": COMMENT}]}),
    );
    let mut told = wrong.body;
    let mut client = Client::connect(program.address);
    client.request("GET", "/metrics", "", "");
    told.push_str(&client.response().body);
    told.push_str(&operators.room().to_string());

    terminate(&program.child);
    let status = program.child.wait().expect("it ends");
    assert!(status.success(), "{status}");
    let mut log = program.child.stderr.take().expect("piped");
    log.read_to_string(&mut told).expect("text");
    assert!(
        told.contains("harness rejected"),
        "the log is there: {told}"
    );
    for canary in CANARIES {
        assert!(!told.contains(canary), "{canary} is told: {told}");
    }
    trial_without_a_server(
        dir.path(),
        second.as_str().expect("text"),
        first.as_str().expect("text"),
    );
}

fn trial_without_a_server(dir: &Path, live: &str, other: &str) {
    let output = configured(dir)
        .args([
            "harness",
            "try",
            "is it waterproof?",
            "--version",
            &other[..12],
        ])
        .args(["--model".as_ref(), model_file::path().as_os_str()])
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.contains(&format!("live {}", &live[..12])), "{text}");
    assert!(text.contains(&format!("tried {}", &other[..12])), "{text}");
    assert!(
        text.contains("tokens  persona") && text.contains("first segment after"),
        "{text}"
    );
}

/// Fault: a harness that needs what the server does not have failed in the middle of a turn.
#[test]
fn a_harness_whose_tools_lack_what_they_need_stops_the_start_and_says_all() {
    let dir = tempfile::tempdir().expect("temp dir");
    write_room(&dir.path().join("harness/live-room"));
    let output = configured(dir.path())
        .args(["serve", "--listen", "127.0.0.1:0", "--threads", "1"])
        .args(["--model".as_ref(), model_file::path().as_os_str()])
        .env_remove("SHOP_TOKEN")
        .output()
        .expect("the program starts");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("get_stock") && error.contains("SHOP_TOKEN"),
        "{error}"
    );
}
