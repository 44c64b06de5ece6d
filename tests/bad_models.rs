//! The program asked to serve files that lie: it says what is wrong in one line and ends, whatever is wrong.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target)
}

fn serve(model: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_compere"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--threads",
            "1",
            "--model",
        ])
        .arg(model)
        .output()
        .expect("the program runs")
}

/// The one line that a refusal prints, after `error: ` and the path.
fn refusal(model: &Path) -> String {
    let output = serve(model);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let at = model.display();
    assert_eq!(output.status.signal(), None, "{at}: {text}");
    assert_eq!(output.status.code(), Some(1), "{at}: {text}");
    let lines: Vec<&str> = text.lines().collect();
    let [line] = lines[..] else {
        panic!("{at}: {text}");
    };
    let line = line.strip_prefix("error: ").expect("an error");
    let name = model.file_name().expect("a name").to_string_lossy();
    assert!(line.contains(&*name), "the file is named: {line}");
    line.split_once(&format!("{name}: "))
        .map_or(line, |(_, reason)| reason)
        .to_owned()
}

#[test]
fn a_gguf_file_that_lies_is_refused_by_its_field() {
    for (name, reason) in [
        (
            "alignment-zero",
            "general.alignment: 0 is not a power of two",
        ),
        (
            "alignment-no-power-of-two",
            "general.alignment: 48 is not a power of two",
        ),
        (
            "alignment-signed",
            "general.alignment: expected u32, found i32",
        ),
        (
            "size-wraps",
            "token_embd.weight: size of [64, 288230376151711745] as F32 does not fit 64 bits",
        ),
        ("tensor-count-huge", "tensor count: "),
        ("array-count-huge", "k: "),
        ("array-of-arrays", "k: an array of arrays is not supported"),
        (
            "string-length-huge",
            "k: string of 9223372036854775808 bytes",
        ),
        ("tensor-twice", "t: occurs twice"),
        (
            "offset-huge",
            "t: offset 18446744073709551584 does not fit 64 bits",
        ),
        ("axis-zero", "t: an axis of [0, 4] is zero"),
        ("token-types-of-bytes", "general.architecture: missing"),
        ("file-type-a-string", "general.architecture: missing"),
    ] {
        let line = refusal(&corpus("gguf_header").join(format!("{name}.gguf")));
        assert!(line.starts_with(reason), "{name}: {line}");
    }
    let line = refusal(&corpus("gguf_header").join("no-sizes.gguf"));
    for key in [
        "block_count",
        "embedding_length",
        "attention.head_count",
        "context_length",
    ] {
        assert!(line.contains(&format!("llama.{key}")), "{line}");
    }
}

#[test]
fn a_safetensors_file_that_lies_is_refused_by_its_field() {
    for (name, reason) in [
        ("name-twice", "a: occurs twice"),
        ("escaped-name", "a: occurs twice"),
        ("truncated", "b: file is truncated"),
        (
            "length-huge",
            "header length: 18446744073709551608 bytes; the format allows 100000000",
        ),
        (
            "overlap",
            "b: starts at 8 where 12 is expected: it shares bytes",
        ),
        ("gap", "b: starts at 16 where 12 is expected"),
        (
            "size-wraps",
            "a: size of [4611686018427387905, 4] as F32 does not fit 64 bits",
        ),
        ("nested", "a: "),
    ] {
        let line = refusal(&corpus("safetensors_header").join(format!("{name}.safetensors")));
        assert!(line.starts_with(reason), "{name}: {line}");
    }
}

#[test]
fn a_folder_that_is_no_model_is_refused_with_what_it_lacks() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = refusal(folder.path());
    assert!(
        line.contains("weights: there is no model.safetensors in the folder"),
        "{line}"
    );
    fs::copy(
        corpus("safetensors_header").join("valid.safetensors"),
        folder.path().join("model.safetensors"),
    )
    .expect("a copy");
    assert!(refusal(folder.path()).ends_with("config.json: file: no such file"));
}

#[test]
fn a_folder_is_described_for_people() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny/qwen3");
    let output = Command::new(env!("CARGO_BIN_EXE_compere"))
        .args(["model", "inspect"])
        .arg(&folder)
        .output()
        .expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success());
    for said in [
        "safetensors",
        "qwen3",
        "BF16",
        "tokenizer.json: file: missing",
    ] {
        assert!(text.contains(said), "{said} in {text}");
    }
}
