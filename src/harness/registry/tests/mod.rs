//! The registry: what is live after every kind of change, failure and restart.

mod follow;
mod start;
mod swap;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tempfile::TempDir;

use super::*;
use crate::harness::{Config, Harness, Mode, testing};

/// Counts what is warm, and fails when told to.
#[derive(Clone, Default)]
struct Engine {
    warm: Arc<AtomicUsize>,
    refuses: Arc<AtomicBool>,
}

struct Kept(Arc<AtomicUsize>);

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Engine {
    fn warm(&self) -> usize {
        self.warm.load(Ordering::SeqCst)
    }

    fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::SeqCst);
    }
}

impl Activate for Engine {
    fn activate(&self, _: Arc<Harness>) -> Activation<'_> {
        Box::pin(async move {
            if self.refuses.load(Ordering::SeqCst) {
                return Err("no room".to_owned());
            }
            self.warm.fetch_add(1, Ordering::SeqCst);
            Ok(Box::new(Kept(Arc::clone(&self.warm))) as Warm)
        })
    }
}

/// A folder of harnesses, a state folder, an engine.
struct World {
    dir: TempDir,
    config: Config,
    engine: Engine,
    metrics: Arc<Metrics>,
}

impl World {
    fn new(mode: Mode) -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        testing::write(&dir.path().join("harness/live-room"), "v1");
        let config = Config {
            directory: dir.path().join("harness"),
            state: Some(dir.path().join("state")),
            mode,
            debounce_ms: 10,
            poll_ms: 100,
            ..Config::default()
        };
        Self {
            dir,
            config,
            engine: Engine::default(),
            metrics: Arc::new(Metrics::new()),
        }
    }

    fn room(&self) -> std::path::PathBuf {
        self.config.directory.join("live-room")
    }

    fn save(&self, text: &str) {
        testing::put(
            &self.room().join("prompts/persona.txt"),
            &format!("You are {text}.\n"),
        );
    }

    async fn start(&self) -> Result<HarnessRegistry, StartError> {
        HarnessRegistry::start(
            &self.config,
            Arc::new(self.engine.clone()),
            Arc::clone(&self.metrics),
        )
        .await
    }

    async fn started(&self) -> HarnessHandle {
        self.start().await.expect("starts").handle()
    }

    fn counted(&self, result: &str) -> bool {
        self.metrics.render().contains(&format!(
            "avatar_harness_reload_total{{result=\"{result}\"}}"
        ))
    }
}

/// Who speaks now.
fn persona(handle: &HarnessHandle) -> String {
    handle.live(None).expect("live").persona.trim().to_owned()
}

fn version(text: &str) -> Version {
    Version::of(&testing::source(text))
}

fn assert_inside(path: &str, dir: &Path) {
    assert!(Path::new(path).starts_with(dir), "{path}");
}
