//! Server-sent events: an encoder that no text can break, and a body that yields frames as they come, with keep-alive
//! comments between them. Dropping the body drops its source.

use std::any::Any;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use hyper::body::Frame;
use serde_json::Value;
use tokio::time::{Instant, Sleep, sleep};

/// What proxies and clients see while nothing is said.
const KEEP_ALIVE: &str = ": keep-alive\n\n";

/// One frame. `data` becomes a single line: JSON escapes CR and LF itself, and what some clients take for line ends
/// (U+0085, U+2028, U+2029) is escaped here.
pub(super) fn frame(event: Option<&'static str>, id: Option<u64>, data: &Value) -> String {
    let mut out = String::new();
    if let Some(id) = id {
        out.push_str(&format!("id: {id}\n"));
    }
    if let Some(event) = event {
        out.push_str(&format!("event: {event}\n"));
    }
    out.push_str("data: ");
    for letter in data.to_string().chars() {
        match letter {
            '\u{85}' => out.push_str("\\u0085"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    out.push_str("\n\n");
    out
}

/// Where a body's frames come from.
pub(super) trait Frames: Send + 'static {
    /// The next frame; `None` ends the body. Called again only after it has returned.
    fn next(&mut self) -> impl Future<Output = Option<String>> + Send;

    /// The last frame when [`Frames::next`] panicked.
    fn broken(&self) -> String;
}

/// The response that streams `frames`.
pub(super) fn respond<F: Frames>(frames: F, keep_alive: Duration) -> Response {
    let body = SseBody {
        broken: frames.broken(),
        pending: Some(advance(frames)),
        keep_alive: Box::pin(sleep(keep_alive)),
        pause: keep_alive,
    };
    let mut response = Body::new(body.boxed_unsync()).into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream; charset=utf-8"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Asks nginx not to hold events back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

type Advance<F> = Pin<Box<dyn Future<Output = (F, Option<String>)> + Send>>;

fn advance<F: Frames>(mut frames: F) -> Advance<F> {
    Box::pin(async move {
        let frame = frames.next().await;
        (frames, frame)
    })
}

struct SseBody<F> {
    /// `None` after the end.
    pending: Option<Advance<F>>,
    broken: String,
    keep_alive: Pin<Box<Sleep>>,
    pause: Duration,
}

impl<F: Frames> SseBody<F> {
    /// Polls the source; a panic in it ends this stream only.
    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<String>> {
        let Some(pending) = &mut self.pending else {
            return Poll::Ready(None);
        };
        let polled = catch_unwind(AssertUnwindSafe(|| pending.as_mut().poll(cx)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready((frames, Some(frame)))) => {
                self.pending = Some(advance(frames));
                Poll::Ready(Some(frame))
            }
            Ok(Poll::Ready((_, None))) => {
                self.pending = None;
                Poll::Ready(None)
            }
            Err(panic) => {
                tracing::error!(panic = panic_text(&*panic), "a stream panicked");
                self.pending = None;
                Poll::Ready(Some(std::mem::take(&mut self.broken)))
            }
        }
    }
}

impl<F: Frames> HttpBody for SseBody<F> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let text = match this.poll_source(cx) {
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(text)) => text,
            Poll::Pending => {
                ready!(this.keep_alive.as_mut().poll(cx));
                KEEP_ALIVE.to_owned()
            }
        };
        this.keep_alive.as_mut().reset(Instant::now() + this.pause);
        Poll::Ready(Some(Ok(Frame::data(text.into()))))
    }
}

/// What a panic said.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Any text, rich in what somebody takes for a line end.
    fn text() -> impl Strategy<Value = String> {
        let ends = vec!['\r', '\n', '\u{85}', '\u{2028}', '\u{2029}', '\0', '\u{b}'];
        let letter = prop_oneof![any::<char>(), prop::sample::select(ends)];
        prop::collection::vec(letter, 0..20).prop_map(String::from_iter)
    }

    proptest! {
        /// Whatever the text, a strict reader and one that also breaks lines at Unicode's line ends see one data line.
        #[test]
        fn any_text_stays_on_one_data_line(text in text()) {
            let frame = frame(Some("segment"), Some(7), &json!({"text": text, text.clone(): 1}));
            let lines: Vec<_> = frame.split(['\r', '\n', '\u{85}', '\u{2028}', '\u{2029}']).collect();
            prop_assert_eq!(lines.len(), 5);
            prop_assert_eq!(&lines[..2], &["id: 7", "event: segment"]);
            let data: Value = serde_json::from_str(lines[2].strip_prefix("data: ").unwrap()).unwrap();
            prop_assert_eq!(&data["text"], &json!(text));
        }
    }

    struct Scripted(Vec<Step>);

    enum Step {
        Say(&'static str),
        Wait(u64),
        Panic,
    }

    impl Frames for Scripted {
        async fn next(&mut self) -> Option<String> {
            loop {
                if self.0.is_empty() {
                    return None;
                }
                match self.0.remove(0) {
                    Step::Say(text) => return Some(text.to_owned()),
                    Step::Wait(seconds) => sleep(Duration::from_secs(seconds)).await,
                    Step::Panic => panic!("scripted"),
                }
            }
        }

        fn broken(&self) -> String {
            "broken;".to_owned()
        }
    }

    async fn whole(steps: Vec<Step>) -> String {
        let response = respond(Scripted(steps), Duration::from_secs(10));
        let body = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_filled_with_comments() {
        let text = whole(vec![Step::Say("a;"), Step::Wait(25), Step::Say("b;")]).await;
        assert_eq!(text, format!("a;{KEEP_ALIVE}{KEEP_ALIVE}b;"));
    }

    #[tokio::test]
    async fn a_panic_ends_the_stream_with_its_last_frame() {
        let text = whole(vec![Step::Say("a;"), Step::Panic, Step::Say("b;")]).await;
        assert_eq!(text, "a;broken;");
    }
}
