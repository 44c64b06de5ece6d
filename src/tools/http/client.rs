//! A guarded HTTP client: allowed hosts, judged addresses, each redirect judged again, bounded answers.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Method, Url, redirect};

use super::guard::{Guard, Names, Resolver, Route, System};
use crate::tools::{Config, SetupError, ToolError};

const MOST_HOPS: usize = 3;
const CONNECT: Duration = Duration::from_secs(3);
const IDLE: Duration = Duration::from_secs(30);

/// Calls URLs that the guard allows. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Client {
    guard: Arc<Guard>,
    public: reqwest::Client,
    any: reqwest::Client,
    most_bytes: usize,
}

/// One request.
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) url: String,
    /// Names in lower case. Not sent to another host than the first.
    pub(crate) headers: Vec<(String, String)>,
    /// JSON.
    pub(crate) body: Option<Vec<u8>>,
}

/// An answer whose body has not been read.
pub(crate) struct Answer {
    response: reqwest::Response,
    most_bytes: usize,
}

impl Client {
    pub(crate) fn new(config: &Config) -> Result<Self, SetupError> {
        Self::with_names(config, Arc::new(System))
    }

    pub(super) fn with_names(config: &Config, names: Arc<dyn Names>) -> Result<Self, SetupError> {
        let guard = Guard::new(&config.allow_hosts)?;
        let build = |route| {
            reqwest::Client::builder()
                .dns_resolver(Arc::new(Resolver {
                    route,
                    names: Arc::clone(&names),
                }))
                .redirect(redirect::Policy::none())
                .no_proxy()
                .referer(false)
                .connect_timeout(CONNECT)
                .pool_idle_timeout(IDLE)
                .user_agent(concat!("compere/", env!("CARGO_PKG_VERSION")))
                .build()
                .map_err(|error| SetupError::new("allow_hosts", format!("no HTTP client: {error}")))
        };
        Ok(Self {
            guard: Arc::new(guard),
            public: build(Route::Public)?,
            any: build(Route::Any)?,
            most_bytes: config.max_response_bytes,
        })
    }

    /// Whether the guard lets `url` be called.
    pub(crate) fn check(&self, url: &str) -> Result<(), ToolError> {
        self.guard.route(&parse(url)?).map(|_| ())
    }

    /// Sends a request and follows redirects that the guard allows.
    pub(crate) async fn send(&self, request: &Request) -> Result<Answer, ToolError> {
        let mut url = parse(&request.url)?;
        let origin = url.origin();
        for _ in 0..=MOST_HOPS {
            let same = url.origin() == origin;
            let response = self.hop(request, &url, same).await?;
            if !response.status().is_redirection() {
                return Ok(Answer {
                    response,
                    most_bytes: self.most_bytes,
                });
            }
            url = target(request, &url, response.headers())?;
        }
        Err(ToolError::new(
            "refused",
            format!("more than {MOST_HOPS} redirects"),
        ))
    }

    async fn hop(
        &self,
        request: &Request,
        url: &Url,
        same: bool,
    ) -> Result<reqwest::Response, ToolError> {
        let client = match self.guard.route(url)? {
            Route::Public => &self.public,
            Route::Any => &self.any,
        };
        let method = Method::from_bytes(request.method.as_bytes()).unwrap_or(Method::GET);
        let mut headers = HeaderMap::new();
        for (name, value) in request.headers.iter().filter(|_| same) {
            let wrong = || {
                ToolError::new(
                    "refused",
                    format!("the value of header {name} cannot be sent"),
                )
            };
            let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        let mut sent = client.request(method, url.clone()).headers(headers);
        if let Some(body) = &request.body {
            sent = sent
                .header(CONTENT_TYPE, "application/json")
                .body(body.clone());
        }
        sent.send().await.map_err(unreachable)
    }
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// The value of a header that is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// The next bytes of the body.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Vec<u8>>, ToolError> {
        let chunk = self.response.chunk().await.map_err(unreachable)?;
        Ok(chunk.map(|bytes| bytes.to_vec()))
    }

    /// The whole body; one that is too long is cut off and an error.
    pub(crate) async fn body(mut self) -> Result<Vec<u8>, ToolError> {
        let too_long = ToolError::new(
            "too_large",
            format!("the answer is longer than {} bytes", self.most_bytes),
        );
        let told = self.response.content_length().unwrap_or(0);
        if usize::try_from(told).map_or(true, |told| told > self.most_bytes) {
            return Err(too_long);
        }
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if body.len() + chunk.len() > self.most_bytes {
                return Err(too_long);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

fn parse(url: &str) -> Result<Url, ToolError> {
    Url::parse(url).map_err(|error| ToolError::new("refused", format!("no URL: {error}")))
}

/// Where a redirect leads. What was sent with a body is not sent elsewhere.
fn target(request: &Request, url: &Url, headers: &HeaderMap) -> Result<Url, ToolError> {
    let refused = |reason: &str| ToolError::new("refused", reason.to_owned());
    if request.body.is_some() || request.method != "GET" {
        return Err(refused("redirects are followed for GET only"));
    }
    let location = headers
        .get(LOCATION)
        .and_then(|location| location.to_str().ok());
    let next = location
        .and_then(|location| url.join(location).ok())
        .ok_or_else(|| refused("a redirect to nowhere"))?;
    if url.scheme() == "https" && next.scheme() == "http" {
        return Err(refused("a redirect from https to http"));
    }
    Ok(next)
}

/// The innermost cause says it best, and holds no URL.
fn unreachable(error: reqwest::Error) -> ToolError {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    ToolError::new("unreachable", cause.to_string())
}
