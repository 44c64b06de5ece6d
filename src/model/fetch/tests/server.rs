//! A server that gives the next of a list of answers to each connection.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver};
use std::thread;

/// A running server.
pub(super) struct Server {
    /// Its address, with the scheme.
    pub(super) endpoint: String,
    requests: Receiver<String>,
}

impl Server {
    /// Listens; each answer is sent as it is, then the connection is closed.
    pub(super) fn start(answers: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let (tell, requests) = mpsc::channel();
        thread::spawn(move || {
            for answer in answers {
                let (mut connection, _) = listener.accept().expect("a connection");
                let reader = BufReader::new(&connection);
                let lines = reader
                    .lines()
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty());
                let request: Vec<String> = lines.collect();
                // The test may be over already.
                let _ = tell.send(request.join("\n"));
                // The client hangs up on an answer that it does not like.
                let _ = connection.write_all(&answer);
            }
        });
        Self { endpoint, requests }
    }

    /// The requests so far, lines joined by a newline.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.try_iter().collect()
    }
}

/// An answer with these further header lines.
pub(super) fn answer(status: &str, headers: &[String], body: &[u8]) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
    for header in headers {
        out.push_str(header);
        out.push_str("\r\n");
    }
    out.push_str("\r\n");
    let mut out = out.into_bytes();
    out.extend(body);
    out
}

/// A whole body, with its length.
pub(super) fn whole(body: &[u8]) -> Vec<u8> {
    answer("200 OK", &[format!("Content-Length: {}", body.len())], body)
}

/// A body that breaks off after `sent` of its bytes.
pub(super) fn cut(body: &[u8], sent: usize) -> Vec<u8> {
    answer(
        "200 OK",
        &[format!("Content-Length: {}", body.len())],
        &body[..sent],
    )
}

/// The rest of a body from `start` on, of which `sent` bytes arrive.
pub(super) fn rest(body: &[u8], start: usize, sent: usize) -> Vec<u8> {
    let headers = [
        format!("Content-Length: {}", body.len() - start),
        format!(
            "Content-Range: bytes {start}-{}/{}",
            body.len() - 1,
            body.len()
        ),
    ];
    answer("206 Partial Content", &headers, &body[start..start + sent])
}
