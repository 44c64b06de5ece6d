//! From a request's bytes to parsed JSON: content type, size, time and syntax, each with an error of its own.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::time::timeout;

use super::config::Limits;
use super::error::{ApiError, Code};
use super::json;

/// What is still read of a body that is too large, so that its sender reads the answer instead of a broken connection.
const DISCARD_BYTES: usize = 16 * 1024 * 1024;

/// The body of a request that must have one. It is read before anything is refused: a client that still sends would
/// find a broken connection in the place of its answer.
pub(super) async fn required(request: Request, limits: &Limits) -> Result<Value, ApiError> {
    let typed = check_type(request.headers());
    let bytes = read(request, limits).await?;
    typed?;
    parse(&bytes, limits)
}

/// The body of a request that may have none: that is an empty object.
pub(super) async fn optional(request: Request, limits: &Limits) -> Result<Value, ApiError> {
    let typed = check_type(request.headers());
    let bytes = read(request, limits).await?;
    if bytes.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    typed?;
    parse(&bytes, limits)
}

/// Reads a body that nobody wants, for the same reason.
pub(super) async fn discard(request: Request, limits: &Limits) {
    // Whatever is wrong with it, the request is refused anyway.
    let _ = read(request, limits).await;
}

fn parse(bytes: &[u8], limits: &Limits) -> Result<Value, ApiError> {
    json::parse(bytes, limits.json_depth).map_err(|error| {
        if error.path.is_empty() {
            return ApiError::new(Code::InvalidJson, error.reason);
        }
        let message = format!("{}: {}", error.path, error.reason);
        ApiError::new(Code::InvalidJson, message).at(error.path)
    })
}

/// JSON in UTF-8 and not compressed, or 415.
fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let fail = |message: &str| Err(ApiError::new(Code::UnsupportedMediaType, message));
    let mut given = headers.get_all(header::CONTENT_TYPE).iter();
    let accepted = match (given.next(), given.next()) {
        (Some(one), None) => one.to_str().is_ok_and(is_json),
        _ => false,
    };
    if !accepted {
        return fail("the content type must be application/json, in utf-8");
    }
    let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter();
    if encodings.any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return fail("the body must not be compressed");
    }
    Ok(())
}

fn is_json(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    let is_json = parts
        .next()
        .is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    is_json
        && parts.filter(|part| !part.is_empty()).all(|part| {
            part.split_once('=').is_some_and(|(name, value)| {
                name.eq_ignore_ascii_case("charset")
                    && value.trim_matches('"').eq_ignore_ascii_case("utf-8")
            })
        })
}

async fn read(request: Request, limits: &Limits) -> Result<Vec<u8>, ApiError> {
    let too_large = || {
        let message = format!("the body is larger than {} bytes", limits.body_bytes);
        ApiError::new(Code::BodyTooLarge, message)
    };
    let time = Duration::from_millis(limits.body_read_ms);
    // Who says that too much will come is answered before it does.
    if declared_length(request.headers()) > Some(limits.body_bytes as u64) {
        // Who waits for an answer before sending will not send.
        if !request.headers().contains_key(header::EXPECT) {
            swallow(request.into_body(), time);
        }
        return Err(too_large());
    }
    match timeout(time, collect(request.into_body(), limits.body_bytes)).await {
        Ok(Ok(Some(bytes))) => Ok(bytes),
        Ok(Ok(None)) => Err(too_large()),
        Ok(Err(error)) => {
            let message = format!("the body could not be read: {error}");
            Err(ApiError::new(Code::InvalidJson, message))
        }
        Err(_) => {
            let message = format!("the body did not arrive within {} ms", limits.body_read_ms);
            Err(ApiError::new(Code::RequestTimeout, message))
        }
    }
}

/// Reads what is on its way beside the answer, so that its sender can take the answer first or last; more of it, or
/// slower, and the connection ends.
fn swallow(body: Body, time: Duration) {
    // Both ends of it are the same to who was answered.
    tokio::spawn(timeout(time, collect(body, 0)));
}

fn declared_length(headers: &HeaderMap) -> Option<u64> {
    let value = headers.get(header::CONTENT_LENGTH)?;
    value.to_str().ok()?.parse().ok()
}

/// The body's bytes; `None` when there are more than `limit`.
async fn collect(mut body: Body, limit: usize) -> Result<Option<Vec<u8>>, axum::Error> {
    let mut bytes = Vec::new();
    let mut total: usize = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        total = total.saturating_add(data.len());
        if total <= limit {
            bytes.extend_from_slice(&data);
        } else if total > limit.saturating_add(DISCARD_BYTES) {
            break;
        } else {
            bytes = Vec::new();
        }
    }
    Ok((total <= limit).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_in_utf8_is_read() {
        for good in [
            "application/json",
            "Application/JSON",
            "application/json; charset=utf-8",
            "application/json;charset=\"UTF-8\"",
            "application/json;",
        ] {
            assert!(is_json(good), "{good}");
        }
        for bad in [
            "",
            "text/plain",
            "application/json; charset=gbk",
            "application/problem+json",
            "application/jsonp",
            "multipart/form-data; boundary=x",
            "application/json; charset",
            "application/json, text/plain",
        ] {
            assert!(!is_json(bad), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_body_at_the_limit_passes_and_one_above_does_not() {
        assert_eq!(
            collect(Body::from("1234"), 4).await.unwrap().unwrap(),
            b"1234"
        );
        assert!(collect(Body::from("12345"), 4).await.unwrap().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_times_out() {
        struct Never;
        impl axum::body::HttpBody for Never {
            type Data = axum::body::Bytes;
            type Error = std::convert::Infallible;
            fn poll_frame(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<
                Option<Result<hyper::body::Frame<Self::Data>, std::convert::Infallible>>,
            > {
                std::task::Poll::Pending
            }
        }
        let error = read(Request::new(Body::new(Never)), &Limits::default())
            .await
            .unwrap_err();
        assert_eq!(error.code(), Code::RequestTimeout);
    }
}
