//! Which version of each harness is live, and since when, as Prometheus families.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;

use super::export::{descs, family, gauge};

const NAMES: [&str; 2] = ["avatar_harness_info", "avatar_harness_age_seconds"];

/// One version a harness, so that cardinality stays what the operators' folders are.
#[derive(Clone)]
pub(super) struct LiveHarnesses {
    descs: Vec<Desc>,
    live: Arc<Mutex<BTreeMap<String, (String, Instant)>>>,
}

impl LiveHarnesses {
    /// None yet.
    pub(super) fn new() -> Self {
        Self {
            descs: descs(&NAMES),
            live: Arc::default(),
        }
    }

    /// From `now` on, this version of the harness is live.
    pub(super) fn note(&self, harness: &str, version: &str, now: Instant) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.insert(harness.to_owned(), (version.to_owned(), now));
    }
}

impl Collector for LiveHarnesses {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let info = live.iter().map(|(harness, (version, _))| {
            gauge(&[("harness", harness), ("version", version)], 1.0)
        });
        let age = live.iter().map(|(harness, (_, since))| {
            gauge(&[("harness", harness)], since.elapsed().as_secs_f64())
        });
        vec![
            family(NAMES[0], info.collect()),
            family(NAMES[1], age.collect()),
        ]
    }
}
