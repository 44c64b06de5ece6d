//! All that a turn told, kept in order for any number of listeners, whenever they come.

use std::sync::Arc;

use tokio::sync::watch;

use super::event::TurnEvent;

/// What was told so far. A turn tells no more than its length, rounds and skills allow, so this is bounded.
#[derive(Debug, Default)]
struct Told {
    events: Vec<TurnEvent>,
    /// The turn is over, whether it said so or not.
    closed: bool,
}

/// Holds the events of one turn.
#[derive(Debug)]
pub(super) struct Tape {
    told: watch::Sender<Told>,
    listeners: watch::Sender<usize>,
}

impl Tape {
    /// A new tape and the turn's end of it.
    pub(super) fn record() -> (Arc<Self>, Recorder) {
        let tape = Arc::new(Self {
            told: watch::Sender::default(),
            listeners: watch::Sender::default(),
        });
        (Arc::clone(&tape), Recorder(tape))
    }

    /// Listens from event number `from` on.
    pub(super) fn listen(self: &Arc<Self>, from: usize) -> Listener {
        self.listeners.send_modify(|count| *count += 1);
        Listener {
            told: self.told.subscribe(),
            tape: Arc::clone(self),
            next: from,
        }
    }
}

/// The turn's end of a tape; dropping it closes the tape.
#[derive(Debug)]
pub(super) struct Recorder(Arc<Tape>);

impl Recorder {
    /// Tells everybody who listens or will.
    pub(super) fn tell(&self, event: TurnEvent) {
        self.0.told.send_modify(|told| told.events.push(event));
    }

    /// Waits until nobody listens.
    pub(super) async fn unheard(&self) {
        let mut listeners = self.0.listeners.subscribe();
        // It fails only when the tape is gone, and `self` holds it.
        let _ = listeners.wait_for(|count| *count == 0).await;
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.0.told.send_modify(|told| told.closed = true);
    }
}

/// One reader's end of a tape.
#[derive(Debug)]
pub(super) struct Listener {
    tape: Arc<Tape>,
    told: watch::Receiver<Told>,
    next: usize,
}

impl Listener {
    /// The next event; `None` when there will be none. Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> Option<TurnEvent> {
        let next = self.next;
        let there = |told: &Told| told.events.len() > next || told.closed;
        let event = self
            .told
            .wait_for(there)
            .await
            .ok()?
            .events
            .get(next)
            .cloned();
        self.next += usize::from(event.is_some());
        event
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.tape.listeners.send_modify(|count| *count -= 1);
    }
}
