//! A slot as something that can be followed: its folder's events, reads and changes.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::slot::Slot;
use crate::harness::watch::{Ears, Folder, Reading};

/// A slot whose folder is followed.
pub(super) struct Follower {
    slot: Arc<Slot>,
    ears: Option<Ears>,
}

impl Follower {
    pub(super) fn new(slot: Arc<Slot>) -> (Self, mpsc::Receiver<()>) {
        let (ears, events) = Ears::new(&slot.dir);
        (
            Self {
                slot,
                ears: Some(ears),
            },
            events,
        )
    }
}

impl Folder for Follower {
    async fn listen(&mut self) {
        let Some(mut ears) = self.ears.take() else {
            return;
        };
        let listening = tokio::task::spawn_blocking(move || {
            ears.listen();
            ears
        });
        self.ears = listening.await.ok();
    }

    async fn read(&self) -> Reading {
        self.slot.read().await
    }

    fn is_news(&self, reading: &Reading) -> bool {
        !self.slot.has_taken(reading)
    }

    async fn take(&mut self, reading: Reading) {
        self.slot.take(reading).await;
    }

    async fn tick(&mut self) {
        self.slot.catch_up().await;
    }
}
