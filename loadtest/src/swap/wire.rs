//! The least of HTTP that measuring needs: one request a connection, its status, its events as they come.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::Failure;

/// Longest silence of a server.
const PATIENCE: Duration = Duration::from_secs(120);

/// An answer being read.
pub(super) struct Answer {
    /// The status code.
    pub(super) status: u16,
    reader: BufReader<TcpStream>,
    event: String,
}

/// Posts `body`. The connection ends with the answer.
pub(super) fn post(address: SocketAddr, path: &str, body: &Value) -> Result<Answer, Failure> {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| format!("{path}: answered {line:?}"))?;
    Ok(Answer {
        status,
        reader,
        event: String::new(),
    })
}

impl Answer {
    /// The next event's name and data; `None` at the end.
    pub(super) fn event(&mut self) -> Result<Option<(String, String)>, Failure> {
        let mut line = String::new();
        while self.reader.read_line(&mut line)? > 0 {
            if let Some(name) = line.strip_prefix("event:") {
                name.trim().clone_into(&mut self.event);
            } else if let Some(data) = line.strip_prefix("data:") {
                let name = std::mem::take(&mut self.event);
                return Ok(Some((name, data.trim().to_owned())));
            }
            line.clear();
        }
        Ok(None)
    }

    /// All that is left.
    pub(super) fn rest(mut self) -> Result<String, Failure> {
        let mut text = String::new();
        self.reader.read_to_string(&mut text)?;
        Ok(text)
    }
}
