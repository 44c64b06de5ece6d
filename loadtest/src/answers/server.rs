//! The server that is asked: one that already runs, or one of our own that ends with the measurement.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::Failure;

/// Where turns are asked for, and what is stopped and removed at the end.
pub(super) struct Server {
    /// Host and port.
    address: String,
    own: Option<Own>,
}

struct Own {
    child: Child,
    /// Harnesses and state of the measurement alone.
    folder: PathBuf,
}

impl Drop for Own {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone after this, and its folder is of no more use.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// How a server of our own is started.
pub(super) struct Start<'a> {
    /// The compere program.
    pub(super) program: &'a Path,
    /// The model's file.
    pub(super) model: &'a Path,
    /// Compute threads.
    pub(super) threads: usize,
    /// The harness that answers.
    pub(super) harness: &'a Path,
    /// Only the harness's persona instead of all of it.
    pub(super) plain: bool,
}

impl Server {
    /// One that runs at `url`, such as `http://127.0.0.1:8080`.
    pub(super) fn at(url: &str) -> Self {
        let address = url.trim_start_matches("http://").trim_end_matches('/');
        Self {
            address: address.to_owned(),
            own: None,
        }
    }

    /// Starts one, and waits until it is ready.
    pub(super) fn start(start: &Start<'_>) -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(format!("compere-answers-{}", std::process::id()));
        let harness = folder.join("harness/live-room");
        if start.plain {
            copy(
                &start.harness.join("prompts/persona.txt"),
                &harness.join("prompts/persona.txt"),
            )?;
            fs::write(harness.join("harness.toml"), "language = \"en\"\n")?;
        } else {
            copy(start.harness, &harness)?;
        }
        let child = Command::new(start.program)
            .args(["serve", "--listen", "127.0.0.1:0", "--threads"])
            .arg(start.threads.to_string())
            .args(["--model".as_ref(), start.model.as_os_str()])
            .env("COMPERE_HARNESS__DIRECTORY", folder.join("harness"))
            .env("COMPERE_HARNESS__STATE", folder.join("state"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}", start.program.display()))?;
        let mut own = Own { child, folder };
        let output = own.child.stdout.take().ok_or("no standard output")?;
        let address = listening(output)?;
        Ok(Self {
            address,
            own: Some(own),
        })
    }

    /// One turn, as the server answers it: the object of its route.
    pub(super) fn ask(&self, body: &Value) -> Result<Value, Failure> {
        let body = body.to_string();
        let mut stream = TcpStream::connect(&self.address)
            .map_err(|error| format!("{}: {error}", self.address))?;
        write!(
            stream,
            "POST /v1/avatar/respond HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.address,
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .ok_or("the server closed the connection without an answer")?;
        if !head.starts_with("HTTP/1.1 200") {
            return Err(format!("the server answered {answer}").into());
        }
        Ok(serde_json::from_str(body)?)
    }

    /// Whether it is stopped at the end.
    pub(super) fn is_own(&self) -> bool {
        self.own.is_some()
    }
}

/// The address that a starting server prints once it is ready.
fn listening(output: impl Read + Send + 'static) -> Result<String, Failure> {
    let mut lines = BufReader::new(output).lines();
    let address = loop {
        let line = lines
            .next()
            .ok_or("the server ended before it was ready")??;
        let Some((_, rest)) = line.split_once("http://") else {
            continue;
        };
        let address = rest.split_whitespace().next().unwrap_or_default();
        break address.trim_end_matches('/').to_owned();
    };
    // The rest of its output must not block it.
    std::thread::spawn(move || lines.for_each(drop));
    Ok(address)
}

/// Copies a file or a whole folder.
fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    if !from.is_dir() {
        fs::create_dir_all(to.parent().ok_or("a file without a folder")?)?;
        fs::copy(from, to).map_err(|error| format!("{}: {error}", from.display()))?;
        return Ok(());
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}
