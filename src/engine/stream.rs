//! The channel between the engine thread and one request: the sender never blocks, dropping the receiver cancels.

use std::task::{Context, Poll};

use tokio::sync::mpsc;

use super::{Finish, FinishReason, Timings, TokenEvent, Usage};

/// Makes a channel that holds `capacity` events and the terminal one, so that a slow reader never holds the engine up.
#[must_use]
pub fn stream_channel(capacity: usize) -> (StreamSender, TokenStream) {
    let (sender, receiver) = mpsc::channel(capacity + 1);
    (
        StreamSender { sender },
        TokenStream {
            receiver,
            finished: false,
        },
    )
}

/// The engine's end.
#[derive(Debug)]
pub struct StreamSender {
    sender: mpsc::Sender<TokenEvent>,
}

impl StreamSender {
    /// Whether the reader is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Hands an event over without waiting; `false` when the reader is gone.
    #[must_use]
    pub fn send(&self, event: TokenEvent) -> bool {
        match self.sender.try_send(event) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Closed(_)) => false,
            Err(mpsc::error::TrySendError::Full(_)) => {
                debug_assert!(false, "a stream's channel holds all events it may produce");
                false
            }
        }
    }
}

/// The request's end: a sequence of events that `Finished` closes. Dropping it cancels the request.
#[derive(Debug)]
pub struct TokenStream {
    receiver: mpsc::Receiver<TokenEvent>,
    finished: bool,
}

impl TokenStream {
    /// The next event; `None` after `Finished`. An engine that dies ends the stream with an error, never silently.
    pub async fn next(&mut self) -> Option<TokenEvent> {
        if self.finished {
            return None;
        }
        let event = self.receiver.recv().await;
        Some(self.settle(event))
    }

    /// As [`TokenStream::next`], for callers that wait for several streams at once.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<TokenEvent>> {
        if self.finished {
            return Poll::Ready(None);
        }
        let event = self.receiver.poll_recv(cx);
        event.map(|event| Some(self.settle(event)))
    }

    /// As [`TokenStream::next`], for callers outside an async runtime.
    pub fn blocking_next(&mut self) -> Option<TokenEvent> {
        if self.finished {
            return None;
        }
        let event = self.receiver.blocking_recv();
        Some(self.settle(event))
    }

    fn settle(&mut self, event: Option<TokenEvent>) -> TokenEvent {
        let event = event.unwrap_or_else(|| {
            TokenEvent::Finished(Finish {
                reason: FinishReason::Error(
                    "the engine stopped before the answer was complete".to_owned(),
                ),
                usage: Usage::default(),
                timings: Timings::default(),
            })
        });
        self.finished = matches!(event, TokenEvent::Finished(_));
        event
    }
}
