//! The protocol's HTTP side on the guarded client: the same hosts, addresses and limits as for all tools.

use std::collections::HashMap;
use std::io::Cursor;
use std::sync::Arc;

use futures_util::stream::{BoxStream, StreamExt as _, try_unfold};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use crate::tools::ToolError;
use crate::tools::http::{Answer, Client, HeaderName, HeaderValue, Request};

const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";
const EVENTS: &str = "text/event-stream";
/// Longest single event.
const EVENT_BYTES: usize = 1 << 20;

type Failure = StreamableHttpError<ToolError>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// How one server is called. Cheap to clone.
#[derive(Clone)]
pub(super) struct Transport {
    pub(super) client: Client,
    /// Of the configuration, secrets filled in.
    pub(super) headers: Arc<[(String, String)]>,
}

impl Transport {
    pub(super) fn open(&self, url: &str) -> StreamableHttpClientTransport<Self> {
        let config = StreamableHttpClientTransportConfig::with_uri(url.to_owned());
        StreamableHttpClientTransport::with_client(self.clone(), config)
    }

    async fn send(
        &self,
        method: &'static str,
        uri: &str,
        own: &[(&str, Option<&str>)],
        custom: Headers,
        body: Option<Vec<u8>>,
    ) -> Result<Answer, Failure> {
        let mut headers: Vec<(String, String)> = self.headers.to_vec();
        let custom = custom.iter().filter_map(|(name, value)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        });
        headers.extend(custom);
        headers.push(("accept".to_owned(), format!("application/json, {EVENTS}")));
        let own = own
            .iter()
            .filter_map(|(name, value)| Some(((*name).to_owned(), (*value)?.to_owned())));
        headers.extend(own);
        let request = Request {
            method,
            url: uri.to_owned(),
            headers,
            body,
        };
        self.client
            .send(&request)
            .await
            .map_err(StreamableHttpError::Client)
    }
}

impl StreamableHttpClient for Transport {
    type Error = ToolError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        custom: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let body = serde_json::to_vec(&message)?;
        let answer = self
            .send(
                "POST",
                &uri,
                &[(SESSION, session.as_deref())],
                custom,
                Some(body),
            )
            .await?;
        let status = answer.status();
        if matches!(status, 202 | 204) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == 404 && session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let given = answer.header(SESSION).map(str::to_owned);
        let kind = answer
            .header("content-type")
            .unwrap_or_default()
            .to_ascii_lowercase();
        if (200..300).contains(&status) && kind.starts_with(EVENTS) {
            return Ok(StreamableHttpPostResponse::Sse(events(answer), given));
        }
        let body = answer.body().await.map_err(StreamableHttpError::Client)?;
        let asked = matches!(message, ClientJsonRpcMessage::Request(_));
        if body.is_empty() && !asked && (200..300).contains(&status) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(message) => Ok(StreamableHttpPostResponse::Json(message, given)),
            Err(_) => Err(StreamableHttpError::UnexpectedServerResponse(
                format!("status {status}, no JSON-RPC message").into(),
            )),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        custom: Headers,
    ) -> Result<(), Failure> {
        self.send("DELETE", &uri, &[(SESSION, Some(&session))], custom, None)
            .await
            .map(|_| ())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        custom: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let own = [
            (SESSION, session.as_deref()),
            (LAST_EVENT, last_event.as_deref()),
        ];
        let answer = self.send("GET", &uri, &own, custom, None).await?;
        match answer.status() {
            405 => Err(StreamableHttpError::ServerDoesNotSupportSse),
            200..300
                if answer
                    .header("content-type")
                    .is_some_and(|kind| kind.starts_with(EVENTS)) =>
            {
                Ok(events(answer))
            }
            status => Err(StreamableHttpError::UnexpectedServerResponse(
                format!("status {status}, no event stream").into(),
            )),
        }
    }
}

/// The events of a body, each bounded.
fn events(answer: Answer) -> BoxStream<'static, Result<Sse, SseError>> {
    let chunks = try_unfold((answer, 0usize), |(mut answer, mut open)| async move {
        let Some(chunk) = answer.chunk().await? else {
            return Ok::<_, ToolError>(None);
        };
        // Bytes since the last empty line, which ends an event.
        open = match chunk
            .windows(2)
            .rposition(|pair| pair == b"\n\n" || pair == b"\n\r")
        {
            Some(end) => chunk.len() - end,
            None => open + chunk.len(),
        };
        if open > EVENT_BYTES {
            return Err(ToolError::new(
                "too_large",
                format!("an event is longer than {EVENT_BYTES} bytes"),
            ));
        }
        Ok(Some((Cursor::new(chunk), (answer, open))))
    });
    SseStream::from_bytes_stream(chunks.boxed()).boxed()
}
