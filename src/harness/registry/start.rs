//! Which version of a harness is live when the program starts.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::live::Live;
use super::slot::Slot;
use super::status::{LastError, Stage, State};
use super::{Config, Mode, Problem, Shared};
use crate::harness::store::{PRODUCTION, Store, StoreError};
use crate::harness::watch::Reading;
use crate::harness::{Loaded, Version, disk, load};
use crate::telemetry::events::HarnessStarted;

/// Name and folder of every harness there is, in the folder or in the store.
pub(super) fn folders(config: &Config, problems: &mut Vec<Problem>) -> Vec<(String, PathBuf)> {
    let mut names = Vec::new();
    match fs::read_dir(&config.directory) {
        Ok(entries) => {
            let dirs = entries.flatten().filter(|entry| entry.path().is_dir());
            names.extend(
                dirs.filter_map(|entry| entry.file_name().into_string().ok())
                    .filter(|name| !disk::is_ignored(name)),
            );
        }
        // What was promoted may be served all the same.
        Err(error) if state(config, &config.default).is_dir() => {
            tracing::warn!(directory = %config.directory.display(), %error, "the harness folder cannot be listed");
        }
        Err(error) => problems.push(Problem::of(
            config.directory.display().to_string(),
            error.to_string(),
        )),
    }
    if !names.contains(&config.default) && state(config, &config.default).is_dir() {
        names.push(config.default.clone());
    }
    names.sort();
    names
        .into_iter()
        .map(|name| (name.clone(), config.directory.join(name)))
        .collect()
}

/// Where a harness's states are kept.
fn state(config: &Config, name: &str) -> PathBuf {
    config
        .state
        .clone()
        .unwrap_or_else(|| config.directory.join(".state"))
        .join(name)
}

/// What is live first, and what else there is to tell.
struct First {
    live: Loaded,
    staged: Option<Loaded>,
    error: Option<LastError>,
}

/// Opens one harness and makes a version of it live.
pub(super) async fn open(
    name: &str,
    dir: PathBuf,
    config: &Config,
    shared: &Shared,
) -> Result<Slot, Vec<Problem>> {
    let work = {
        let (name, dir, state, mode) = (
            name.to_owned(),
            dir.clone(),
            state(config, name),
            shared.mode,
        );
        move || -> Result<(Store, Reading, First), Vec<Problem>> {
            let store = Store::open(&state).map_err(|error| vec![in_store(&state, &error)])?;
            let reading = disk::read(&dir);
            let first =
                choose(&name, &store, &reading, mode).map_err(|problems| below(&dir, problems))?;
            Ok((store, reading, first))
        }
    };
    let (store, reading, first) = match tokio::task::spawn_blocking(work).await {
        Ok(result) => result?,
        Err(error) => return Err(vec![Problem::of(name, error.to_string())]),
    };
    let First {
        live,
        staged,
        error,
    } = first;
    let harness = Arc::new(live.harness);
    let warm = shared.activate.activate(Arc::clone(&harness)).await;
    let warm = warm.map_err(|reason| {
        below(
            &dir,
            vec![Problem::of(
                ".",
                format!("could not be activated: {reason}"),
            )],
        )
    })?;
    let version = harness.version;
    if error.is_none() && staged.is_none() {
        let done = store
            .put(&harness.source)
            .and_then(|_| store.note_latest(version))
            .and_then(|()| store.promote(version, "start"));
        done.map_err(|error| vec![in_store(store.dir(), &error)])?;
    }
    HarnessStarted {
        harness: name,
        version: &version.short(),
    }
    .emit(&shared.metrics);
    if frozen(&dir) {
        tracing::warn!(
            harness = name,
            "the folder is mounted by subPath, so changes will never be seen"
        );
    }
    let mut state = State::new(Arc::new(Live::new(harness, Some(warm))), live.warnings);
    state.staged = staged.map(Arc::new);
    state.last_error = error;
    Ok(Slot::new(
        name.to_owned(),
        dir,
        Arc::new(store),
        shared.clone(),
        state,
        reading,
    ))
}

/// The folder's state, unless it is bad, held back, or waits for somebody: then the last promoted one.
fn choose(name: &str, store: &Store, reading: &Reading, mode: Mode) -> Result<First, Vec<Problem>> {
    let loaded = reading.clone().and_then(|source| load(name, &source));
    let production = match store.label(PRODUCTION) {
        Ok(production) => production,
        Err(error) => return Err(vec![in_store(store.dir(), &error)]),
    };
    match (loaded, production) {
        (Err(problems), None) => Err(problems),
        (Ok(live), None) => Ok(First {
            live,
            staged: None,
            error: None,
        }),
        (Err(mut problems), Some(version)) => match promoted(name, store, version) {
            Ok(live) => {
                let version = reading.as_ref().ok().map(Version::of);
                let error = Some(LastError {
                    stage: Stage::Load,
                    version,
                    problems,
                });
                Ok(First {
                    live,
                    staged: None,
                    error,
                })
            }
            Err(more) => {
                problems.extend(more);
                Err(problems)
            }
        },
        (Ok(live), Some(version)) if live.harness.version == version => Ok(First {
            live,
            staged: None,
            error: None,
        }),
        (Ok(folder), Some(version)) => {
            let held = store
                .held()
                .map_err(|error| vec![in_store(store.dir(), &error)])?;
            if mode == Mode::Auto && held != Some(folder.harness.version) {
                return Ok(First {
                    live: folder,
                    staged: None,
                    error: None,
                });
            }
            let live = promoted(name, store, version)?;
            let kept = store
                .put(&folder.harness.source)
                .and_then(|version| store.note_latest(version));
            kept.map_err(|error| vec![in_store(store.dir(), &error)])?;
            Ok(First {
                live,
                staged: Some(folder),
                error: None,
            })
        }
    }
}

fn promoted(name: &str, store: &Store, version: Version) -> Result<Loaded, Vec<Problem>> {
    let source = store
        .get(version)
        .map_err(|error| vec![in_store(store.dir(), &error)])?;
    load(name, &source)
}

fn in_store(dir: &Path, error: &StoreError) -> Problem {
    Problem::of(dir.display().to_string(), error.to_string())
}

/// Problems of several harnesses are told together, so each says where it is.
fn below(dir: &Path, problems: Vec<Problem>) -> Vec<Problem> {
    problems
        .into_iter()
        .map(|problem| Problem {
            path: dir.join(&problem.path).display().to_string(),
            ..problem
        })
        .collect()
}

fn frozen(dir: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    disk::is_frozen(&table, &dir)
}
