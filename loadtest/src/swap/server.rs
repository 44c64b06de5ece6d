//! A server process of its own folder, with its operators' listener.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::json;

use super::{Options, wire};
use crate::Failure;

/// The process; it ends with this, and its folder goes.
pub(super) struct Server {
    child: Child,
    folder: PathBuf,
    /// Where viewers are answered.
    pub(super) address: SocketAddr,
    admin: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone after this.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Server {
    /// Serves the harness that `write` puts into the folder that it is given.
    pub(super) fn start(
        options: &Options,
        write: impl FnOnce(&Path) -> std::io::Result<()>,
    ) -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(format!("compere-swap-{}", std::process::id()));
        write(&folder.join("harness"))?;
        let config = folder.join("compere.toml");
        let text = format!(
            "[harness]\ndirectory = {:?}\nstate = {:?}\n[admin]\nlisten = \"127.0.0.1:0\"\n[telemetry]\nlevel = \"warn\"\n",
            folder.join("harness"),
            folder.join("state")
        );
        fs::write(&config, text)?;
        let mut child = Command::new(&options.server)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(["--threads", &options.threads.to_string()])
            .args(["--model".as_ref(), options.model.as_os_str()])
            .args(["--config".as_ref(), config.as_os_str()])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("it has an output")?);
        let address = told(&mut lines)?;
        // The line after the first says it the same way.
        let admin = told(&mut lines)?;
        Ok(Self {
            child,
            folder,
            address,
            admin,
        })
    }

    /// The folder of harnesses.
    pub(super) fn directory(&self) -> PathBuf {
        self.folder.join("harness")
    }

    /// Has the folder read now; ends when what it holds is live.
    pub(super) fn reload(&self) -> Result<(), Failure> {
        let answer = wire::post(self.admin, "/admin/harness/live-room/reload", &json!({}))?;
        match answer.status {
            200 => Ok(()),
            _ => Err(format!("the reload failed: {}", answer.rest()?).into()),
        }
    }
}

/// The address that the next line tells.
fn told(lines: &mut BufReader<ChildStdout>) -> Result<SocketAddr, Failure> {
    let mut line = String::new();
    lines.read_line(&mut line)?;
    let (_, rest) = line
        .split_once("http://")
        .ok_or("the server did not start")?;
    let end = rest.find(|c: char| c == '/' || c.is_whitespace());
    Ok(rest[..end.unwrap_or(rest.len())].parse()?)
}
