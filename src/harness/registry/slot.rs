//! One harness: its folder, its store, and the one place where what is live changes. Every change is built whole before
//! the swap; a step that fails leaves all as it was, and says so.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Mutex;

use super::live::{Live, Snapshot};
use super::status::{Failed, LastError, Reload, Stage, State, Status};
use super::{ResolveError, Resolved, Shared};
use crate::harness::store::{Entry, PRODUCTION, Store, StoreError};
use crate::harness::watch::Reading;
use crate::harness::{Harness, Loaded, Mode, Problem, Source, Version, disk, load};
use crate::telemetry::events::{HarnessReload, ReloadResult};

/// Versions beside the live one that stay loaded.
const OTHERS: usize = 4;

pub(super) struct Slot {
    pub(super) name: String,
    pub(super) dir: PathBuf,
    pub(super) store: Arc<Store>,
    pub(super) shared: Shared,
    state: RwLock<State>,
    /// Held by whoever changes what is live or staged.
    changing: Mutex<()>,
    /// What the folder held when it was taken last; `None` asks for another try.
    taken: RwLock<Option<Reading>>,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("name", &self.name)
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

impl Slot {
    pub(super) fn new(
        name: String,
        dir: PathBuf,
        store: Arc<Store>,
        shared: Shared,
        state: State,
        taken: Reading,
    ) -> Self {
        let (state, taken) = (RwLock::new(state), RwLock::new(Some(taken)));
        Self {
            name,
            dir,
            store,
            shared,
            state,
            changing: Mutex::new(()),
            taken,
        }
    }

    fn state(&self) -> std::sync::RwLockReadGuard<'_, State> {
        // Every write leaves a whole state behind, so a panic elsewhere changes nothing about it.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> std::sync::RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn live(&self) -> Snapshot {
        Arc::clone(&self.state().active)
    }

    pub(super) fn status(&self) -> Status {
        let state = self.state();
        Status {
            active: Arc::clone(&state.active),
            warnings: state.warnings.clone(),
            staged: state.staged.as_ref().map(|loaded| loaded.harness.version),
            last_error: state.last_error.clone(),
        }
    }

    fn remember(&self, reading: Option<Reading>) {
        *self.taken.write().unwrap_or_else(PoisonError::into_inner) = reading;
    }

    /// Whether the folder held this when it was taken last.
    pub(super) fn has_taken(&self, reading: &Reading) -> bool {
        let taken = self.taken.read().unwrap_or_else(PoisonError::into_inner);
        taken.as_ref() == Some(reading)
    }

    /// The version that the folder held last, where it could be read.
    fn folder(&self) -> Option<Version> {
        let taken = self.taken.read().unwrap_or_else(PoisonError::into_inner);
        taken
            .as_ref()
            .and_then(|reading| reading.as_ref().ok())
            .map(Version::of)
    }

