//! Reloading and checking harnesses of many skills, without a server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use compere::activate;
use compere::harness::{self, Calls, Harness, HarnessRegistry, Warm};
use compere::telemetry::Metrics;
use compere::template::ChatTemplate;

use super::{content, p95};
use crate::Failure;
use crate::figure::median;

/// Skills of the harness that is reloaded; ten of them are in every prompt.
const SKILLS: usize = 100;
const INLINE: usize = 10;
/// Edits of it.
const EDITS: usize = 60;
/// Skills of the harness that is checked, and how often.
const MANY: usize = 1000;
const CHECKS: usize = 5;

/// P95 from an edit to a live harness in ms, without waiting for the folder to hold still and without prefill; and the
/// seconds that checking a large harness takes.
pub(super) fn reload_and_lint(model: &Path) -> Result<(f64, f64), Failure> {
    let folder = Folder::new("offline");
    content::write(&folder.0.join("many"), MANY, 0)?;
    let seconds: Result<Vec<f64>, Failure> = (0..CHECKS)
        .map(|_| check(&folder.0.join("many/live-room")))
        .collect();
    let lint = median(seconds?);

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let reload = runtime.block_on(reloads(&folder, model))?;
    Ok((reload, lint))
}

fn check(dir: &Path) -> Result<f64, Failure> {
    let start = Instant::now();
    let source = harness::read(dir).map_err(|problems| format!("{problems:?}"))?;
    harness::load("live-room", &source).map_err(|problems| format!("{problems:?}"))?;
    Ok(start.elapsed().as_secs_f64())
}

async fn reloads(folder: &Folder, model: &Path) -> Result<f64, Failure> {
    let directory = folder.0.join("harness");
    content::write(&directory, SKILLS, INLINE)?;
    let config = harness::Config {
        directory: directory.clone(),
        state: Some(folder.0.join("state")),
        ..harness::Config::default()
    };
    let template = template(model)?;
    // All that a server does but the prefill.
    let tokenise = move |harness: Arc<Harness>| {
        let template = Arc::clone(&template);
        async move {
            let prefix = activate::prefix(&template, &harness, Calls::Taught);
            let prefix = prefix.map_err(|error| error.to_string())?;
            Ok(Box::new(prefix) as Warm)
        }
    };
    let metrics = Arc::new(Metrics::new());
    let registry = HarnessRegistry::start(&config, Arc::new(tokenise), metrics).await?;
    let handle = registry.handle();
    let mut took = Vec::new();
    for round in 1..=EDITS {
        content::edit(&directory, round % SKILLS, round % SKILLS < INLINE, round)?;
        let before = handle.live(None)?.version;
        let start = Instant::now();
        handle.reload(None).await?;
        took.push(start.elapsed().as_secs_f64() * 1e3);
        if handle.live(None)?.version == before {
            return Err(format!("the edit did not go live: {:?}", handle.status(None)?).into());
        }
    }
    Ok(p95(&took))
}

/// The model's chat template with its tokenizer.
pub(super) fn template(model: &Path) -> Result<Arc<ChatTemplate>, Failure> {
    let loaded = compere::model::load(model, &crate::ours::options(1))?;
    let tokenizer = Arc::new(compere::tokenizer::Tokenizer::new(loaded.tokenizer)?);
    let source = loaded
        .chat_template
        .ok_or("the model has no chat template")?;
    Ok(Arc::new(ChatTemplate::new(&source, tokenizer)?))
}

/// A folder that goes with this.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Self {
        let name = format!("compere-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is the system's to clean.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
