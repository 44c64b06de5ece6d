//! Everything that is counted, in one registry of its own; rendered for Prometheus.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus::core::Collector;
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry, TextEncoder,
};

use super::engine::EngineStats;
use super::export::{EngineCollector, ProcessCollector};
use super::harness::LiveHarnesses;
use super::ledger::{InFlight, Ledger, LedgerNames, Outcome};
use super::quantiles::Quantiles;
use super::stages::Stage;
use super::{LATENCY_BUCKETS, ROUND_BUCKETS, STAGE_BUCKETS, table};

/// The metrics of one server. Share it by `Arc`.
pub struct Metrics {
    registry: Registry,
    turns: Ledger,
    turns_rejected: IntCounterVec,
    response_duration: HistogramVec,
    first_segment: HistogramVec,
    response_quantiles: Quantiles,
    first_segment_quantiles: Quantiles,
    segments: IntCounter,
    fallback: IntCounterVec,
    deadline_missed: IntCounterVec,
    chats: Ledger,
    chats_rejected: IntCounterVec,
    chat_duration: HistogramVec,
    harness_reloads: IntCounterVec,
    harnesses: LiveHarnesses,
    cache_misses: IntCounterVec,
    stages: HistogramVec,
    rounds: HistogramVec,
    hooks: IntCounterVec,
    tools: IntCounterVec,
    segments_blocked: IntCounterVec,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All metrics of the table at zero, except the engine's (see [`Metrics::watch_engine`]).
    #[must_use]
    pub fn new() -> Self {
        let registry = Registry::new();
        let now = Instant::now();
        let turns = Ledger::new(LedgerNames {
            accepted: "avatar_turns_accepted_total",
            in_flight: "avatar_turns_in_flight",
            ended: "avatar_turns_total",
        });
        let chats = Ledger::new(LedgerNames {
            accepted: "avatar_chat_accepted_total",
            in_flight: "avatar_chat_in_flight",
            ended: "avatar_chat_total",
        });
        register(&registry, ProcessCollector::new());
        Self {
            turns: register(&registry, turns),
            turns_rejected: counters(&registry, "avatar_turns_rejected_total"),
            response_duration: histograms(
                &registry,
                "avatar_response_duration_seconds",
                LATENCY_BUCKETS,
            ),
            first_segment: histograms(
                &registry,
                "avatar_time_to_first_segment_seconds",
                LATENCY_BUCKETS,
            ),
            response_quantiles: register(
                &registry,
                Quantiles::new("avatar_response_latency_seconds", now),
            ),
            first_segment_quantiles: register(
                &registry,
                Quantiles::new("avatar_first_segment_latency_seconds", now),
            ),
            segments: counters(&registry, "avatar_segments_total").with_label_values::<&str>(&[]),
            fallback: counters(&registry, "avatar_fallback_total"),
            deadline_missed: counters(&registry, "avatar_deadline_missed_total"),
            chats: register(&registry, chats),
            chats_rejected: counters(&registry, "avatar_chat_rejected_total"),
            chat_duration: histograms(&registry, "avatar_chat_duration_seconds", LATENCY_BUCKETS),
            harness_reloads: counters(&registry, "avatar_harness_reload_total"),
            harnesses: register(&registry, LiveHarnesses::new()),
            cache_misses: counters(&registry, "avatar_cache_miss_total"),
            stages: histograms(&registry, "avatar_stage_seconds", STAGE_BUCKETS),
            rounds: histograms(&registry, "avatar_rounds", ROUND_BUCKETS),
            hooks: counters(&registry, "avatar_hook_runs_total"),
            tools: counters(&registry, "avatar_tool_calls_total"),
            segments_blocked: counters(&registry, "avatar_segments_blocked_total"),
            registry,
        }
    }

    /// Exports an engine's counters too.
    ///
    /// # Errors
    /// When an engine is being exported already.
    pub fn watch_engine(&self, stats: Arc<EngineStats>) -> Result<(), prometheus::Error> {
        self.registry
            .register(Box::new(EngineCollector::new(stats)))
    }

    /// The Prometheus text format.
    #[must_use]
    pub fn render(&self) -> String {
        TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .expect("families made here are valid; a test renders them all")
    }

    /// Counts a turn accepted at `accepted` until the meter is ended or dropped.
    #[must_use]
    pub fn accept_turn(
        self: &Arc<Self>,
        trigger: &'static str,
        accepted: tokio::time::Instant,
    ) -> TurnMeter {
        TurnMeter {
            flight: Some(self.turns.accept()),
            metrics: Arc::clone(self),
            trigger,
            accepted,
            first_segment: None,
        }
    }

    /// Counts an accepted chat completion until the meter is ended or dropped.
    #[must_use]
    pub fn accept_chat(self: &Arc<Self>) -> ChatMeter {
        ChatMeter {
            flight: Some(self.chats.accept()),
            metrics: Arc::clone(self),
            accepted: tokio::time::Instant::now(),
        }
    }

    /// Counts a turn that was not accepted.
    pub(super) fn turn_rejected(&self, reason: &'static str) {
        self.turns_rejected.with_label_values(&[reason]).inc();
    }

    /// Counts a chat completion that was not accepted.
    pub(super) fn chat_rejected(&self, reason: &'static str) {
        self.chats_rejected.with_label_values(&[reason]).inc();
    }

    /// Counts a fallback line.
    pub(super) fn fallback(&self, reason: &'static str) {
        self.fallback.with_label_values(&[reason]).inc();
    }

