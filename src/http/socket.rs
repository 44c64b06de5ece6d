//! The reading side of a client's socket, shared by what serves it and what watches whether the client is still there.
//!
//! While a request is answered, hyper notices a client that leaves only if it sent nothing after the request: stray
//! or pipelined bytes hide the end. The kernel tells it all the same.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::sleep;

/// How long a client may be gone before it is noticed behind bytes that nobody reads.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What a client sends; clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Incoming(Arc<OwnedReadHalf>);

impl Incoming {
    pub(super) fn new(half: OwnedReadHalf) -> Self {
        Self(Arc::new(half))
    }

    /// Waits until the client has left while `busy` says that a request is being answered. At other times the end is
    /// for the reader to see.
    pub(super) async fn left(&self, busy: impl Fn() -> bool) {
        loop {
            let gone = match self.0.ready(Interest::READABLE).await {
                Ok(ready) => ready.is_read_closed(),
                Err(_) => true,
            };
            if gone && busy() {
                return;
            }
            sleep(LOOK_AGAIN).await;
        }
    }
}

impl AsyncRead for Incoming {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(AsRef::<TcpStream>::as_ref(&*self.0).poll_read_ready(cx))?;
            match self.0.try_read(buffer.initialize_unfilled()) {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}
