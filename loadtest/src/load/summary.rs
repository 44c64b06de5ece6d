//! What a run comes to: percentiles, rates and errors by cause.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::answer::{Outcome, Record};
use super::scenario::Slo;

/// Percentiles in milliseconds; `None` where there is nothing to take them of, or where requests that were never
/// answered lie there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: Option<f64>,
    pub(crate) p95: Option<f64>,
    pub(crate) p99: Option<f64>,
}

impl Percentiles {
    /// Of millisecond values in any order; an infinite one stands for what never came.
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share| percentile(&values, share).filter(|value| value.is_finite());
        Self {
            p50: at(0.50),
            p95: at(0.95),
            p99: at(0.99),
        }
    }
}

/// The smallest value that at least `share` of the sorted values do not exceed; `None` of none.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rank among values that fit memory"
)]
pub(crate) fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// The figures of one run at one rate.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    /// Requests a second that were due.
    pub(crate) offered_per_s: f64,
    /// Whole answers a second, up to the last one.
    pub(crate) answers_per_s: f64,
    /// Whole answers a second that kept every latency bound of the scenario.
    pub(crate) goodput_per_s: f64,
    /// Requests that count.
    pub(crate) requests: usize,
    /// Of these: answered whole.
    pub(crate) completed: usize,
    /// Of these: left by their callers, as planned.
    pub(crate) left: usize,
    /// Of these: failed, by cause.
    pub(crate) errors: BTreeMap<String, usize>,
    /// Share of failed requests among those whose callers stayed.
    pub(crate) error_share: f64,
    /// To the first text.
    pub(crate) first_text_ms: Percentiles,
    /// To the first segment that could be spoken.
    pub(crate) first_segment_ms: Percentiles,
    /// To the end of the answer.
    pub(crate) e2e_ms: Percentiles,
    /// Between pieces of text.
    pub(crate) gap_ms: Percentiles,
    /// How late this program sent.
    pub(crate) late_ms: Percentiles,
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Sums up the counted requests of a run whose counted part lasted `window`. A failed request counts as slower than any
/// answer, so that failing does not make a server look fast.
#[allow(clippy::cast_precision_loss, reason = "requests are counted")]
pub(crate) fn summarise(records: &[Record], window: Duration, slo: &Slo) -> Summary {
    let counted: Vec<&Record> = records.iter().filter(|record| record.counted).collect();
    let stayed: Vec<&Record> = counted
        .iter()
        .copied()
        .filter(|record| record.outcome != Outcome::Left)
        .collect();
    let completed: Vec<&Record> = stayed
        .iter()
        .copied()
        .filter(|record| record.outcome == Outcome::Completed)
        .collect();
    let mut errors = BTreeMap::new();
    for record in &stayed {
        if let Outcome::Failed(fault) = &record.outcome {
            *errors.entry(fault.cause()).or_insert(0) += 1;
        }
    }
    let latency = |pick: fn(&Record) -> Option<Duration>| {
        let values = stayed.iter().filter_map(|record| match record.outcome {
            Outcome::Completed => pick(record).map(millis),
            _ => Some(f64::INFINITY),
        });
        Percentiles::of(values.collect())
    };
    let seconds = elapsed(&counted, window).as_secs_f64();
    let good = completed.iter().filter(|record| slo.is_kept_by(record));
    Summary {
        offered_per_s: counted.len() as f64 / window.as_secs_f64(),
        answers_per_s: completed.len() as f64 / seconds,
        goodput_per_s: good.count() as f64 / seconds,
        requests: counted.len(),
        completed: completed.len(),
        left: counted.len() - stayed.len(),
        error_share: (stayed.len() - completed.len()) as f64 / stayed.len().max(1) as f64,
        errors,
        first_text_ms: if completed.iter().any(|record| record.first_text.is_some()) {
            latency(|record| record.first_text)
        } else {
            Percentiles::default()
        },
        first_segment_ms: latency(|record| record.first_segment),
        e2e_ms: latency(|record| Some(record.total)),
        gap_ms: Percentiles::of(
            completed
                .iter()
                .flat_map(|record| record.gaps.iter().copied().map(millis))
                .collect(),
        ),
        late_ms: Percentiles::of(counted.iter().map(|record| millis(record.late)).collect()),
    }
}

/// From the first counted request to the end of the last, at least the window.
fn elapsed(counted: &[&Record], window: Duration) -> Duration {
    let first = counted.iter().map(|record| record.due).min();
    let last = counted.iter().map(|record| record.due + record.total).max();
    match (first, last) {
        (Some(first), Some(last)) => window.max(last - first),
        _ => window,
    }
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
