//! Answers that are good for a while. Bounded; the clock is tokio's.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::Request;

const MOST_ENTRIES: usize = 256;

/// What makes two requests the same.
type Key = (String, Vec<(String, String)>);

#[derive(Default)]
pub(super) struct Cache {
    entries: Mutex<HashMap<Key, (Instant, Value)>>,
}

impl Cache {
    pub(super) fn get(&self, request: &Request) -> Option<Value> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, value) = entries.get(&key(request))?;
        (request.method == "GET" && Instant::now() < *until).then(|| value.clone())
    }

    pub(super) fn put(&self, request: &Request, value: &Value, lifetime: Duration) {
        if lifetime.is_zero() || request.method != "GET" {
            return;
        }
        let now = Instant::now();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= MOST_ENTRIES {
            entries.retain(|_, (until, _)| now < *until);
        }
        if entries.len() >= MOST_ENTRIES {
            let first = entries
                .iter()
                .min_by_key(|(_, (until, _))| *until)
                .map(|(key, _)| key.clone());
            first.and_then(|key| entries.remove(&key));
        }
        entries.insert(key(request), (now + lifetime, value.clone()));
    }
}

fn key(request: &Request) -> Key {
    (request.url.clone(), request.headers.clone())
}
