//! An HTTP server that answers with what a test wrote down and keeps what it was asked.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// A running server. It ends with its test's runtime.
pub(in crate::tools) struct Server {
    pub(in crate::tools) port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers the n-th request with `answer(n, request)`; an empty answer never comes.
    pub(in crate::tools) async fn start(
        answer: impl Fn(usize, &str) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (keep, answer) = (Arc::clone(&asked), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let (keep, answer) = (Arc::clone(&keep), Arc::clone(&answer));
                tokio::spawn(async move {
                    let request = read_request(&mut socket).await;
                    if request.is_empty() {
                        return;
                    }
                    let index = {
                        let mut asked = keep.lock().unwrap();
                        asked.push(request.clone());
                        asked.len() - 1
                    };
                    let bytes = answer(index, &request);
                    if bytes.is_empty() {
                        std::future::pending::<()>().await;
                    }
                    let _ = socket.write_all(&bytes).await;
                    let _ = socket.shutdown().await;
                });
            }
        });
        Self { port, asked }
    }

    /// Always the same JSON answer.
    pub(in crate::tools) async fn json(body: &'static str) -> Self {
        Self::start(move |_, _| response("200 OK", "application/json", body.as_bytes())).await
    }

    /// Every request so far, head and body.
    pub(in crate::tools) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// `127.0.0.1:port`.
    pub(in crate::tools) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

/// A whole response that closes its connection.
pub(in crate::tools) fn response(status: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// A redirect.
pub(in crate::tools) fn redirect(to: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    )
    .into_bytes()
}

async fn read_request(socket: &mut tokio::net::TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length: ")
                    .map(str::to_owned)
            });
            if body.len() >= length.and_then(|length| length.parse().ok()).unwrap_or(0) {
                return text;
            }
        }
        match socket.read(&mut buffer).await {
            Ok(count) if count > 0 => bytes.extend_from_slice(&buffer[..count]),
            _ => return text,
        }
    }
}
