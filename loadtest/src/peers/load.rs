//! One side under the scenario's load: warm-up, capacity in a closed loop, latency in an open one.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::Failure;
use crate::load::answer::{Outcome, Record};
use crate::load::arrivals::{Arrivals, times};
use crate::load::drive::{Due, Limits, closed_loop, open_loop};
use crate::load::progress::Lines;
use crate::load::scenario::{Slo, Texts};
use crate::load::summary::summarise;
use crate::load::target::{Http, Route};
use crate::load::workload::{Language, Workload};
use crate::report::{Request, Stage};
use crate::servers::Server;

/// Callers that ask again as soon as they are answered.
const CALLERS: usize = 8;
/// How long a viewer waits at most; what takes longer is an error.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest wait while a side warms up.
const WARM: Duration = Duration::from_secs(300);
/// A whole answer within the P95 that the reference system publishes counts as good.
const GOOD_MS: f64 = 8100.0;

/// A server, its workload and what drives it.
pub(super) struct Side {
    pub(super) name: &'static str,
    runtime: Runtime,
    target: Arc<Http>,
    workload: Arc<Workload>,
    /// The next request that was not asked yet, so that no comment is asked twice.
    next: usize,
    _server: Server,
}

impl Side {
    pub(super) fn start(
        name: &'static str,
        server: Server,
        texts: &Texts,
        language: &Language,
    ) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Self {
            name,
            runtime,
            target: Arc::new(Http::new(&server.url(), Route::Completions)?),
            workload: Arc::new(Workload::new(Route::Completions, texts, 1, Some(language))?),
            next: 0,
            _server: server,
        })
    }

    /// Asks so many at once and waits for all.
    pub(super) fn warm(&mut self, requests: usize) -> Result<(), Failure> {
        let first = self.take(requests);
        let plan: Vec<Due> = (first..first + requests)
            .map(|index| Due {
                at: Duration::ZERO,
                counted: true,
                index,
            })
            .collect();
        let limits = Limits {
            in_flight: requests,
            timeout: WARM,
        };
        let records = self.drive(&plan, limits, "warm-up");
        check(self.name, &records)
    }

    /// Whole answers a second with a fixed number of callers.
    pub(super) fn capacity(&mut self, seconds: u64) -> Result<f64, Failure> {
        let first = self.next;
        let workload = Arc::clone(&self.workload);
        let length = Duration::from_secs(seconds);
        let records = self.runtime.block_on(async {
            let progress = Arc::default();
            let _lines = Lines::start(&format!("{} capacity", self.name), &progress);
            let calls = Arc::new(move |index| workload.call(first + index));
            closed_loop(&self.target, CALLERS, length, calls, WARM, &progress).await
        });
        self.next += records.len();
        check(self.name, &records)?;
        Ok(steady_rate(&records, length))
    }

    /// Latency at `rate` requests a second, in Poisson arrivals that are the same for the same `round`.
    pub(super) fn open(&mut self, rate: f64, seconds: u64, round: u64) -> Result<Load, Failure> {
        // What the last load left behind is over when one more is answered.
        self.warm(1)?;
        let length = Duration::from_secs(seconds);
        let limits = Limits {
            in_flight: 256,
            timeout: PATIENCE,
        };
        let times = times(&Arrivals::Poisson, rate, length, 100 + round);
        let first = self.take(times.len());
        let plan: Vec<Due> = times
            .into_iter()
            .enumerate()
            .map(|(index, at)| Due {
                at,
                counted: true,
                index: first + index,
            })
            .collect();
        let records = self.drive(&plan, limits, &format!("at {rate:.2}/s"));
        Ok(Load {
            server: self.name,
            rate,
            length,
            records,
        })
    }

    fn take(&mut self, requests: usize) -> usize {
        let first = self.next;
        self.next += requests;
        first
    }

    fn drive(&self, plan: &[Due], limits: Limits, what: &str) -> Vec<Record> {
        self.runtime.block_on(async {
            let progress = Arc::default();
            let _lines = Lines::start(&format!("{} {what}", self.name), &progress);
            let calls = |index| self.workload.call(index);
            open_loop(&self.target, plan, calls, limits, &progress).await
        })
    }
}

/// What an open loop brought.
pub(super) struct Load {
    server: &'static str,
    rate: f64,
    length: Duration,
    records: Vec<Record>,
}

impl Load {
    /// Another round of the same, after this one.
    pub(super) fn add(&mut self, more: Self) {
        let start = self.length;
        self.length += more.length;
        self.records
            .extend(more.records.into_iter().map(|record| Record {
                due: record.due + start,
                ..record
            }));
    }

    /// Summed up.
    pub(super) fn stage(self) -> Stage {
        let slo = Slo {
            e2e_p95_ms: Some(GOOD_MS),
            ..Slo::default()
        };
        Stage {
            server: self.server.to_owned(),
            rate_per_s: self.rate,
            summary: summarise(&self.records, self.length, &slo),
            missed: Vec::new(),
            marks: Vec::new(),
            requests: self.records.iter().map(Request::of).collect(),
        }
    }
}

/// A server that fails requests without being overloaded is not measured.
fn check(name: &str, records: &[Record]) -> Result<(), Failure> {
    for record in records {
        if let Outcome::Failed(fault) = &record.outcome {
            return Err(format!("{name}: a request failed: {}", fault.cause()).into());
        }
    }
    Ok(())
}

/// Answers a second while every caller was busy: each answer counts by the part of it that lies in the time.
fn steady_rate(records: &[Record], length: Duration) -> f64 {
    let end = length.as_secs_f64();
    let inside = |record: &Record| {
        let due = record.due.as_secs_f64();
        let total = record.total.as_secs_f64();
        ((end - due) / total).clamp(0.0, 1.0)
    };
    records.iter().map(inside).sum::<f64>() / end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_outlast_the_time_count_in_part() {
        let record = |due, total| Record {
            due: Duration::from_secs(due),
            counted: true,
            late: Duration::ZERO,
            first_text: None,
            first_segment: None,
            total: Duration::from_secs(total),
            gaps: Vec::new(),
            outcome: Outcome::Completed,
        };
        let records = [record(0, 4), record(4, 4), record(8, 4)];
        let rate = steady_rate(&records, Duration::from_secs(10));
        assert!((rate - 0.25).abs() < 1e-9, "{rate}");
        assert!(check("x", &records).is_ok());
    }
}
