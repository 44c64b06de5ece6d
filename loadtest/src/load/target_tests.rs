//! Against a server that says what it is told to, over a real socket, byte by byte.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::*;
use crate::load::answer::{Outcome, Record};

/// Answers one request with `response`, in chunks of `step` bytes, and closes.
async fn serve(response: String, step: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let base = format!("http://{}", listener.local_addr().expect("its address"));
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a connection");
        let mut request = Vec::new();
        while !request.ends_with(b"{}") {
            let mut bytes = [0; 1024];
            let read = socket.read(&mut bytes).await.expect("a request");
            request.extend_from_slice(&bytes[..read]);
        }
        for bytes in response.as_bytes().chunks(step) {
            socket.write_all(bytes).await.expect("written");
            socket.flush().await.expect("flushed");
        }
    });
    base
}

async fn ask(route: Route, response: &str, step: usize) -> (Result<(), Fault>, Record) {
    let base = serve(response.to_owned(), step).await;
    let start = Instant::now();
    let mut answer = Answer::new(start);
    let target = Http::new(&base, route).expect("a client");
    let result = target.ask("{}".to_owned(), &mut answer).await;
    if result.is_ok() {
        answer.end();
    }
    (
        result,
        answer.record(start, start, true, Outcome::Completed),
    )
}

fn stream(events: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}"
    )
}

const SEGMENTS: &str = "id: 1\nevent: response.started\ndata: {}\n\nid: 2\nevent: segment\ndata: {\"seq\":0}\n\n\
    : keep-alive\n\nid: 3\nevent: segment\ndata: {\"seq\":1}\n\n";

#[tokio::test]
async fn segments_of_the_avatar_route_are_counted_as_they_come() {
    let ended = "event: response.completed\ndata: {\"finish_reason\":\"stop\"}\n\n";
    for step in [1, 7, 4096] {
        let (result, record) =
            ask(Route::Respond, &stream(&format!("{SEGMENTS}{ended}")), step).await;
        assert_eq!(result, Ok(()));
        assert!(record.first_segment.is_some() && record.first_text.is_none());
        assert_eq!(record.gaps.len(), 1);
    }
}

#[tokio::test]
async fn text_of_openai_streams_is_cut_here() {
    for (route, chunks) in [
        (
            Route::Completions,
            "data: {\"choices\":[{\"text\":\"Yes. \"}]}\n\ndata: {\"choices\":[{\"text\":\"It does.\"}]}\n\n",
        ),
        (
            Route::Chat,
            "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":null}}]}\n\n\
             data: {\"choices\":[{\"delta\":{\"content\":\"Yes. \"}}]}\n\n\
             data: {\"choices\":[{\"delta\":{\"content\":\"It does.\"}}]}\n\ndata: {\"choices\":[]}\n\n",
        ),
    ] {
        let (result, record) = ask(route, &stream(&format!("{chunks}data: [DONE]\n\n")), 5).await;
        assert_eq!(result, Ok(()));
        assert!(record.first_text.is_some() && record.first_segment.is_some());
        assert_eq!(record.gaps.len(), 1, "{route:?}");
    }
}

#[tokio::test]
async fn what_is_no_whole_answer_is_a_fault_of_its_own_kind() {
    let failed = |code: &str| Fault::Failed(code.to_owned());
    let turn = |event: &str| stream(&format!("{SEGMENTS}{event}"));
    let cases = [
        (Route::Respond, turn(""), Fault::Cut),
        (
            Route::Respond,
            turn("event: response.failed\ndata: {\"code\":\"engine_error\"}\n\n"),
            failed("engine_error"),
        ),
        (
            Route::Respond,
            turn("event: response.completed\ndata: {\"finish_reason\":\"deadline\"}\n\n"),
            failed("deadline"),
        ),
        (
            Route::Completions,
            stream("data: {\"choices\":[{\"text\":\"Yes\"}]}\n\n"),
            Fault::Cut,
        ),
        (
            Route::Chat,
            stream("data: {\"error\":{\"code\":500}}\n\n"),
            failed("500"),
        ),
        (
            Route::Chat,
            stream("data: {nonsense}\n\n"),
            Fault::Protocol("data that is no JSON".to_owned()),
        ),
        (
            Route::Chat,
            "HTTP/1.1 429 Too Many Requests\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
                .to_owned(),
            Fault::Status(429),
        ),
        (
            Route::Chat,
            "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\ndata: {\"choices\":[]}\n\n".to_owned(),
            Fault::Cut,
        ),
    ];
    for (route, response, fault) in cases {
        let (result, _) = ask(route, &response, 64).await;
        assert_eq!(result, Err(fault), "{response}");
    }
}

#[tokio::test]
async fn nobody_listening_is_told_from_a_lost_answer() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let base = format!("http://{}", listener.local_addr().expect("its address"));
    drop(listener);
    let target = Http::new(&base, Route::Chat).expect("a client");
    let mut answer = Answer::new(Instant::now());
    let result = tokio::time::timeout(
        Duration::from_secs(60),
        target.ask("{}".to_owned(), &mut answer),
    );
    assert_eq!(result.await.expect("refused at once"), Err(Fault::Connect));
}
