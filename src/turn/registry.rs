//! Turns that can be cancelled, by response id.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// Why a turn is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Somebody asked for it.
    Cancelled {
        /// Last segment that viewers heard; `None` when it is not known.
        played_through_seq: Option<usize>,
    },
    /// Another turn of the room takes its place.
    Superseded,
}

type Entries = HashMap<String, watch::Sender<Option<Stop>>>;

/// Every turn in flight.
#[derive(Debug, Default)]
pub(super) struct Registry {
    entries: Mutex<Entries>,
    ids: Ids,
}

impl Registry {
    /// Enters a turn under a new id until the entry is dropped.
    pub(super) fn enter(self: &Arc<Self>) -> Entry {
        let response_id = self.ids.next();
        let (sender, stop) = watch::channel(None);
        self.with(|entries| entries.insert(response_id.clone(), sender));
        Entry {
            registry: Arc::clone(self),
            response_id,
            stop,
        }
    }

    /// Asks one turn to end; `false` when there is none of that id. The first reason that a turn is given stays.
    pub(super) fn stop(&self, response_id: &str, stop: Stop) -> bool {
        self.with(|entries| {
            let sender = entries.get(response_id);
            sender.map(|sender| give(sender, stop)).is_some()
        })
    }

    /// Asks every turn to end.
    pub(super) fn cancel_all(&self) {
        let stop = Stop::Cancelled {
            played_through_seq: None,
        };
        self.with(|entries| {
            for sender in entries.values() {
                give(sender, stop);
            }
        });
    }

    pub(super) fn len(&self) -> usize {
        self.with(|entries| entries.len())
    }

    fn with<T>(&self, change: impl FnOnce(&mut Entries) -> T) -> T {
        change(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn give(sender: &watch::Sender<Option<Stop>>, stop: Stop) {
    sender.send_if_modified(|given| {
        let is_first = given.is_none();
        given.get_or_insert(stop);
        is_first
    });
}

/// One turn's place in the registry.
#[derive(Debug)]
pub(super) struct Entry {
    registry: Arc<Registry>,
    pub(super) response_id: String,
    stop: watch::Receiver<Option<Stop>>,
}

impl Entry {
    /// Waits until the turn is asked to end.
    pub(super) async fn stopped(&mut self) -> Stop {
        match self.stop.wait_for(Option::is_some).await.map(|stop| *stop) {
            Ok(Some(stop)) => stop,
            // The sender lives in the registry until this entry is dropped.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.registry
            .with(|entries| entries.remove(&self.response_id));
    }
}

/// Response ids: never repeated, and not to be guessed from one another.
#[derive(Debug, Default)]
struct Ids {
    count: AtomicU64,
    /// Keyed with random numbers of this process.
    high: RandomState,
    low: RandomState,
}

impl Ids {
    fn next(&self) -> String {
        let number = self.count.fetch_add(1, Relaxed);
        format!(
            "resp_{:016x}{:016x}",
            self.high.hash_one(number),
            self.low.hash_one(!number)
        )
    }
}
