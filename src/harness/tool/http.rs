//! The `http` part of a tool file: which request a call becomes.

use std::time::Duration;

use serde::Deserialize;

use super::template::{Piece, pieces, places};

const MOST_CACHE_S: u64 = 3600;
const MOST_RETRIES: u32 = 2;
/// What begins the name of a secret's place in a header.
pub(super) const SECRET: &str = "secret:";

/// A request to be made of a call's arguments.
#[derive(Clone, Debug)]
pub struct Http {
    /// What is done there.
    pub method: Method,
    /// Scheme and host are fixed; places stand in path and query only.
    pub url: Vec<Piece>,
    /// Names and values; places are secrets.
    pub headers: Vec<(String, Vec<Piece>)>,
    /// How long an answer is good for; zero for never.
    pub cache: Duration,
    /// Further attempts, of idempotent methods only.
    pub retries: u32,
}

/// Methods of HTTP that tools may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// Reads.
    Get,
    /// Does something each time it is called.
    Post,
    /// Sets.
    Put,
    /// Changes a part.
    Patch,
    /// Removes.
    Delete,
}

impl Method {
    /// Whether twice is as good as once.
    #[must_use]
    pub fn is_idempotent(self) -> bool {
        !matches!(self, Self::Post | Self::Patch)
    }

    /// Whether the arguments that have no place in the URL are sent as a JSON body.
    #[must_use]
    pub fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }

    /// As the protocol spells it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// As written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    method: Method,
    url: String,
    #[serde(default)]
    headers: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    cache_s: u64,
    #[serde(default)]
    retries: u32,
}

impl Table {
    /// Checks it against the argument names that the tool's schema knows. An error names the field.
    pub(super) fn read(&self, arguments: &[&str]) -> Result<Http, (&'static str, String)> {
        let url = self.url(arguments).map_err(|reason| ("url", reason))?;
        let headers = self.headers().map_err(|reason| ("headers", reason))?;
        if self.retries > MOST_RETRIES {
            return Err((
                "retries",
                format!("is {}, at most {MOST_RETRIES}", self.retries),
            ));
        }
        if self.retries > 0 && !self.method.is_idempotent() {
            let reason = format!(
                "{} is not idempotent: a second attempt may do it twice",
                self.method.word()
            );
            return Err(("retries", reason));
        }
        if self.cache_s > MOST_CACHE_S {
            return Err((
                "cache_s",
                format!("is {}, at most {MOST_CACHE_S}", self.cache_s),
            ));
        }
        if self.cache_s > 0 && self.method != Method::Get {
            return Err(("cache_s", "only answers to GET are kept".to_owned()));
        }
        Ok(Http {
            method: self.method,
            url,
            headers,
            cache: Duration::from_secs(self.cache_s),
            retries: self.retries,
        })
    }

    fn url(&self, arguments: &[&str]) -> Result<Vec<Piece>, String> {
        let pieces = pieces(&self.url)?;
        if let Some(unknown) = places(&pieces).find(|name| !arguments.contains(name)) {
            return Err(format!("{{{unknown}}} is no property of input_schema"));
        }
        let Some(Piece::Text(start)) = pieces.first() else {
            return Err("begins with a place: scheme and host must be fixed".to_owned());
        };
        let rest = start
            .strip_prefix("https://")
            .or_else(|| start.strip_prefix("http://"))
            .ok_or("must begin with https:// or http://")?;
        let Some(end) = rest.find('/') else {
            return Err("needs a path after its host, which must be fixed".to_owned());
        };
        let host = &rest[..end];
        if host.is_empty()
            || host.contains(['@', '?', '#', '\\', '%'])
            || host.chars().any(char::is_whitespace)
        {
            return Err(format!("{host:?} is no host, or holds more than one"));
        }
        if self.url.contains('#') {
            return Err("has a fragment, which is never sent".to_owned());
        }
        Ok(pieces)
    }

    fn headers(&self) -> Result<Vec<(String, Vec<Piece>)>, String> {
        let mut found = Vec::with_capacity(self.headers.len());
        for (name, value) in &self.headers {
            let token = |c: char| c.is_ascii_alphanumeric() || c == '-';
            if name.is_empty() || !name.chars().all(token) {
                return Err(format!("{name:?} is no header name"));
            }
            let lower = name.to_ascii_lowercase();
            if matches!(
                lower.as_str(),
                "host" | "content-length" | "transfer-encoding" | "connection"
            ) {
                return Err(format!("{name} is the client's own"));
            }
            if value.chars().any(|c| c.is_control() || !c.is_ascii()) {
                return Err(format!(
                    "{name}: the value has characters that no header may have"
                ));
            }
            let pieces = pieces(value)?;
            if let Some(other) = places(&pieces).find(|place| !place.starts_with(SECRET)) {
                return Err(format!("{name}: {{{other}}} must be {{secret:NAME}}"));
            }
            found.push((lower, pieces));
        }
        Ok(found)
    }
}
