//! The program itself on the real model: from the command line to its exit code.

use std::io::{BufRead as _, BufReader, Lines, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::model_file;
use crate::support::client::{Client, Response};

/// A server process of this test; it ends with it.
pub(crate) struct Program {
    pub(crate) child: Child,
    pub(crate) lines: Lines<BufReader<ChildStdout>>,
    pub(crate) address: SocketAddr,
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone after this.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program, whose states are nobody else's.
pub(crate) fn compere() -> Command {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let state = format!(
        "state-{}-{}",
        std::process::id(),
        STARTED.fetch_add(1, Ordering::Relaxed)
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_compere"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env(
        "COMPERE_HARNESS__STATE",
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(state),
    );
    command
}

fn serve(args: &[&str]) -> Program {
    started(&mut compere(), args)
}

/// Serves the real model on a port of its own, once it is ready.
pub(crate) fn started(command: &mut Command, args: &[&str]) -> Program {
    let mut child = command
        .args(["serve", "--listen", "127.0.0.1:0", "--threads", "1"])
        .args(["--model".as_ref(), model_file::path().as_os_str()])
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let ready = lines
        .next()
        .expect("it says that it is ready")
        .expect("text");
    let address = ready
        .split_once("http://")
        .expect("an address")
        .1
        .split_whitespace()
        .next()
        .expect("an address");
    let address = address.parse().expect("an address");
    Program {
        child,
        lines,
        address,
    }
}

pub(crate) fn post(address: SocketAddr, path: &str, body: &Value) -> Response {
    let mut client = Client::connect(address);
    client.post(path, &body.to_string());
    client.response()
}

/// Greedy text and token counts of one chat answer.
fn say(address: SocketAddr, prompt: &str, max_tokens: usize) -> (String, Value) {
    let body = json!({"messages": [{"role": "user", "content": prompt}], "temperature": 0, "max_tokens": max_tokens});
    let response = post(address, "/v1/chat/completions", &body);
    assert_eq!(response.status(), 200, "{:?}", response.json());
    let answer = response.json();
    (
        answer["choices"][0]["message"]["content"]
            .as_str()
            .expect("text")
            .to_owned(),
        answer["usage"].clone(),
    )
}

fn run(args: &[&str]) -> Output {
    compere().args(args).output().expect("the program starts")
}

#[cfg(unix)]
pub(crate) fn terminate(child: &Child) {
    let status = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .expect("kill runs");
    assert!(status.success());
}

#[test]
fn the_real_model_answers_a_comment_and_the_program_ends_when_asked() {
    let mut program = serve(&["--sample", "Is it waterproof?"]);
    let shown: Vec<String> = program
        .lines
        .by_ref()
        .map(|line| line.expect("text"))
        .take_while(|line| !line.starts_with("Serving"))
        .collect();
    let shown = shown.join("\n");
    assert!(shown.contains("first segment after"), "{shown}");
    assert!(shown.contains("curl -N http://"), "{shown}");

    let question = json!({"room_id": "r1", "comments": [{"text": "Is it waterproof?"}],
        "context": {"facts": {"name": "Trail Jacket", "waterproof": "yes, to 10,000 mm"}}});
    let answer = post(program.address, "/v1/avatar/respond", &question).json();
    let segments = answer["segments"].as_array().expect("segments");
    let said: String = segments
        .iter()
        .map(|segment| segment["text"].as_str().expect("text"))
        .collect();
    assert!(said.contains("10,000"), "{answer}");

    terminate(&program.child);
    let status = program.child.wait().expect("it ends");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn answers_are_the_same_alone_and_among_others() {
    let program = serve(&[]);
    let address = program.address;
    let prompts = [
        "Name three colours.",
        "What is a jacket?",
        "Count from one to ten.",
        "Say hello in French.",
    ];
    let alone: Vec<String> = prompts
        .iter()
        .map(|prompt| say(address, prompt, 24).0)
        .collect();
    let together: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..12)
            .map(|index| scope.spawn(move || say(address, prompts[index % 4], 24).0))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("an answer"))
            .collect()
    });
    for (index, text) in together.iter().enumerate() {
        assert_eq!(*text, alone[index % 4]);
    }
}

#[test]
fn a_second_prompt_reuses_the_first_ones_blocks_and_says_so() {
    let program = serve(&[]);
    let facts = "The jacket is green, weighs 380 grams and costs 89 dollars. ".repeat(12);
    let (first, cold) = say(program.address, &format!("{facts}What colour is it?"), 8);
    let (again, warm) = say(program.address, &format!("{facts}What colour is it?"), 8);
    assert_eq!(first, again);
    let cached = |usage: &Value| {
        usage["prompt_tokens_details"]["cached_tokens"]
            .as_u64()
            .expect("a count")
    };
    assert!(cached(&warm) > cached(&cold) + 100, "{cold} {warm}");
}

