//! The one table from causes to status codes, and the body that every error has. Handlers return [`ApiError`]; the
//! request's id is added where the response leaves (`middleware`).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::engine::SubmitError;
use crate::turn::{HarnessError, RejectionCause, TemplateError};

/// Why a request is refused, or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    InvalidJson,
    InvalidParameter,
    MissingParameter,
    UnsupportedParameter,
    ContextLengthExceeded,
    NotFound,
    ModelNotFound,
    ResponseNotFound,
    HarnessNotFound,
    RoomNotFound,
    HarnessRejected,
    MethodNotAllowed,
    RequestTimeout,
    BodyTooLarge,
    UnsupportedMediaType,
    QueueFull,
    Loading,
    Draining,
    EngineStopped,
    HarnessUnavailable,
    ShuttingDown,
    TooManyConnections,
    EngineError,
    Internal,
}

impl Code {
    /// Status, word for programs, and the class that OpenAI clients know.
    fn row(self) -> (StatusCode, &'static str, &'static str) {
        use StatusCode as S;
        const CALLER: &str = "invalid_request_error";
        const SERVER: &str = "server_error";
        match self {
            Self::InvalidJson => (S::BAD_REQUEST, "invalid_json", CALLER),
            Self::InvalidParameter => (S::BAD_REQUEST, "invalid_parameter", CALLER),
            Self::MissingParameter => (S::BAD_REQUEST, "missing_parameter", CALLER),
            Self::UnsupportedParameter => (S::BAD_REQUEST, "unsupported_parameter", CALLER),
            Self::ContextLengthExceeded => (S::BAD_REQUEST, "context_length_exceeded", CALLER),
            Self::NotFound => (S::NOT_FOUND, "not_found", CALLER),
            Self::ModelNotFound => (S::NOT_FOUND, "model_not_found", CALLER),
            Self::ResponseNotFound => (S::NOT_FOUND, "response_not_found", CALLER),
            Self::HarnessNotFound => (S::NOT_FOUND, "harness_not_found", CALLER),
            Self::RoomNotFound => (S::NOT_FOUND, "room_not_found", CALLER),
            Self::HarnessRejected => (S::UNPROCESSABLE_ENTITY, "harness_rejected", CALLER),
            Self::MethodNotAllowed => (S::METHOD_NOT_ALLOWED, "method_not_allowed", CALLER),
            Self::RequestTimeout => (S::REQUEST_TIMEOUT, "request_timeout", CALLER),
            Self::BodyTooLarge => (S::PAYLOAD_TOO_LARGE, "body_too_large", CALLER),
            Self::UnsupportedMediaType => {
                (S::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", CALLER)
            }
            Self::QueueFull => (S::TOO_MANY_REQUESTS, "queue_full", "rate_limit_error"),
            Self::Loading => (S::SERVICE_UNAVAILABLE, "loading", SERVER),
            Self::Draining => (S::SERVICE_UNAVAILABLE, "draining", SERVER),
            Self::EngineStopped => (S::SERVICE_UNAVAILABLE, "engine_stopped", SERVER),
            Self::HarnessUnavailable => (S::SERVICE_UNAVAILABLE, "harness_unavailable", SERVER),
            Self::ShuttingDown => (S::SERVICE_UNAVAILABLE, "shutting_down", SERVER),
            Self::TooManyConnections => (S::SERVICE_UNAVAILABLE, "too_many_connections", SERVER),
            Self::EngineError => (S::INTERNAL_SERVER_ERROR, "engine_error", SERVER),
            Self::Internal => (S::INTERNAL_SERVER_ERROR, "internal_error", SERVER),
        }
    }

    /// Seconds after which the same request may succeed.
    fn retry_after(self) -> Option<u64> {
        match self {
            Self::QueueFull => Some(1),
            Self::Loading | Self::Draining | Self::ShuttingDown => Some(5),
            _ => None,
        }
    }
}

/// An error as a client sees it.
#[derive(Clone, Debug)]
pub(super) struct ApiError {
    code: Code,
    message: String,
    param: Option<String>,
    /// Members of the body beside `error`, such as the avatar route's `fallback`.
    beside: Vec<(String, Value)>,
}

impl ApiError {
    /// An error that names no field. `message` is a lower-case sentence without a full stop.
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            param: None,
            beside: Vec::new(),
        }
    }

    /// A field whose value is not acceptable; `expected` continues the field's name.
    pub(super) fn invalid(path: String, expected: &str) -> Self {
        Self::new(Code::InvalidParameter, format!("{path} {expected}")).at(path)
    }

    /// A field that is unknown or not implemented.
    pub(super) fn unsupported(path: String) -> Self {
        let message = format!("{path} is not supported");
        Self::new(Code::UnsupportedParameter, message).at(path)
    }

    /// Names the field at fault.
    pub(super) fn at(mut self, path: impl Into<String>) -> Self {
        self.param = Some(path.into());
        self
    }

    /// Adds a member to the body, beside `error`.
    pub(super) fn beside(mut self, name: &str, value: Value) -> Self {
        self.beside.push((name.to_owned(), value));
        self
    }

    #[cfg(test)]
    pub(super) fn code(&self) -> Code {
        self.code
    }

    /// The code of a turn that was refused after it had waited, by its word.
    pub(super) fn of_failure(word: &str) -> Code {
        let known = [
            Code::EngineError,
            Code::QueueFull,
            Code::EngineStopped,
            Code::ContextLengthExceeded,
            Code::InvalidParameter,
        ];
        let found = known.into_iter().find(|code| code.row().1 == word);
        found.unwrap_or(Code::Internal)
    }

    /// The word for programs.
    pub(super) fn word(&self) -> &'static str {
        self.code.row().1
    }

    #[cfg(test)]
    pub(super) fn param(&self) -> Option<&str> {
        self.param.as_deref()
    }

    /// The body: `{"error": {code, message, type, param, request_id}}` and what stands beside.
    pub(super) fn body(&self, request_id: &str) -> Value {
        let (_, code, kind) = self.code.row();
        let mut body = json!({
            "error": {
                "code": code,
                "message": self.message,
                "type": kind,
                "param": self.param,
                "request_id": request_id,
            }
        });
        if let Value::Object(members) = &mut body {
            members.extend(self.beside.iter().cloned());
        }
        body
    }
}

