//! Turns that can be cancelled, by response id.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// Why a turn is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cancel {
    /// Last segment that viewers heard; `None` when it is not known.
    pub(super) played_through_seq: Option<usize>,
}

type Entries = HashMap<String, watch::Sender<Option<Cancel>>>;

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
        let (sender, cancel) = watch::channel(None);
        self.with(|entries| entries.insert(response_id.clone(), sender));
        Entry {
            registry: Arc::clone(self),
            response_id,
            cancel,
        }
    }

    /// Asks one turn to end; `false` when there is none of that id.
    pub(super) fn cancel(&self, response_id: &str, cancel: Cancel) -> bool {
        self.with(|entries| {
            let sender = entries.get(response_id);
            sender
                .map(|sender| sender.send_replace(Some(cancel)))
                .is_some()
        })
    }

    /// Asks every turn to end.
    pub(super) fn cancel_all(&self) {
        let cancel = Cancel {
            played_through_seq: None,
        };
        self.with(|entries| {
            for sender in entries.values() {
                sender.send_replace(Some(cancel));
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

/// One turn's place in the registry.
#[derive(Debug)]
pub(super) struct Entry {
    registry: Arc<Registry>,
    pub(super) response_id: String,
    cancel: watch::Receiver<Option<Cancel>>,
}

impl Entry {
    /// Waits until the turn is asked to end.
    pub(super) async fn cancelled(&mut self) -> Cancel {
        match self
            .cancel
            .wait_for(Option::is_some)
            .await
            .map(|cancel| *cancel)
        {
            Ok(Some(cancel)) => cancel,
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
