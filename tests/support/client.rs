//! A client that speaks raw HTTP/1.1, so that tests see exactly what is on the wire.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::PATIENCE;

/// One connection.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

/// A response's status line and headers, names in lower case.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(given, _)| given == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} is sent once");
        value
    }
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) head: Head,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn status(&self) -> u16 {
        self.head.status
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {:?} {:?}", self.head, self.body))
    }

    /// Asserts the body that every error has and returns its `error`.
    pub(crate) fn error(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status(), status, "{}", self.body);
        assert_eq!(self.head.header("content-type"), Some("application/json"));
        let error = self.json()["error"].clone();
        assert_eq!(error["code"], code, "{error}");
        for text in ["message", "type", "request_id"] {
            assert!(error[text].is_string(), "{text} in {error}");
        }
        let id = self.head.header("x-request-id");
        assert_eq!(error["request_id"].as_str(), id);
        error
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream: BufReader::new(stream),
        }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    /// Sends a request; the body, if any, with its length.
    pub(crate) fn request(&mut self, method: &str, path: &str, headers: &str, body: &str) {
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("content-length: {}\r\n", body.len())
        };
        self.send(format!(
            "{method} {path} HTTP/1.1\r\nhost: test\r\n{headers}{length}\r\n{body}"
        ));
    }

    pub(crate) fn post(&mut self, path: &str, body: &str) {
        self.request("POST", path, "content-type: application/json\r\n", body);
    }

    pub(crate) fn head(&mut self) -> Head {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let count = self.stream.read_line(&mut line).expect("a head comes");
            assert!(count > 0, "the connection ended inside a head: {lines:?}");
            let line = line.trim_end().to_owned();
            if line.is_empty() {
                break;
            }
            lines.push(line);
        }
        let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines[1..].iter().map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_lowercase(), value.trim().to_owned())
        });
        Head {
            status,
            headers: headers.collect(),
        }
    }

    /// A whole response to anything but HEAD.
    pub(crate) fn response(&mut self) -> Response {
        let head = self.head();
        let mut body = Vec::new();
        if head.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk() {
                body.extend(chunk);
            }
        } else if let Some(length) = head.header("content-length") {
            body.resize(length.parse().unwrap(), 0);
            self.stream.read_exact(&mut body).expect("the body comes");
        }
        let body = String::from_utf8(body).expect("bodies are UTF-8");
        Response { head, body }
    }

    fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut size = String::new();
        let count = self.stream.read_line(&mut size).expect("a chunk comes");
        assert!(count > 0, "the connection ended inside a chunked body");
        let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        self.stream.read_exact(&mut chunk).expect("a chunk comes");
        chunk.truncate(size);
        (size > 0).then_some(chunk)
    }

    /// Whether the server has closed the connection; `false` when it says something or nothing for long.
    pub(crate) fn is_closed(&mut self) -> bool {
        match self.stream.read(&mut [0; 1]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }

    /// Whether the server closes the connection, after a 400 or without.
    pub(crate) fn is_refused(&mut self) -> bool {
        let mut answer = Vec::new();
        let closed = match self.stream.read_to_end(&mut answer) {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        };
        closed && (answer.is_empty() || answer.starts_with(b"HTTP/1.1 400 "))
    }

    /// Reads the head of a stream of events, which must be one.
    pub(crate) fn events(mut self) -> SseReader {
        let head = self.head();
        if head.status != 200 {
            let length = head.header("content-length").unwrap_or("0");
            let mut body = vec![0; length.parse().unwrap()];
            self.stream.read_exact(&mut body).unwrap();
            panic!("{head:?} {}", String::from_utf8_lossy(&body));
        }
        let kind = head.header("content-type").unwrap();
        assert_eq!(kind, "text/event-stream; charset=utf-8");
        SseReader {
            client: self,
            head,
            text: String::new(),
        }
    }
}

/// One server-sent event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: Option<u64>,
    pub(crate) name: Option<String>,
    pub(crate) data: String,
}

impl Event {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {:?}", self.data))
    }
}

/// Reads events as they come. Panics when the connection ends before the stream does.
pub(crate) struct SseReader {
    client: Client,
    pub(crate) head: Head,
    text: String,
}

impl SseReader {
    /// The next event or comment.
    pub(crate) fn block(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                return Some(self.text.drain(..end + 2).collect());
            }
            let Some(chunk) = self.client.chunk() else {
                assert_eq!(self.text, "", "the stream ends with a whole event");
                return None;
            };
            self.text.push_str(&String::from_utf8(chunk).unwrap());
        }
    }
}

impl Iterator for SseReader {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = parse(&self.block()?) {
                return Some(event);
            }
        }
    }
}

/// A block's event; `None` for a comment.
fn parse(block: &str) -> Option<Event> {
    let mut event = Event {
        id: None,
        name: None,
        data: String::new(),
    };
    let mut data_lines = 0;
    for line in block.trim_end_matches('\n').split(['\r', '\n']) {
        match line.split_once(": ") {
            Some(("", _)) => {}
            Some(("id", id)) => event.id = Some(id.parse().unwrap()),
            Some(("event", name)) => event.name = Some(name.to_owned()),
            Some(("data", data)) => {
                data_lines += 1;
                event.data = data.to_owned();
            }
            _ => panic!("a line that starts no field: {line:?}"),
        }
    }
    assert!(data_lines <= 1, "data is one line: {block:?}");
    (data_lines == 1).then_some(event)
}
