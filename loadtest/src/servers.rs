//! Servers that live as long as a measurement: ours, and llama.cpp's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::Failure;

/// Longest wait until a server is ready.
const READY: Duration = Duration::from_secs(120);
/// Between two looks whether it is.
const LOOK: Duration = Duration::from_millis(50);
/// HTTP threads of llama-server, one for each open stream, so that none waits for a thread instead of a slot.
const PEER_HTTP_THREADS: &str = "256";

/// A server process that ends with this value.
pub(crate) struct Server {
    child: Child,
    /// Host and port.
    pub(crate) address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone after this.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts `program serve` on a free port, ready when this returns.
    pub(crate) fn compere(
        program: &Path,
        model: &Path,
        threads: usize,
        settings: &[(&str, String)],
    ) -> Result<Self, Failure> {
        let mut child = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(["--threads", &threads.to_string()])
            .args(["--model".as_ref(), model.as_os_str()])
            .envs(settings.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let output = child.stdout.take().ok_or("no standard output")?;
        let mut server = Self {
            child,
            address: String::new(),
        };
        let mut lines = BufReader::new(output).lines();
        while server.address.is_empty() {
            let line = lines
                .next()
                .ok_or("the server ended before it was ready")??;
            if let Some((_, address)) = line.split_once("http://") {
                let address = address.split_whitespace().next().unwrap_or_default();
                address
                    .trim_end_matches('/')
                    .clone_into(&mut server.address);
            }
        }
        // The rest of its output must not block it.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(server)
    }

    /// Starts llama.cpp's server with these flags beside model, threads and address, ready when this returns.
    pub(crate) fn llama(
        program: &Path,
        model: &Path,
        threads: usize,
        flags: &[String],
    ) -> Result<Self, Failure> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = Command::new(program)
            .args(["--model".as_ref(), model.as_os_str()])
            .args(["--threads", &threads.to_string()])
            .args(["--host", "127.0.0.1", "--port", &port.to_string()])
            .args(["--threads-http", PEER_HTTP_THREADS])
            .args(flags)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}; `make peers` builds it", program.display()))?;
        let mut server = Self {
            child,
            address: format!("127.0.0.1:{port}"),
        };
        let start = Instant::now();
        while !server.is_healthy() {
            if let Some(status) = server.child.try_wait()? {
                return Err(
                    format!("llama-server {}: ended with {status}", flags.join(" ")).into(),
                );
            }
            if start.elapsed() > READY {
                return Err(format!("llama-server {}: not ready in time", flags.join(" ")).into());
            }
            std::thread::sleep(LOOK);
        }
        Ok(server)
    }

    /// Its process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Its address as a URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn is_healthy(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(&self.address) else {
            return false;
        };
        let asked = write!(
            stream,
            "GET /health HTTP/1.0\r\nhost: {}\r\n\r\n",
            self.address
        );
        let mut answer = String::new();
        asked.is_ok()
            && stream.read_to_string(&mut answer).is_ok()
            && answer.split(' ').nth(1) == Some("200")
    }
}

/// A folder for files of a measurement; it goes with it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// A new one, named after what it is for.
    pub(crate) fn new(purpose: &str) -> Result<Self, Failure> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("compere-{purpose}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed stays in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
