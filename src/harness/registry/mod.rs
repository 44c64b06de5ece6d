//! Every harness that the program serves: which version of each is live, which is staged, and what went wrong last.

mod follower;
mod live;
mod slot;
mod start;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::task::JoinHandle;

pub use live::{Activate, Activation, Live, Snapshot, Warm};
pub use status::{LastError, Reload, Stage, Status};

use super::store::{Entry, PRODUCTION, StoreError};
use super::watch::{self, Timing};
use super::{Config, Mode, Problem, Version};
use crate::telemetry::Metrics;
use follower::Follower;
use slot::Slot;

/// What every slot needs.
#[derive(Clone)]
struct Shared {
    mode: Mode,
    activate: Arc<dyn Activate>,
    metrics: Arc<Metrics>,
}

/// Owns the harnesses. Its [`HarnessHandle`] is what others hold.
#[derive(Debug)]
pub struct HarnessRegistry {
    handle: HarnessHandle,
    timing: Timing,
}

/// Why the registry cannot start: everything at once.
#[derive(Debug, thiserror::Error)]
#[error("no harness can be used:\n{}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct StartError {
    /// Paths begin with the harness folder.
    pub problems: Vec<Problem>,
}

/// A request for a harness that cannot be met. Never answered with another one.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// There is no harness of this name.
    #[error("there is no harness {0:?}")]
    UnknownHarness(String),
    /// It has no such label.
    #[error("harness {harness:?} has no label {label:?}")]
    UnknownLabel {
        /// The harness.
        harness: String,
        /// What was asked for.
        label: String,
    },
    /// It keeps no such version, or cannot read it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The version is kept, and this program cannot use it.
    #[error("version {version}: {}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Unusable {
        /// The version.
        version: Version,
        /// Why.
        problems: Vec<Problem>,
    },
    /// It could not be made ready; nothing has changed.
    #[error("version {version} could not be activated: {reason}")]
    Activation {
        /// The version.
        version: Version,
        /// Why.
        reason: String,
    },
}

/// What a request named, found.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// Held from the start of a turn to its end.
    pub snapshot: Snapshot,
    /// The label that led to it; `None` for a pinned version.
    pub label: Option<String>,
}

/// Ends the following of the folders when dropped.
#[derive(Debug)]
pub struct Following(Vec<JoinHandle<()>>);

impl Drop for Following {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

impl HarnessRegistry {
    /// Reads every harness and makes one version of each live: the folder's, or the last promoted where the folder is bad,
    /// or held back, or not promoted yet.
    ///
    /// # Errors
    /// Every problem of every harness that has neither.
    pub async fn start(
        config: &Config,
        activate: Arc<dyn Activate>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, StartError> {
        let shared = Shared {
            mode: config.mode,
            activate,
            metrics,
        };
        let mut slots = BTreeMap::new();
        let mut problems = Vec::new();
        for (name, dir) in start::folders(config, &mut problems) {
            match start::open(&name, dir, config, &shared).await {
                Ok(slot) => {
                    slots.insert(name, Arc::new(slot));
                }
                Err(found) => problems.extend(found),
            }
        }
        if problems.is_empty() && !slots.contains_key(&config.default) {
            let dir = config.directory.join(&config.default).display().to_string();
            problems.push(Problem::of(dir, "the default harness does not exist"));
        }
        if !problems.is_empty() {
            return Err(StartError { problems });
        }
        let handle = HarnessHandle {
            default: Arc::from(config.default.as_str()),
            slots: Arc::new(slots),
        };
        Ok(Self {
            handle,
            timing: config.timing(),
        })
    }

    /// What others hold.
    #[must_use]
    pub fn handle(&self) -> HarnessHandle {
        self.handle.clone()
    }

    /// Follows every folder until the result is dropped.
    #[must_use]
    pub fn follow(&self) -> Following {
        let tasks = self.handle.slots.values().map(|slot| {
            let (mut follower, mut events) = Follower::new(Arc::clone(slot));
            let timing = self.timing;
            tokio::spawn(async move { watch::follow(&mut follower, &mut events, timing).await })
        });
        Following(tasks.collect())
    }
}

/// The harnesses, for reading and for operators. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HarnessHandle {
    default: Arc<str>,
    slots: Arc<BTreeMap<String, Arc<Slot>>>,
}

impl HarnessHandle {
    /// Names of the harnesses, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.slots.keys().map(String::as_str)
    }

    /// The harness of requests that name none.
    #[must_use]
    pub fn default_name(&self) -> &str {
        &self.default
    }

    fn slot(&self, name: Option<&str>) -> Result<&Arc<Slot>, ResolveError> {
        let name = name
            .filter(|name| !name.is_empty())
            .unwrap_or(&self.default);
        self.slots
            .get(name)
            .ok_or_else(|| ResolveError::UnknownHarness(name.to_owned()))
    }

    /// What is live. Costs one lock that nobody holds for long.
    ///
    /// # Errors
    /// [`ResolveError::UnknownHarness`].
    pub fn live(&self, name: Option<&str>) -> Result<Snapshot, ResolveError> {
        Ok(self.slot(name)?.live())
    }

    /// What a request names: a label, a version of 64 hex digits, or nothing for production.
    ///
    /// # Errors
    /// Whatever is unknown or cannot be used; there is no fallback.
    pub async fn resolve(
        &self,
        name: Option<&str>,
        which: Option<&str>,
    ) -> Result<Resolved, ResolveError> {
        let slot = self.slot(name)?;
        match which
            .filter(|which| !which.is_empty())
            .unwrap_or(PRODUCTION)
        {
            PRODUCTION => Ok(Resolved {
                snapshot: slot.live(),
                label: Some(PRODUCTION.to_owned()),
            }),
            which => slot.resolve(which).await,
        }
    }

    /// Live, staged and last error, each for itself.
    ///
    /// # Errors
    /// [`ResolveError::UnknownHarness`].
    pub fn status(&self, name: Option<&str>) -> Result<Status, ResolveError> {
        Ok(self.slot(name)?.status())
    }

    /// Reads the folder now and takes what it holds.
    ///
    /// # Errors
    /// [`ResolveError::UnknownHarness`]; what is wrong with the folder is in the status.
    pub async fn reload(&self, name: Option<&str>) -> Result<Reload, ResolveError> {
        Ok(self.slot(name)?.reload().await)
    }

    /// Makes a kept version live, the staged one where none is named.
    ///
    /// # Errors
    /// Then nothing has changed.
    pub async fn promote(
        &self,
        name: Option<&str>,
        version: Option<Version>,
        who: &str,
    ) -> Result<Version, ResolveError> {
        self.slot(name)?.promote(version, who).await
    }

    /// Makes an earlier version live, the one before where none is named. What the folder holds is not promoted again by
    /// itself, also not after a restart.
    ///
    /// # Errors
    /// Then nothing has changed.
    pub async fn rollback(
        &self,
        name: Option<&str>,
        version: Option<Version>,
        who: &str,
    ) -> Result<Version, ResolveError> {
        self.slot(name)?.rollback(version, who).await
    }

    /// Every change of production and labels, oldest first.
    ///
    /// # Errors
    /// [`ResolveError::UnknownHarness`], [`ResolveError::Store`].
    pub async fn history(&self, name: Option<&str>) -> Result<Vec<Entry>, ResolveError> {
        self.slot(name)?.history().await
    }
}
