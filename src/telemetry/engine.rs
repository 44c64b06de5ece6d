//! What the engine thread counts: plain atomics, so that counting takes no lock. `metrics` exports them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Counters, gauges and histograms of one engine.
#[derive(Debug)]
pub struct EngineStats {
    /// Sequences with KV blocks.
    pub requests_running: AtomicU64,
    /// Sequences queued.
    pub requests_waiting: AtomicU64,
    /// Blocks in the pool.
    pub kv_blocks: AtomicU64,
    /// Blocks referenced by sequences or pins (cached, unreferenced ones do not count).
    pub kv_blocks_used: AtomicU64,
    /// Sequences whose blocks were taken and whose KV is computed again.
    pub preemptions: AtomicU64,
    /// Sequences whose deadline passed while they waited and had computed nothing.
    pub expired: AtomicU64,
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_query_tokens: AtomicU64,
    /// Those found.
    pub prefix_hit_tokens: AtomicU64,
    /// Prompt tokens of admitted requests.
    pub prompt_tokens: AtomicU64,
    /// Tokens sampled.
    pub generation_tokens: AtomicU64,
    /// Tokens guessed, and computed to see whether they are right.
    pub speculated_tokens: AtomicU64,
    /// Those of them that were.
    pub speculated_right_tokens: AtomicU64,
    /// Tokens sampled more than one step after their stream was dropped: stays 0.
    pub zombie_tokens: AtomicU64,
    /// Submission to first token.
    pub time_to_first_token: Histogram,
    /// Between a stream's tokens.
    pub inter_token: Histogram,
    /// One step of the engine.
    pub step: Histogram,
    /// Sequences in a step.
    pub batch_size: Histogram,
}

/// Bucket edges in seconds for what takes a step or a few.
pub const STEP_BUCKETS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0,
];
/// Bucket edges for a number of sequences.
pub const BATCH_BUCKETS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

impl Default for EngineStats {
    fn default() -> Self {
        Self {
            requests_running: AtomicU64::default(),
            requests_waiting: AtomicU64::default(),
            kv_blocks: AtomicU64::default(),
            kv_blocks_used: AtomicU64::default(),
            preemptions: AtomicU64::default(),
            expired: AtomicU64::default(),
            prefix_query_tokens: AtomicU64::default(),
            prefix_hit_tokens: AtomicU64::default(),
            prompt_tokens: AtomicU64::default(),
            generation_tokens: AtomicU64::default(),
            speculated_tokens: AtomicU64::default(),
            speculated_right_tokens: AtomicU64::default(),
            zombie_tokens: AtomicU64::default(),
            time_to_first_token: Histogram::new(super::LATENCY_BUCKETS),
            inter_token: Histogram::new(STEP_BUCKETS),
            step: Histogram::new(STEP_BUCKETS),
            batch_size: Histogram::new(BATCH_BUCKETS),
        }
    }
}

/// A histogram with fixed edges, written by one thread without locks and read by any.
#[derive(Debug)]
pub struct Histogram {
    edges: &'static [f64],
    /// One count per edge and one above the last; not cumulative.
    counts: Box<[AtomicU64]>,
    /// Sum of the observations in millionths, so that it fits an integer.
    sum_micros: AtomicU64,
}

impl Histogram {
    /// An empty histogram over ascending `edges`.
    #[must_use]
    pub fn new(edges: &'static [f64]) -> Self {
        let counts = (0..=edges.len()).map(|_| AtomicU64::new(0)).collect();
        Self {
            edges,
            counts,
            sum_micros: AtomicU64::new(0),
        }
    }

    /// Counts one value, zero or more.
    pub fn observe(&self, value: f64) {
        let bucket = self.edges.partition_point(|edge| *edge < value);
        self.counts[bucket].fetch_add(1, Relaxed);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        self.sum_micros.fetch_add((value * 1e6) as u64, Relaxed);
    }

    /// Counts one duration in seconds.
    pub fn observe_duration(&self, value: Duration) {
        self.observe(value.as_secs_f64());
    }

    /// Cumulative counts by edge, the total, and the sum; consistent with each other up to what is being written.
    #[must_use]
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut total = 0;
        let mut cumulative = Vec::with_capacity(self.edges.len());
        for (edge, count) in self.edges.iter().zip(&self.counts) {
            total += count.load(Relaxed);
            cumulative.push((*edge, total));
        }
        total += self.counts[self.edges.len()].load(Relaxed);
        #[allow(clippy::cast_precision_loss)]
        let sum = self.sum_micros.load(Relaxed) as f64 / 1e6;
        HistogramSnapshot {
            cumulative,
            total,
            sum,
        }
    }
}

/// What a histogram held at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramSnapshot {
    /// `(edge, observations at or below it)`, ascending.
    pub cumulative: Vec<(f64, u64)>,
    /// All observations.
    pub total: u64,
    /// Their sum.
    pub sum: f64,
}
