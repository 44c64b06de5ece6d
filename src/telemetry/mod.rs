//! Metrics, rolling quantiles and logs. Knows nothing of ours, so that everything may use it.

pub mod engine;
pub mod events;
mod export;
mod harness;
mod ledger;
pub mod logging;
mod metrics;
mod quantiles;
pub mod stages;
mod table;

pub use engine::EngineStats;
pub use ledger::Outcome;
pub use logging::Config;
pub use metrics::{ChatMeter, Metrics, TurnMeter};
pub use table::metrics_doc;

/// Bucket edges of what a turn does beside the model, in seconds.
pub(crate) const STAGE_BUCKETS: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
];

/// Bucket edges of the generations of one turn.
pub(crate) const ROUND_BUCKETS: &[f64] = &[0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0];

/// Bucket edges of latencies that viewers feel, in seconds; 3.4 and 8.1 are the reference system's P50 and P95.
pub const LATENCY_BUCKETS: &[f64] = &[
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 3.4, 3.8, 4.2, 4.6,
    5.0, 5.5, 6.0, 7.0, 8.1, 9.0, 10.0, 12.0, 15.0, 20.0, 30.0, 60.0,
];
