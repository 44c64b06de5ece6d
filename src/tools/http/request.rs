//! Arguments into a request: every value escaped, so that none leaves its place in the URL.

use std::collections::BTreeMap;

use reqwest::Url;
use serde_json::{Map, Value};

use super::Request;
use crate::harness::tool::template::{Piece, places};
use crate::harness::tool::{Http, SECRET};
use crate::tools::ToolError;

/// The names of the secrets that headers use.
pub(super) fn secrets(http: &Http) -> impl Iterator<Item = &str> {
    let pieces = http.headers.iter().map(|(_, value)| value);
    pieces
        .flat_map(|value| places(value))
        .filter_map(|place| place.strip_prefix(SECRET))
}

/// The URL with its places empty.
pub(super) fn base(http: &Http) -> String {
    let texts = http.url.iter().map(|piece| match piece {
        Piece::Text(text) => text.as_str(),
        Piece::Place(_) => "x",
    });
    texts.collect()
}

pub(super) fn build(
    http: &Http,
    arguments: &Map<String, Value>,
    known: &BTreeMap<String, String>,
) -> Result<Request, ToolError> {
    let url = url(&http.url, arguments)?;
    let mut headers = Vec::with_capacity(http.headers.len());
    for (name, value) in &http.headers {
        headers.push((name.clone(), header(value, known)?));
    }
    let used: Vec<&str> = places(&http.url).collect();
    let body = http.method.has_body().then(|| {
        let rest: Map<String, Value> = arguments
            .iter()
            .filter(|(name, _)| !used.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        Value::Object(rest).to_string().into_bytes()
    });
    Ok(Request {
        method: http.method.word(),
        url,
        headers,
        body,
    })
}

fn header(pieces: &[Piece], known: &BTreeMap<String, String>) -> Result<String, ToolError> {
    let mut value = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => value.push_str(text),
            Piece::Place(place) => {
                let name = place.trim_start_matches(SECRET);
                let secret = known.get(name).ok_or_else(|| {
                    ToolError::new("refused", format!("secret {name} is not set"))
                })?;
                value.push_str(secret);
            }
        }
    }
    Ok(value)
}

/// The URL with the arguments in their places. An absent argument of the query takes its name along.
fn url(pieces: &[Piece], arguments: &Map<String, Value>) -> Result<String, ToolError> {
    let mut text = String::new();
    let mut skipped = false;
    for piece in pieces {
        match piece {
            Piece::Text(piece) => {
                // The rest of a query pair that was dropped.
                let piece = if skipped {
                    piece.trim_start_matches(|c| c != '&')
                } else {
                    piece
                };
                skipped = false;
                text.push_str(piece);
            }
            Piece::Place(name) => match argument(arguments, name)? {
                Some(value) => text.push_str(&escaped(&value)),
                None if text.contains('?') => {
                    let cut = text.rfind(['?', '&']).map_or(text.len(), |at| at + 1);
                    text.truncate(cut);
                    skipped = true;
                }
                None => {
                    return Err(ToolError::new(
                        "invalid_arguments",
                        format!("/{name}: is needed for the URL"),
                    ));
                }
            },
        }
    }
    let text = text.replace("?&", "?").replace("&&", "&");
    let text = text.trim_end_matches(['?', '&']).to_owned();
    same_shape(pieces, &text)?;
    Ok(text)
}

fn argument(arguments: &Map<String, Value>, name: &str) -> Result<Option<String>, ToolError> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(value.to_string())),
        Some(_) => Err(ToolError::new(
            "invalid_arguments",
            format!("/{name}: must be a plain value to stand in a URL"),
        )),
    }
}

/// Everything but letters, digits and `-_.~`.
fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// `..` in a place, or nothing, would make another path of it.
fn same_shape(pieces: &[Piece], url: &str) -> Result<(), ToolError> {
    let blank: String = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => text.as_str(),
            Piece::Place(_) => "x",
        })
        .collect();
    let shape = |text: &str| {
        let url = Url::parse(text).ok()?;
        let path: Vec<bool> = url.path_segments()?.map(str::is_empty).collect();
        Some((url.origin().ascii_serialization(), path))
    };
    if shape(&blank) == shape(url) {
        return Ok(());
    }
    Err(ToolError::new(
        "invalid_arguments",
        "a value would change the path of the URL",
    ))
}
