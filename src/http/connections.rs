//! Who is connected: bounds their number, knows which wait for a request and how many requests are being answered.
//! A full house lets the longest idle one go, so that half-sent requests cannot keep others out.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

/// All connections of one server.
#[derive(Debug)]
pub(super) struct Connections {
    seats: Arc<Semaphore>,
    idle: Mutex<Idle>,
    /// Requests whose response is not out yet.
    busy: watch::Sender<usize>,
}

/// Connections without a request, longest idle first.
#[derive(Debug, Default)]
struct Idle {
    next_turn: u64,
    waiting: BTreeMap<u64, Arc<Notify>>,
}

impl Connections {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            seats: Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS))),
            idle: Mutex::default(),
            busy: watch::Sender::new(0),
        })
    }

    /// A seat for a new connection; `None` when all are taken and busy.
    pub(super) async fn admit(self: &Arc<Self>) -> Option<Connection> {
        let seat = match Arc::clone(&self.seats).try_acquire_owned() {
            Ok(seat) => seat,
            Err(_) if self.evict() => Arc::clone(&self.seats).acquire_owned().await.ok()?,
            Err(_) => return None,
        };
        let connection = Connection {
            all: Arc::clone(self),
            evicted: Arc::new(Notify::new()),
            turn: Mutex::new(None),
            _seat: seat,
        };
        connection.wait();
        Some(connection)
    }

    /// Lets the longest idle connection go; `false` when every one is busy.
    pub(super) fn evict(&self) -> bool {
        let longest = self.lock().waiting.pop_first();
        longest.inspect(|(_, gone)| gone.notify_one()).is_some()
    }

    /// Waits until no request is being answered.
    pub(super) async fn quiet(&self) {
        let mut busy = self.busy.subscribe();
        // It fails only when the sender is gone, and `self` holds it.
        let _ = busy.wait_for(|requests| *requests == 0).await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Idle> {
        // Nothing panics while holding it, and a map of handles is valid at any point.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection's seat, given back on drop.
#[derive(Debug)]
pub(super) struct Connection {
    all: Arc<Connections>,
    evicted: Arc<Notify>,
    /// Its place among the idle ones.
    turn: Mutex<Option<u64>>,
    _seat: OwnedSemaphorePermit,
}

impl Connection {
    /// Waits until it must make room.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// A request has come; the connection is busy until the returned guard is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        self.leave();
        self.all.busy.send_modify(|requests| *requests += 1);
        Busy(Arc::clone(self))
    }

    /// Whether a request is being answered.
    pub(super) fn is_busy(&self) -> bool {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        turn.is_none()
    }

    fn wait(&self) {
        let mut idle = self.all.lock();
        let turn = idle.next_turn;
        idle.next_turn += 1;
        idle.waiting.insert(turn, Arc::clone(&self.evicted));
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = Some(turn);
    }

    fn leave(&self) {
        let mut idle = self.all.lock();
        let turn = self
            .turn
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(turn) = turn {
            idle.waiting.remove(&turn);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A request being answered.
#[derive(Debug)]
pub(super) struct Busy(Arc<Connection>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.wait();
        self.0.all.busy.send_modify(|requests| *requests -= 1);
    }
}

/// A response body that keeps its connection busy until it is sent or dropped.
pub(super) struct BusyBody {
    pub(super) body: Body,
    pub(super) _busy: Busy,
}

impl HttpBody for BusyBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_house_lets_the_longest_idle_go() {
        let all = Connections::new(2);
        let busy = Arc::new(all.admit().await.unwrap());
        let guard = busy.begin();
        let idle = all.admit().await.unwrap();
        let leaving = tokio::spawn(async move { idle.evicted().await });
        let newcomer = Arc::new(all.admit().await.unwrap());
        leaving.await.unwrap();
        let _second = newcomer.begin();
        assert!(all.admit().await.is_none(), "all are busy");
        drop(guard);
        drop(busy);
        assert!(all.admit().await.is_some());
    }

    #[tokio::test]
    async fn quiet_comes_with_the_last_response() {
        let all = Connections::new(2);
        let connection = Arc::new(all.admit().await.unwrap());
        let guard = connection.begin();
        let quiet = tokio::spawn({
            let all = Arc::clone(&all);
            async move { all.quiet().await }
        });
        tokio::task::yield_now().await;
        assert!(!quiet.is_finished());
        drop(guard);
        quiet.await.unwrap();
    }
}
