//! Random numbers and the ids made of them. They tell requests apart; nothing depends on their being secret.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

use axum::http::{HeaderMap, HeaderValue};

/// The header that carries a request's id, both ways.
pub(super) const REQUEST_ID: &str = "x-request-id";
/// Most characters of an id that a client may choose.
const MAX_REQUEST_ID: usize = 128;

/// A number that no other call returns, as far as 64 random bits go.
pub(super) fn draw() -> u64 {
    RandomState::new().hash_one(0_u8)
}

/// Names one HTTP request in its response, its errors and the log.
#[derive(Clone, Debug)]
pub(super) struct RequestId(HeaderValue);

impl RequestId {
    /// The client's own id where it is safe to repeat, else a new one.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut given = headers.get_all(REQUEST_ID).iter();
        match (given.next(), given.next()) {
            (Some(id), None) if is_safe(id.as_bytes()) => Self(id.clone()),
            _ => {
                let id = HeaderValue::from_str(&format!("req-{:016x}", draw()));
                Self(id.expect("letters, digits and a dash make a header value"))
            }
        }
    }

    pub(super) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    pub(super) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

fn is_safe(id: &[u8]) -> bool {
    (1..=MAX_REQUEST_ID).contains(&id.len())
        && id
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(values: &[&[u8]]) -> String {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(REQUEST_ID, HeaderValue::from_bytes(value).unwrap());
        }
        RequestId::of(&headers).as_str().to_owned()
    }

    #[test]
    fn safe_ids_are_kept() {
        assert_eq!(id(&[b"Req_1.a-b"]), "Req_1.a-b");
        let longest = "a".repeat(128);
        assert_eq!(id(&[longest.as_bytes()]), longest);
    }

    #[test]
    fn others_are_replaced_by_safe_ones() {
        let long = "a".repeat(129);
        let bad: &[&[&[u8]]] = &[
            &[],
            &[b""],
            &[b"a\tb"],
            &[b"a b"],
            &[b"\xff"],
            &[b"a;b"],
            &[b"a", b"b"],
            &[long.as_bytes()],
        ];
        for values in bad {
            let made = id(values);
            assert!(
                is_safe(made.as_bytes()) && made.starts_with("req-"),
                "{made}"
            );
            assert_ne!(made, id(values), "no two are the same");
        }
    }
}