/// Each token of a greedy continuation with its likelihood, and then of the same text as a prompt: bit for bit.
#[test]
fn the_real_model_scores_a_prompt_as_it_said_it() {
    let program = serve(&[]);
    let complete = |members: Value| {
        let response = post(program.address, "/v1/completions", &members);
        assert_eq!(response.status(), 200, "{:?}", response.json());
        response.json()["choices"][0].clone()
    };
    let numbers =
        |choice: &Value, name: &str| choice["logprobs"][name].as_array().expect("a list").clone();
    let facts = "The jacket is green, weighs 380 grams and costs 89 dollars. ".repeat(6);
    let facts = facts.trim_end();
    let said = complete(json!({
        "prompt": facts, "temperature": 0, "max_tokens": 16, "logprobs": 3, "echo": true,
    }));
    let text = said["text"].as_str().expect("text");
    assert!(text.len() > facts.len());
    let scored = complete(json!({"prompt": text, "max_tokens": 0, "logprobs": 3, "echo": true}));
    assert_eq!(
        numbers(&scored, "tokens"),
        numbers(&said, "tokens"),
        "the text is cut into the same tokens"
    );
    assert_eq!(
        numbers(&scored, "token_logprobs"),
        numbers(&said, "token_logprobs")
    );
    assert_eq!(
        numbers(&scored, "top_logprobs"),
        numbers(&said, "top_logprobs")
    );
    let likely = numbers(&scored, "token_logprobs");
    let repeated = likely[likely.len() / 2].as_f64().expect("a number");
    assert!(
        (-0.5..=0.0).contains(&repeated),
        "what was said five times is expected: {repeated}"
    );
}

#[test]
fn a_model_that_cannot_be_loaded_is_named_with_its_fault() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("cut.gguf");
    let mut start = vec![0; 1_000_000];
    std::fs::File::open(model_file::path())
        .expect("the model")
        .read_exact(&mut start)
        .expect("a megabyte");
    std::fs::write(&path, &start).expect("it is written");
    for (model, fault) in [
        (path.to_str().expect("text"), "cut.gguf"),
        ("/nowhere/x.gguf", "x.gguf"),
        ("no-such-id", "no-such-id"),
    ] {
        let output = run(&["serve", "--listen", "127.0.0.1:0", "--model", model]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(
            error.contains("error: ") && error.contains(fault),
            "{error}"
        );
    }
}

#[test]
fn wrong_use_and_wrong_settings_have_their_own_exit_codes() {
    assert_eq!(run(&["serve", "--no-such-flag"]).status.code(), Some(2));
    assert_eq!(run(&[]).status.code(), Some(2));
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("compere.toml");
    std::fs::write(&path, "[http]\nlissten = 1\n").expect("it is written");
    let output = run(&["serve", "--config", path.to_str().expect("text")]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        error.contains("compere.toml") && error.contains("line 2") && error.contains("lissten"),
        "{error}"
    );
}

/// Fault: a setting that cannot work was passed over, or failed later under another name.
#[test]
fn settings_that_cannot_work_are_named_at_the_start() {
    for (variable, value, words) in [
        ("COMPERE_MODEL__THREADS", "999999", ["threads", "1 to 1024"]),
        ("COMPERE_MODEL__THREADS", "0", ["threads", "1 to 1024"]),
        (
            "COMPERE_MODEL__MAX_CONTEXT",
            "1",
            ["max_context", "from 2 to"],
        ),
        (
            "COMPERE_MODEL__MAX_CONTEXT",
            "20",
            ["model.max_context", "20"],
        ),
        (
            "COMPERE_TELEMETRY__LEVEL",
            "zzz",
            ["telemetry.level", "zzz"],
        ),
        ("COMPERE_HTTP", "1", ["COMPERE_HTTP", "section"]),
    ] {
        let output = compere()
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(["--model".as_ref(), model_file::path().as_os_str()])
            .env(variable, value)
            .output()
            .expect("the program starts");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{variable}={value}: {error}");
        let error = error.lines().rfind(|line| line.starts_with("error: "));
        let error = error.expect("a line that says why");
        assert!(
            words.iter().all(|word| error.contains(word)),
            "{variable}={value}: {error}"
        );
    }
}

#[test]
fn a_model_file_is_described_for_people() {
    let output = run(&[
        "model",
        "inspect",
        model_file::path().to_str().expect("text"),
    ]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success());
    assert!(
        text.contains("llama") && text.contains("Q4_1") && text.contains("smollm"),
        "{text}"
    );
}