    /// Counts what a change of a harness led to.
    pub(super) fn harness_reload(&self, result: &'static str) {
        self.harness_reloads.with_label_values(&[result]).inc();
    }

    /// Shows which version of a harness is live from now on.
    pub(super) fn harness_live(&self, harness: &str, version: &str) {
        self.harnesses.note(harness, version, Instant::now());
    }

    /// Counts a prompt that shares only its beginning with the one before it in its room: `first_changed` is the kind of
    /// the first section that differs, a word of a fixed set.
    pub fn cache_miss(&self, first_changed: &'static str) {
        self.cache_misses.with_label_values(&[first_changed]).inc();
    }

    /// Measures a part of a turn.
    pub fn stage(&self, stage: Stage, took: Duration) {
        let seconds = took.as_secs_f64();
        self.stages
            .with_label_values(&[stage.word()])
            .observe(seconds);
    }

    /// Counts the generations of a turn that has ended.
    pub fn turn_rounds(&self, rounds: u32) {
        let rounds = f64::from(rounds);
        self.rounds.with_label_values::<&str>(&[]).observe(rounds);
    }

    /// Counts a hook's run.
    pub(super) fn hook(&self, hook: &str, ended: &'static str) {
        self.hooks.with_label_values(&[hook, ended]).inc();
    }

    /// Counts a call of a tool.
    pub(super) fn tool(&self, tool: &str, result: &'static str) {
        self.tools.with_label_values(&[tool, result]).inc();
    }

    /// Counts a clause that a hook blocked.
    pub(super) fn segment_blocked(&self, hook: &str) {
        self.segments_blocked.with_label_values(&[hook]).inc();
    }

    /// Counts a turn that its deadline cut.
    pub(super) fn deadline_missed(&self, stage: &'static str) {
        self.deadline_missed.with_label_values(&[stage]).inc();
    }
}

/// Measures one accepted turn. Whatever happens to it, the turn is counted under exactly one outcome.
#[derive(Debug)]
pub struct TurnMeter {
    /// `None` once the outcome is counted.
    flight: Option<InFlight>,
    metrics: Arc<Metrics>,
    trigger: &'static str,
    accepted: tokio::time::Instant,
    first_segment: Option<Duration>,
}

impl TurnMeter {
    /// When the turn was accepted.
    #[must_use]
    pub fn accepted(&self) -> tokio::time::Instant {
        self.accepted
    }

    /// Acceptance to the first segment, once there was one.
    #[must_use]
    pub fn first_segment(&self) -> Option<Duration> {
        self.first_segment
    }

    /// Counts a segment that is about to be sent.
    pub fn segment(&mut self) {
        self.metrics.segments.inc();
        let elapsed = self.accepted.elapsed();
        self.first_segment.get_or_insert(elapsed);
    }

    /// Counts the outcome; only the first call counts. Returns the turn's whole duration.
    pub fn end(&mut self, outcome: Outcome) -> Duration {
        let total = self.accepted.elapsed();
        let Some(flight) = self.flight.take() else {
            return total;
        };
        flight.end(outcome);
        let metrics = &self.metrics;
        let labels = [self.trigger, outcome.word()];
        metrics
            .response_duration
            .with_label_values(&labels)
            .observe(total.as_secs_f64());
        if let Some(first) = self.first_segment {
            metrics
                .first_segment
                .with_label_values(&labels)
                .observe(first.as_secs_f64());
        }
        if outcome.is_answer() {
            let now = Instant::now();
            metrics.response_quantiles.record(total, now);
            if let Some(first) = self.first_segment {
                metrics.first_segment_quantiles.record(first, now);
            }
        }
        total
    }
}

impl Drop for TurnMeter {
    fn drop(&mut self) {
        self.end(Outcome::Failed);
    }
}

/// Measures one accepted chat completion.
#[derive(Debug)]
pub struct ChatMeter {
    /// `None` once the outcome is counted.
    flight: Option<InFlight>,
    metrics: Arc<Metrics>,
    accepted: tokio::time::Instant,
}

impl ChatMeter {
    /// Counts the outcome; only the first call counts.
    pub fn end(&mut self, outcome: Outcome) {
        let Some(flight) = self.flight.take() else {
            return;
        };
        flight.end(outcome);
        let elapsed = self.accepted.elapsed().as_secs_f64();
        self.metrics
            .chat_duration
            .with_label_values(&[outcome.word()])
            .observe(elapsed);
    }
}

impl Drop for ChatMeter {
    fn drop(&mut self) {
        self.end(Outcome::Cancelled);
    }
}

fn register<C: Collector + Clone + 'static>(registry: &Registry, collector: C) -> C {
    registry
        .register(Box::new(collector.clone()))
        .expect("the table's names are valid and distinct");
    collector
}

fn counters(registry: &Registry, name: &str) -> IntCounterVec {
    let entry = table::entry(name);
    let counters = IntCounterVec::new(Opts::new(entry.name, entry.help), entry.labels);
    register(registry, counters.expect("the table's names are valid"))
}

fn histograms(registry: &Registry, name: &str, buckets: &[f64]) -> HistogramVec {
    let entry = table::entry(name);
    let options = HistogramOpts::new(entry.name, entry.help).buckets(buckets.to_vec());
    let histograms = HistogramVec::new(options, entry.labels);
    register(
        registry,
        histograms.expect("the table's names are valid and its buckets ascend"),
    )
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
