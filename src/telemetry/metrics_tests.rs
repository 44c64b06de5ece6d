//! The exported text: conservation, every row of the table, a strict reader.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::table::TABLE;
use super::*;

/// `name{labels}` to value of a rendered text.
fn samples(text: &str) -> BTreeMap<String, f64> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a sample has a value");
            (name.to_owned(), value.parse().expect("a value is a number"))
        })
        .collect()
}

fn sum(samples: &BTreeMap<String, f64>, name: &str) -> f64 {
    let labelled = format!("{name}{{");
    samples
        .iter()
        .filter(|(key, _)| *key == name || key.starts_with(&labelled))
        .map(|(_, value)| value)
        .sum()
}

/// Ways in which a turn can end.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Counted(usize),
    Twice(usize),
    Dropped,
    Panicked,
    Open,
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        (0..Outcome::ALL.len()).prop_map(Ending::Counted),
        (0..Outcome::ALL.len()).prop_map(Ending::Twice),
        Just(Ending::Dropped),
        Just(Ending::Panicked),
        Just(Ending::Open),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn accepted_is_in_flight_plus_outcomes_whatever_happens(endings in proptest::collection::vec(ending(), 0..40)) {
        let metrics = Arc::new(Metrics::new());
        let mut open = Vec::new();
        for ending in &endings {
            let mut meter = metrics.accept_turn("comments", tokio::time::Instant::now());
            match ending {
                Ending::Counted(outcome) => { meter.end(Outcome::ALL[*outcome]); }
                Ending::Twice(outcome) => {
                    meter.segment();
                    meter.end(Outcome::ALL[*outcome]);
                    meter.end(Outcome::Stop);
                }
                Ending::Dropped => drop(meter),
                Ending::Panicked => {
                    let panicked = std::thread::Builder::new().spawn(move || {
                        let _meter = meter;
                        std::panic::resume_unwind(Box::new("the turn's task panicked"));
                    });
                    prop_assert!(panicked.unwrap().join().is_err());
                }
                Ending::Open => open.push(meter),
            }
            let samples = samples(&metrics.render());
            let in_flight = samples["avatar_turns_in_flight"];
            prop_assert_eq!(samples["avatar_turns_accepted_total"], in_flight + sum(&samples, "avatar_turns_total"));
            let opened = open.len() as f64;
            prop_assert_eq!(in_flight, opened);
        }
    }
}

fn everything() -> Arc<Metrics> {
    let metrics = Arc::new(Metrics::new());
    metrics
        .watch_engine(Arc::new(EngineStats::default()))
        .unwrap();
    let mut meter = metrics.accept_turn("comments", tokio::time::Instant::now());
    meter.segment();
    meter.end(Outcome::Stop);
    metrics.turn_rejected("queue_full");
    metrics.fallback("queue_full");
    metrics.deadline_missed("decode");
    metrics.chat_rejected("queue_full");
    metrics.harness_reload("activated");
    metrics.harness_live("live-room", "0123456789ab");
    metrics.cache_miss("skills");
    metrics.stage(Stage::Render, Duration::from_millis(1));
    metrics.turn_rounds(1);
    metrics.hook("price-guard", "allow");
    metrics.tool("get_price", "ok");
    metrics.segment_blocked("price-guard");
    metrics.accept_chat().end(Outcome::Stop);
    metrics
}

#[test]
fn every_row_of_the_table_is_exported_and_nothing_else() {
    let text = everything().render();
    let mut exported: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split(' ').next())
        .collect();
    let mut listed: Vec<_> = TABLE.iter().map(|entry| entry.name).collect();
    exported.sort_unstable();
    listed.sort_unstable();
    assert_eq!(exported, listed);
}

#[test]
fn a_harness_has_one_version_however_often_it_changes() {
    let metrics = Metrics::new();
    for version in ["one", "two", "three"] {
        metrics.harness_live("live-room", version);
        metrics.harness_live("shop", "first");
    }
    let samples = samples(&metrics.render());
    let mut info = samples
        .keys()
        .filter(|name| name.starts_with("avatar_harness_info"));
    assert!(info.next().unwrap().contains("version=\"three\""));
    assert!(info.next().unwrap().contains("version=\"first\""));
    assert_eq!(info.next(), None);
}

#[test]
fn buckets_are_monotone_end_in_the_count_and_mean_is_below_the_top() {
    let metrics = Arc::new(Metrics::new());
    let stats = Arc::new(EngineStats::default());
    metrics.watch_engine(Arc::clone(&stats)).unwrap();
    for micros in [300_u64, 3_000, 30_000, 40_000_000] {
        stats.step.observe_duration(Duration::from_micros(micros));
    }
    let text = metrics.render();
    let buckets: Vec<f64> = text
        .lines()
        .filter(|line| line.starts_with("avatar_engine_step_seconds_bucket"))
        .map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
        .collect();
    assert!(buckets.is_sorted(), "{buckets:?}");
    let samples = samples(&text);
    assert_eq!(
        buckets.last(),
        Some(&samples["avatar_engine_step_seconds_count"])
    );
    assert!((samples["avatar_engine_step_seconds_sum"] - 40.0333).abs() < 1e-3);
}

#[test]
fn quantiles_are_a_summary_over_both_windows() {
    let text = everything().render();
    assert!(
        text.contains("# TYPE avatar_response_latency_seconds summary"),
        "{text}"
    );
    for window in ["1m", "5m"] {
        for quantile in ["0.5", "0.95", "0.99"] {
            let line = format!(
                "avatar_response_latency_seconds{{window=\"{window}\",quantile=\"{quantile}\"}} "
            );
            assert!(text.contains(&line), "{line} is not in {text}");
        }
    }
}

#[test]
fn only_answers_enter_the_latency_summary() {
    let metrics = Arc::new(Metrics::new());
    metrics
        .accept_turn("comments", tokio::time::Instant::now())
        .end(Outcome::Cancelled);
    metrics
        .accept_turn("comments", tokio::time::Instant::now())
        .end(Outcome::Failed);
    metrics
        .accept_turn("comments", tokio::time::Instant::now())
        .end(Outcome::Length);
    let samples = samples(&metrics.render());
    assert_eq!(
        samples["avatar_response_latency_seconds_count{window=\"1m\"}"],
        1.0
    );
    assert_eq!(sum(&samples, "avatar_response_duration_seconds_count"), 3.0);
}

#[test]
fn an_abandoned_chat_is_cancelled_once() {
    let metrics = Arc::new(Metrics::new());
    drop(metrics.accept_chat());
    let samples = samples(&metrics.render());
    assert_eq!(samples["avatar_chat_total{outcome=\"cancelled\"}"], 1.0);
    assert_eq!(samples["avatar_chat_in_flight"], 0.0);
}
