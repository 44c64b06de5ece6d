//! Sends requests: each when it is due, whatever became of those before it (open loop), or a fixed number at a time
//! (closed loop). Latency counts from when a request was due, so a stalled server is charged for everybody whom it
//! kept waiting.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::answer::{Answer, Fault, Outcome, Record};
use super::progress::Progress;

/// Why a request's task is never lost.
const SOUND: &str = "a request's task neither panics nor is aborted";

/// What can be asked.
pub(crate) trait Target: Send + Sync + 'static {
    /// Sends `body` and tells `answer` what comes, until the answer is whole.
    fn ask(
        &self,
        body: String,
        answer: &mut Answer,
    ) -> impl Future<Output = Result<(), Fault>> + Send;
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// What is sent.
    pub(crate) body: String,
    /// When the caller goes away, after it was due.
    pub(crate) leaves: Option<Duration>,
}

/// A request and when it is due.
pub(crate) struct Due {
    /// After the start.
    pub(crate) at: Duration,
    /// Whether it counts, or warms up.
    pub(crate) counted: bool,
    /// Its place in the workload.
    pub(crate) index: usize,
}

/// What bounds a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Most requests that wait for an answer; more are not sent and count as failed.
    pub(crate) in_flight: usize,
    /// Longest wait for a whole answer, after it was due.
    pub(crate) timeout: Duration,
}

/// Sends every request of `plan` (in order of time) when it is due, and waits for all of them.
pub(crate) async fn open_loop<T: Target>(
    target: &Arc<T>,
    plan: &[Due],
    calls: impl Fn(usize) -> Call,
    limits: Limits,
    progress: &Arc<Progress>,
) -> Vec<Record> {
    let start = Instant::now();
    let mut records = Vec::with_capacity(plan.len());
    let mut running = JoinSet::new();
    for Due { at, counted, index } in plan {
        // Made before it is due, so that making it delays nothing.
        let call = calls(*index);
        let due = start + *at;
        sleep_until(due).await;
        while let Some(done) = running.try_join_next() {
            records.push(done.expect(SOUND));
        }
        progress.due();
        if running.len() >= limits.in_flight {
            let outcome = Outcome::Failed(Fault::NotSent);
            let record = Answer::new(due).record(start, due, *counted, outcome);
            progress.done(&record);
            records.push(record);
            continue;
        }
        let (target, progress, counted) = (Arc::clone(target), Arc::clone(progress), *counted);
        running.spawn(async move {
            let record = ask(&*target, call, due, start, limits.timeout, counted).await;
            progress.done(&record);
            record
        });
    }
    while let Some(done) = running.join_next().await {
        records.push(done.expect(SOUND));
    }
    records.sort_by_key(|record| record.due);
    records
}

/// Keeps `callers` requests running for `length`, each caller asking again as soon as it was answered. What a server
/// does when it never idles; not what viewers wait.
pub(crate) async fn closed_loop<T: Target>(
    target: &Arc<T>,
    callers: usize,
    length: Duration,
    calls: Arc<dyn Fn(usize) -> Call + Send + Sync>,
    wait: Duration,
    progress: &Arc<Progress>,
) -> Vec<Record> {
    let start = Instant::now();
    let next = Arc::new(AtomicUsize::new(0));
    let mut running = JoinSet::new();
    for _ in 0..callers {
        let (target, progress) = (Arc::clone(target), Arc::clone(progress));
        let (calls, next) = (Arc::clone(&calls), Arc::clone(&next));
        running.spawn(async move {
            let mut records = Vec::new();
            while start.elapsed() < length {
                let call = calls(next.fetch_add(1, Ordering::Relaxed));
                progress.due();
                let record = ask(&*target, call, Instant::now(), start, wait, true).await;
                progress.done(&record);
                records.push(record);
            }
            records
        });
    }
    let mut records = running.join_all().await.concat();
    records.sort_by_key(|record| record.due);
    records
}

async fn ask<T: Target>(
    target: &T,
    call: Call,
    due: Instant,
    start: Instant,
    wait: Duration,
    counted: bool,
) -> Record {
    let sent = Instant::now();
    let mut answer = Answer::new(due);
    let patience = call.leaves.unwrap_or(wait).min(wait);
    let left = (due + patience).saturating_duration_since(sent);
    let result = timeout(left, target.ask(call.body, &mut answer)).await;
    let outcome = match result {
        Ok(Ok(())) => {
            answer.end();
            Outcome::Completed
        }
        Ok(Err(fault)) => Outcome::Failed(fault),
        Err(_) if call.leaves.is_some_and(|leaves| leaves < wait) => Outcome::Left,
        Err(_) => Outcome::Failed(Fault::Timeout),
    };
    answer.record(start, sent, counted, outcome)
}

#[cfg(test)]
#[path = "drive_tests.rs"]
mod tests;
