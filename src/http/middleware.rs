//! What happens to every request: it gets an id, a panic stays its own, an error gets its body, and a line is logged.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Shared;
use super::error::{ApiError, Code};
use super::ids::{REQUEST_ID, RequestId};
use super::sse::panic_text;
use crate::shutdown::Phase;

/// Most characters of a path in the log.
const LOGGED_PATH: usize = 200;

/// The outermost layer.
pub(super) async fn envelope(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let id = RequestId::of(request.headers());
    let method = request.method().clone();
    let path: String = request.uri().path().chars().take(LOGGED_PATH).collect();
    request.extensions_mut().insert(id.clone());
    let mut response = contain_panic(next.run(request)).await;
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        let body = error.body(id.as_str()).to_string();
        *response.body_mut() = Body::from(body);
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        headers.remove(header::CONTENT_LENGTH);
    }
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id.header());
    if shared.shutdown.phase() > Phase::Running {
        // Its next request should find another server.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    tracing::info!(
        request_id = id.as_str(),
        %method,
        ?path,
        status = response.status().as_u16(),
        ms = started.elapsed().as_millis(),
        "request"
    );
    response
}

/// Runs a handler; its panic becomes this request's 500.
async fn contain_panic(handler: impl Future<Output = Response>) -> Response {
    let mut handler = pin!(handler);
    poll_fn(|cx| {
        catch_unwind(AssertUnwindSafe(|| handler.as_mut().poll(cx))).unwrap_or_else(|panic| {
            tracing::error!(panic = panic_text(&*panic), "a handler panicked");
            let error = ApiError::new(Code::Internal, "the request failed inside the server");
            Poll::Ready(error.into_response())
        })
    })
    .await
}