impl From<RejectionCause> for ApiError {
    fn from(cause: RejectionCause) -> Self {
        Self::rejected(cause, "messages")
    }
}

impl ApiError {
    /// Why the engine or the template did not take a request whose prompt is the member `prompt_field`.
    pub(super) fn rejected(cause: RejectionCause, prompt_field: &str) -> Self {
        let message = cause.to_string();
        match cause {
            RejectionCause::Harness(HarnessError::Unknown { member, .. }) => {
                Self::new(Code::HarnessNotFound, message).at(format!("harness.{member}"))
            }
            RejectionCause::Harness(HarnessError::Unusable(_)) => {
                Self::new(Code::HarnessUnavailable, message).at("harness")
            }
            RejectionCause::Prompt(_) => Self::new(Code::Internal, message),
            RejectionCause::Room(_) => Self::new(Code::QueueFull, message),
            RejectionCause::Template(TemplateError::Refused(_)) => {
                Self::new(Code::InvalidParameter, message).at(prompt_field)
            }
            RejectionCause::Template(_) => Self::new(Code::Internal, message),
            RejectionCause::Submit(SubmitError::ContextLength { prompt, limit, .. }) => {
                let field = if prompt < limit {
                    "max_tokens"
                } else {
                    prompt_field
                };
                Self::new(Code::ContextLengthExceeded, message).at(field)
            }
            RejectionCause::Submit(SubmitError::Invalid { field, .. }) => {
                Self::new(Code::InvalidParameter, message).at(field)
            }
            RejectionCause::Submit(SubmitError::QueueFull { .. }) => {
                Self::new(Code::QueueFull, message)
            }
            RejectionCause::Submit(SubmitError::Stopped) => Self::new(Code::EngineStopped, message),
        }
    }
}

impl IntoResponse for ApiError {
    /// The status and headers; the error travels as an extension until the request's id is added.
    fn into_response(self) -> Response {
        let mut response = self.code.row().0.into_response();
        if let Some(seconds) = self.code.retry_after() {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every code.
    const ALL: [Code; 24] = [
        Code::InvalidJson,
        Code::InvalidParameter,
        Code::MissingParameter,
        Code::UnsupportedParameter,
        Code::ContextLengthExceeded,
        Code::NotFound,
        Code::ModelNotFound,
        Code::ResponseNotFound,
        Code::HarnessNotFound,
        Code::RoomNotFound,
        Code::HarnessRejected,
        Code::MethodNotAllowed,
        Code::RequestTimeout,
        Code::BodyTooLarge,
        Code::UnsupportedMediaType,
        Code::QueueFull,
        Code::Loading,
        Code::Draining,
        Code::EngineStopped,
        Code::HarnessUnavailable,
        Code::ShuttingDown,
        Code::TooManyConnections,
        Code::EngineError,
        Code::Internal,
    ];

    #[test]
    fn every_code_is_documented_beside_its_status() {
        let page = include_str!("../../docs/api.md");
        for code in ALL {
            let (status, word, _) = code.row();
            let start = format!("| {} |", status.as_u16());
            let mut rows = page.lines().filter(|line| line.starts_with(&start));
            let word = format!("`{word}`");
            assert!(rows.any(|row| row.contains(&word)), "{start} {word}");
        }
    }

    #[test]
    fn bodies_have_the_members_that_clients_read() {
        let error = ApiError::invalid("stop[0]".to_owned(), "must be short")
            .beside("fallback", json!({"tts_text": "hm"}));
        assert_eq!(
            error.body("r1"),
            json!({
                "error": {
                    "code": "invalid_parameter",
                    "message": "stop[0] must be short",
                    "type": "invalid_request_error",
                    "param": "stop[0]",
                    "request_id": "r1",
                },
                "fallback": {"tts_text": "hm"},
            })
        );
    }
}
