//! How a run goes while it goes: a line on standard error each second.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::interval;

use super::answer::{Outcome, Record};
use super::summary::percentile;

/// Counts that the requests keep.
#[derive(Default)]
pub(crate) struct Progress {
    due: AtomicUsize,
    completed: AtomicUsize,
    left: AtomicUsize,
    failed: AtomicUsize,
    /// Milliseconds to the first segment of those answered since the last line.
    recent: Mutex<Vec<f64>>,
}

impl Progress {
    /// A request became due.
    pub(crate) fn due(&self) {
        self.due.fetch_add(1, Relaxed);
    }

    /// A request ended.
    pub(crate) fn done(&self, record: &Record) {
        let count = match record.outcome {
            Outcome::Completed => &self.completed,
            Outcome::Left => &self.left,
            Outcome::Failed(_) => &self.failed,
        };
        count.fetch_add(1, Relaxed);
        if let Some(first) = record.first_segment {
            let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            recent.push(first.as_secs_f64() * 1e3);
        }
    }

    /// A line about it; forgets what was recent.
    fn line(&self, second: u64) -> String {
        let get = |count: &AtomicUsize| count.load(Relaxed);
        let (completed, left, failed) = (get(&self.completed), get(&self.left), get(&self.failed));
        let due = get(&self.due);
        let mut recent =
            std::mem::take(&mut *self.recent.lock().unwrap_or_else(PoisonError::into_inner));
        recent.sort_by(f64::total_cmp);
        let first = percentile(&recent, 0.5)
            .map_or_else(String::new, |ms| format!(", first segment {ms:.0} ms"));
        format!(
            "{second:>4} s: {due} due, {completed} answered, {} in flight, {failed} failed, {left} left{first}",
            due.saturating_sub(completed + left + failed)
        )
    }
}

/// A line a second for as long as it lives.
pub(crate) struct Lines(JoinHandle<()>);

impl Lines {
    /// Starts to print what `progress` says, each line beginning with `name`.
    pub(crate) fn start(name: &str, progress: &Arc<Progress>) -> Self {
        let (name, progress) = (name.to_owned(), Arc::clone(progress));
        Self(tokio::spawn(async move {
            let mut ticks = interval(Duration::from_secs(1));
            ticks.tick().await;
            for second in 1.. {
                ticks.tick().await;
                eprintln!("{name} {}", progress.line(second));
            }
        }))
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_in_flight() {
        let progress = Progress::default();
        for _ in 0..3 {
            progress.due();
        }
        progress.done(&Record {
            due: Duration::ZERO,
            counted: true,
            late: Duration::ZERO,
            first_text: None,
            first_segment: Some(Duration::from_millis(120)),
            total: Duration::from_millis(300),
            gaps: Vec::new(),
            outcome: Outcome::Completed,
        });
        let line = progress.line(1);
        assert_eq!(
            line,
            "   1 s: 3 due, 1 answered, 2 in flight, 0 failed, 0 left, first segment 120 ms"
        );
        assert!(!progress.line(2).contains("segment"), "it was said already");
    }
}
