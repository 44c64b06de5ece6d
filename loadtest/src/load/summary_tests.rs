//! Percentiles, and what failed and abandoned requests do to them.

use super::*;
use crate::load::answer::Fault;

fn record(ms: u64, outcome: Outcome) -> Record {
    Record {
        due: Duration::ZERO,
        counted: true,
        late: Duration::ZERO,
        first_text: Some(Duration::from_millis(ms / 4)),
        first_segment: Some(Duration::from_millis(ms / 2)),
        total: Duration::from_millis(ms),
        gaps: vec![Duration::from_millis(ms / 10)],
        outcome,
    }
}

fn summary(records: &[Record]) -> Summary {
    let slo = Slo {
        first_segment_p95_ms: Some(30.0),
        ..Slo::default()
    };
    summarise(records, Duration::from_secs(10), &slo)
}

#[test]
fn percentiles_are_values_that_occurred() {
    let sorted: Vec<f64> = (1..=20).map(f64::from).collect();
    for (share, value) in [
        (0.0, 1.0),
        (0.5, 10.0),
        (0.95, 19.0),
        (0.99, 20.0),
        (1.0, 20.0),
    ] {
        assert_eq!(percentile(&sorted, share), Some(value), "{share}");
    }
    assert_eq!(percentile(&[], 0.5), None);
}

#[test]
fn answers_are_summed_up() {
    let records: Vec<Record> = (1..=100).map(|ms| record(ms, Outcome::Completed)).collect();
    let summary = summary(&records);
    assert_eq!(summary.e2e_ms.p95, Some(95.0));
    assert_eq!(summary.first_segment_ms.p50, Some(25.0));
    assert_eq!((summary.offered_per_s, summary.answers_per_s), (10.0, 10.0));
    assert!(
        (summary.goodput_per_s - 6.1).abs() < 1e-9,
        "{}",
        summary.goodput_per_s
    );
    assert!(summary.errors.is_empty() && summary.error_share == 0.0);
}

#[test]
fn failing_fast_does_not_look_fast() {
    let mut records: Vec<Record> = (1..=90).map(|ms| record(ms, Outcome::Completed)).collect();
    records.extend((0..10).map(|_| record(1, Outcome::Failed(Fault::Status(429)))));
    let summary = summary(&records);
    assert_eq!(summary.e2e_ms.p50, Some(50.0));
    assert_eq!(
        summary.e2e_ms.p95, None,
        "the slowest tenth was never answered"
    );
    assert_eq!(summary.errors["status 429"], 10);
    assert!((summary.error_share - 0.1).abs() < 1e-9);
}

#[test]
fn those_who_left_and_the_warm_up_are_left_out() {
    let mut records = vec![record(10, Outcome::Completed), record(900, Outcome::Left)];
    records.push(Record {
        counted: false,
        ..record(800, Outcome::Completed)
    });
    let summary = summary(&records);
    assert_eq!(
        (summary.requests, summary.completed, summary.left),
        (2, 1, 1)
    );
    assert_eq!(summary.e2e_ms.p99, Some(10.0));
}

#[test]
fn a_backlog_that_is_answered_late_lowers_the_rate() {
    let late = Record {
        total: Duration::from_secs(20),
        ..record(1, Outcome::Completed)
    };
    let summary = summary(&[record(1, Outcome::Completed), late]);
    assert!(
        (summary.answers_per_s - 0.1).abs() < 1e-9,
        "{}",
        summary.answers_per_s
    );
}

#[test]
fn nothing_at_all_has_no_figures() {
    let summary = summary(&[]);
    assert_eq!(summary.e2e_ms, Percentiles::default());
    assert_eq!((summary.requests, summary.answers_per_s), (0, 0.0));
}