    /// Runs what blocks on the disk.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> T + Send + 'static,
    ) -> T {
        let store = Arc::clone(&self.store);
        match tokio::task::spawn_blocking(move || work(&store)).await {
            Ok(result) => result,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => std::future::pending().await,
        }
    }

    pub(super) async fn read(&self) -> Reading {
        let dir = self.dir.clone();
        self.blocking(move |_| disk::read(&dir)).await
    }

    pub(super) async fn reload(&self) -> Reload {
        let reading = self.read().await;
        self.take(reading).await
    }

    /// Takes what the folder holds.
    pub(super) async fn take(&self, reading: Reading) -> Reload {
        let _changing = self.changing.lock().await;
        let result = self.consider(&reading).await;
        match result {
            Ok(reload) => {
                self.remember(Some(reading));
                reload
            }
            Err(failed) => {
                // What is wrong with the files stays wrong; what was wrong with the machine may have passed.
                let again = failed.stage != Stage::Load;
                let version = reading.as_ref().ok().map(Version::of);
                self.remember((!again).then_some(reading));
                self.fail(failed, version, "watch").await;
                Reload::Rejected
            }
        }
    }

    async fn consider(&self, reading: &Reading) -> Result<Reload, Failed> {
        let source = reading
            .as_ref()
            .map_err(|problems| Failed::load(problems.clone()))?
            .clone();
        let version = Version::of(&source);
        if self.state().active.version == version {
            let mut state = self.change();
            state.staged = None;
            state.last_error = None;
            return Ok(Reload::Unchanged);
        }
        let loaded = Arc::new(self.load(source.clone()).await.map_err(Failed::load)?);
        let kept = self.blocking(move |store| {
            let version = store.put(&source)?;
            store.note_latest(version)?;
            store.held()
        });
        let held = kept
            .await
            .map_err(|error| Failed::store(&self.store, &error))?;
        if self.shared.mode == Mode::Manual || held == Some(version) {
            let mut state = self.change();
            state.staged = Some(loaded);
            state.last_error = None;
            drop(state);
            self.emit(ReloadResult::Staged, version, None);
            return Ok(Reload::Staged(version));
        }
        self.go_live(loaded, move |store| store.promote(version, "watch"))
            .await?;
        Ok(Reload::Activated(version))
    }

    async fn load(&self, source: Source) -> Result<Loaded, Vec<Problem>> {
        let name = self.name.clone();
        self.blocking(move |_| load(&name, &source)).await
    }

    /// Warm first, then kept, then live: each step can still fail without a trace, the last cannot fail.
    async fn go_live(
        &self,
        loaded: Arc<Loaded>,
        keep: impl FnOnce(&Store) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), Failed> {
        let version = loaded.harness.version;
        let harness = Arc::new(loaded.harness.clone());
        let warm = self.shared.activate.activate(Arc::clone(&harness)).await;
        let warm = warm.map_err(|reason| Failed::activate(&self.name, &reason))?;
        self.blocking(keep)
            .await
            .map_err(|error| Failed::store(&self.store, &error))?;
        let live = Arc::new(Live::new(harness, Some(warm)));
        let mut state = self.change();
        let before = std::mem::replace(&mut state.active, live);
        state.warnings.clone_from(&loaded.warnings);
        state.staged = None;
        state.last_error = None;
        state.others.retain(|other| other.version != version);
        drop(state);
        // Frees what was kept warm, unless turns still hold it; not under the lock.
        drop(before);
        self.emit(ReloadResult::Activated, version, None);
        Ok(())
    }

    fn emit(&self, result: ReloadResult, version: Version, problems: Option<&[Problem]>) {
        let reasons: Vec<String> = problems
            .unwrap_or_default()
            .iter()
            .map(ToString::to_string)
            .collect();
        HarnessReload {
            harness: &self.name,
            version: Some(&version.short()),
            result,
            reasons: &reasons,
        }
        .emit(&self.shared.metrics);
    }

    /// Notes a failure where operators look for it; the same one again is not told again.
    async fn fail(&self, failed: Failed, version: Option<Version>, who: &str) {
        let Failed {
            stage, problems, ..
        } = failed;
        let error = LastError {
            stage,
            version,
            problems,
        };
        let before = self.change().last_error.replace(error.clone());
        if before.as_ref() == Some(&error) {
            return;
        }
        let reasons: Vec<String> = error.problems.iter().map(ToString::to_string).collect();
        let short = version.map(|version| version.short());
        HarnessReload {
            harness: &self.name,
            version: short.as_deref(),
            result: ReloadResult::Rejected,
            reasons: &reasons,
        }
        .emit(&self.shared.metrics);
        let (who, reason) = (who.to_owned(), reasons.join("; "));
        if let Err(error) = self
            .blocking(move |store| store.log_failure(&who, version, &reason))
            .await
        {
            tracing::warn!(harness = self.name, %error, "the audit log cannot be written");
        }
    }

    /// A kept version, loaded.
    async fn kept(&self, version: Version) -> Result<Loaded, ResolveError> {
        let staged = self.state().staged.clone();
        if let Some(loaded) = staged.filter(|loaded| loaded.harness.version == version) {
            return Ok(Loaded::clone(&loaded));
        }
        let name = self.name.clone();
        self.blocking(move |store| {
            let source = store.get(version)?;
            load(&name, &source).map_err(|problems| ResolveError::Unusable { version, problems })
        })
        .await
    }

    pub(super) async fn resolve(&self, which: &str) -> Result<Resolved, ResolveError> {
        let (version, label) = match which.parse::<Version>() {
            Ok(version) => (version, None),
            Err(_) => {
                let label = which.to_owned();
                let version = self.blocking(move |store| store.label(&label)).await?;
                let unknown = || ResolveError::UnknownLabel {
                    harness: self.name.clone(),
                    label: which.to_owned(),
                };
                (version.ok_or_else(unknown)?, Some(which.to_owned()))
            }
        };
        let loaded = {
            let state = self.state();
            let mut all = std::iter::once(&state.active).chain(&state.others);
            all.find(|live| live.version == version).cloned()
        };
        if let Some(snapshot) = loaded {
            return Ok(Resolved { snapshot, label });
        }
        // Only production is kept warm ahead of use.
        let snapshot = Arc::new(Live::new(Arc::new(self.kept(version).await?.harness), None));
        let mut state = self.change();
        state.others.push_front(Arc::clone(&snapshot));
        let kept = OTHERS.min(state.others.len());
        let dropped = state.others.split_off(kept);
        drop(state);
        drop(dropped);
        Ok(Resolved { snapshot, label })
    }

    pub(super) async fn promote(
        &self,
        version: Option<Version>,
        who: &str,
    ) -> Result<Version, ResolveError> {
        let _changing = self.changing.lock().await;
        let staged = self
            .state()
            .staged
            .as_ref()
            .map(|loaded| loaded.harness.version);
        let version = version.or(staged).unwrap_or_else(|| self.live().version);
        let name = who.to_owned();
        self.switch(version, who, move |store| store.promote(version, &name))
            .await
    }

    pub(super) async fn rollback(
        &self,
        to: Option<Version>,
        who: &str,
    ) -> Result<Version, ResolveError> {
        let _changing = self.changing.lock().await;
        let folder = self.folder();
        let to = match to {
            Some(version) => version,
            None => self
                .blocking(Store::earlier)
                .await?
                .ok_or(StoreError::NoEarlier)?,
        };
        let name = who.to_owned();
        let before = self.live();
        self.switch(to, who, move |store| {
            store.rollback(Some(to), folder, &name).map(|_| ())
        })
        .await?;
        if folder == Some(before.version) && before.version != to {
            // What was turned away from waits, like any change that is not live.
            let loaded = Loaded {
                harness: Harness::clone(&before),
                warnings: Vec::new(),
                notes: Vec::new(),
            };
            self.change().staged = Some(Arc::new(loaded));
        }
        Ok(to)
    }

    async fn switch(
        &self,
        version: Version,
        who: &str,
        keep: impl FnOnce(&Store) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<Version, ResolveError> {
        if self.live().version == version {
            self.blocking(keep).await?;
            return Ok(version);
        }
        let loaded = Arc::new(self.kept(version).await?);
        match self.go_live(loaded, keep).await {
            Ok(()) => Ok(version),
            Err(failed) => {
                let reasons: Vec<_> = failed
                    .problems
                    .iter()
                    .map(|problem| problem.reason.as_str())
                    .collect();
                let error = ResolveError::Activation {
                    version,
                    reason: reasons.join("; "),
                };
                self.fail(failed, Some(version), who).await;
                Err(error)
            }
        }
    }

    /// Follows what another process has promoted or rolled back in the store.
    pub(super) async fn catch_up(&self) {
        let _changing = self.changing.lock().await;
        let production = self.blocking(|store| store.label(PRODUCTION)).await;
        let version = match production {
            Ok(Some(version)) if version != self.live().version => version,
            _ => return,
        };
        let result = match self.kept(version).await {
            Ok(loaded) => self.go_live(Arc::new(loaded), |_| Ok(())).await,
            Err(error) => Err(Failed {
                stage: Stage::Store,
                problems: vec![Problem::of(".", error.to_string())],
            }),
        };
        if let Err(failed) = result {
            self.fail(failed, Some(version), "store").await;
        }
    }

    pub(super) async fn history(&self) -> Result<Vec<Entry>, ResolveError> {
        Ok(self.blocking(Store::history).await?)
    }
}
