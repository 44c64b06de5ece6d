//! Collectors: the engine's plain counters, the process and the build, as Prometheus families.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

use super::engine::{EngineStats, Histogram};
use super::table::{Kind, entry};

/// Descriptions of the metrics that a collector exports.
pub(super) fn descs(names: &[&'static str]) -> Vec<Desc> {
    names
        .iter()
        .map(|name| {
            let entry = entry(name);
            let labels = entry
                .labels
                .iter()
                .map(|label| (*label).to_owned())
                .collect();
            Desc::new(
                entry.name.to_owned(),
                entry.help.to_owned(),
                labels,
                HashMap::new(),
            )
            .expect("the table holds valid names; a test registers them all")
        })
        .collect()
}

/// The family of `name` with its metrics.
pub(super) fn family(name: &'static str, metrics: Vec<Metric>) -> MetricFamily {
    let entry = entry(name);
    let mut family = MetricFamily::default();
    family.set_name(entry.name.to_owned());
    family.set_help(entry.help.to_owned());
    family.set_field_type(match entry.kind {
        Kind::Counter => MetricType::COUNTER,
        Kind::Gauge => MetricType::GAUGE,
        Kind::Histogram => MetricType::HISTOGRAM,
        Kind::Summary => MetricType::SUMMARY,
    });
    family.set_metric(metrics);
    family
}

/// A metric with labels and no value yet.
pub(super) fn labelled(labels: &[(&str, &str)]) -> Metric {
    let pairs = labels
        .iter()
        .map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value((*value).to_owned());
            pair
        })
        .collect();
    Metric::from_label(pairs)
}

/// A counter's value.
pub(super) fn counter(labels: &[(&str, &str)], value: u64) -> Metric {
    let mut metric = labelled(labels);
    let mut counter = Counter::default();
    counter.set_value(value as f64);
    metric.set_counter(counter);
    metric
}

/// A gauge's value.
pub(super) fn gauge(labels: &[(&str, &str)], value: f64) -> Metric {
    let mut metric = labelled(labels);
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    metric.set_gauge(gauge);
    metric
}

fn histogram(source: &Histogram) -> Metric {
    let snapshot = source.snapshot();
    let buckets = snapshot
        .cumulative
        .iter()
        .map(|(edge, count)| {
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(*edge);
            bucket.set_cumulative_count(*count);
            bucket
        })
        .collect();
    let mut histogram = prometheus::proto::Histogram::default();
    histogram.set_bucket(buckets);
    histogram.set_sample_count(snapshot.total);
    histogram.set_sample_sum(snapshot.sum);
    let mut metric = labelled(&[]);
    metric.set_histogram(histogram);
    metric
}

const ENGINE: &[&str] = &[
    "avatar_engine_requests_running",
    "avatar_engine_requests_waiting",
    "avatar_engine_kv_cache_usage_ratio",
    "avatar_engine_preemptions_total",
    "avatar_engine_expired_total",
    "avatar_engine_prefix_cache_query_tokens_total",
    "avatar_engine_prefix_cache_hit_tokens_total",
    "avatar_engine_prompt_tokens_total",
    "avatar_engine_generation_tokens_total",
    "avatar_engine_speculated_tokens_total",
    "avatar_engine_speculated_right_tokens_total",
    "avatar_engine_time_to_first_token_seconds",
    "avatar_engine_inter_token_seconds",
    "avatar_engine_step_seconds",
    "avatar_engine_batch_size",
    "avatar_zombie_tokens_total",
];

/// Exports one engine's counters.
pub(super) struct EngineCollector {
    stats: Arc<EngineStats>,
    descs: Vec<Desc>,
}

impl EngineCollector {
    pub(super) fn new(stats: Arc<EngineStats>) -> Self {
        Self {
            stats,
            descs: descs(ENGINE),
        }
    }
}

impl Collector for EngineCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let stats = &self.stats;
        let whole = |value: u64| gauge(&[], value as f64);
        let usage =
            stats.kv_blocks_used.load(Relaxed) as f64 / stats.kv_blocks.load(Relaxed).max(1) as f64;
        let count = |value: &std::sync::atomic::AtomicU64| counter(&[], value.load(Relaxed));
        // In the order of `ENGINE`.
        let metrics = [
            whole(stats.requests_running.load(Relaxed)),
            whole(stats.requests_waiting.load(Relaxed)),
            gauge(&[], usage),
            count(&stats.preemptions),
            count(&stats.expired),
            count(&stats.prefix_query_tokens),
            count(&stats.prefix_hit_tokens),
            count(&stats.prompt_tokens),
            count(&stats.generation_tokens),
            count(&stats.speculated_tokens),
            count(&stats.speculated_right_tokens),
            histogram(&stats.time_to_first_token),
            histogram(&stats.inter_token),
            histogram(&stats.step),
            histogram(&stats.batch_size),
            count(&stats.zombie_tokens),
        ];
        ENGINE
            .iter()
            .zip(metrics)
            .map(|(name, metric)| family(name, vec![metric]))
            .collect()
    }
}

const PROCESS: &[&str] = &[
    "avatar_build_info",
    "process_resident_memory_bytes",
    "process_open_fds",
    "process_start_time_seconds",
];

/// Exports the process and the build. What the system does not tell is left out.
#[derive(Clone)]
pub(super) struct ProcessCollector {
    started: f64,
    descs: Vec<Desc>,
}

impl ProcessCollector {
    /// Takes now as the start of the process.
    pub(super) fn new() -> Self {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            started: since.as_secs_f64(),
            descs: descs(PROCESS),
        }
    }
}

impl Collector for ProcessCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let version = env!("CARGO_PKG_VERSION");
        let metrics = [
            Some(gauge(&[("version", version)], 1.0)),
            resident_bytes().map(|value| gauge(&[], value)),
            open_files().map(|value| gauge(&[], value)),
            Some(gauge(&[], self.started)),
        ];
        PROCESS
            .iter()
            .zip(metrics)
            .filter_map(|(name, metric)| Some(family(name, vec![metric?])))
            .collect()
    }
}

/// Resident memory as Linux tells it.
fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

fn open_files() -> Option<f64> {
    let entries = std::fs::read_dir("/proc/self/fd").ok()?;
    let count = entries.count() as f64;
    Some((count - 1.0).max(0.0)) // without the one that lists them
}
