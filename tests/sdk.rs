//! The official OpenAI client for Python works against the server unchanged.

use std::path::PathBuf;
use std::process::Command;

use crate::support::MODEL;
use crate::support::paged::PagedServer;

/// The Python that has `tests/sdk/requirements.txt` installed; `make deps` makes the default one.
fn python() -> PathBuf {
    if let Some(given) = std::env::var_os("COMPERE_TEST_PYTHON") {
        return given.into();
    }
    let home = std::env::var_os("HOME").expect("HOME names the cache of test tools");
    PathBuf::from(home).join(".cache/compere/venv/bin/python")
}

#[test]
fn the_official_client_works_unchanged() {
    let paged = PagedServer::saying("Yes, it is waterproof.\n\nAnd it is warm, 也很轻。");
    let python = python();
    let run = Command::new(&python)
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/sdk/test_openai.py"
        ))
        .arg(format!("http://{}/v1", paged.server.address()))
        .arg(MODEL)
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}; run `make deps`", python.display()));
    assert!(
        run.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr)
    );
}
