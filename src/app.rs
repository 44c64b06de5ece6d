//! The composition root: builds every part from the configuration and owns what runs in the background.

mod live;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

use crate::config::{self, Config};
use crate::engine::paged::{PagedEngine, StartError};
use crate::harness::registry::{HarnessRegistry, StartError as HarnessError};
use crate::http::{Backend, Door, Operations, Server, ServerError};
use crate::model::fetch::{self, FetchError};
use crate::model::spec::{self, Located, Manifest, ManifestError};
use crate::model::{self, LoadOptions, LoadedModel, ModelError};
use crate::shutdown::{Phase, Shutdown};
use crate::telemetry::logging::LogLevel;
use crate::telemetry::{EngineStats, Metrics};
use crate::template::{ChatTemplate, TemplateError};
use crate::tokenizer::{Tokenizer, TokenizerError};
use crate::tools::{SetupError, Tools};
use crate::turn::{self, ServedModel, Turns};

/// Why the program does not start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The model's name means nothing.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The model cannot be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The model's file cannot be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Its vocabulary cannot be used.
    #[error("{path}: {source}")]
    Tokenizer {
        /// The model file.
        path: PathBuf,
        /// Why.
        source: TokenizerError,
    },
    /// Its chat template cannot be used.
    #[error("{path}: {source}")]
    Template {
        /// The model file or manifest.
        path: PathBuf,
        /// Why.
        source: TemplateError,
    },
    /// There is no chat template.
    #[error("{0}: no chat template, neither in tokenizer.chat_template nor in a manifest")]
    NoTemplate(PathBuf),
    /// The persona cannot be read.
    #[error("harness.persona: {path}: {source}")]
    Persona {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The persona is none.
    #[error("harness.persona: {0}")]
    BadPersona(String),
    /// There is no harness to serve.
    #[error(transparent)]
    Harness(#[from] HarnessError),
    /// The settings of tools cannot be used.
    #[error(transparent)]
    Tools(#[from] SetupError),
    /// The engine cannot start.
    #[error(transparent)]
    Engine(#[from] StartError),
    /// The settings of turns cannot be used.
    #[error("turn.{0}")]
    Turn(#[from] turn::ConfigError),
    /// The settings of harnesses cannot be used.
    #[error("harness.{0}")]
    HarnessConfig(#[from] crate::harness::config::ConfigError),
    /// The listener cannot start.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The model failed on its first prompt.
    #[error("the model failed to warm up: {0}")]
    WarmUp(String),
}

/// What a server that has become ready tells.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Where it listens.
    pub address: SocketAddr,
    /// Where it listens for operators.
    pub admin: Option<SocketAddr>,
    /// The model that answers.
    pub model: String,
    /// From opening the model file to weights ready.
    pub load_seconds: f64,
    /// From the start to ready, warm-up included.
    pub ready_seconds: f64,
}

/// A model with its engine running.
pub struct Speaker {
    /// What turns and chats speak with.
    pub model: ServedModel,
    /// The engine, to be shut down.
    pub engine: Arc<PagedEngine>,
    /// From opening the file to weights ready.
    pub load_seconds: f64,
}

/// Puts the configured model into the cache, checked; a model given by its path is only located.
///
/// # Errors
/// An unknown id, or a fetch that failed.
pub fn fetch_model(config: &model::Config) -> Result<PathBuf, AppError> {
    locate(config).map(|(path, _)| path)
}

/// Loads the configured model, fetching it where it is missing, and starts its engine.
///
/// # Errors
/// Names the file and field, or the setting, at fault.
pub fn speaker(config: &Config, stats: Arc<EngineStats>) -> Result<Speaker, AppError> {
    let (path, manifest) = locate(&config.model)?;
    let options = LoadOptions {
        threads: config.model.threads,
        kv_bytes: config.model.kv_cache_mb << 20,
        max_context: config.model.max_context,
        quantise: (config.model.quantise)
            .or_else(|| manifest.as_ref().and_then(|manifest| manifest.quantise)),
    };
    let start = Instant::now();
    let LoadedModel {
        runner,
        tokenizer,
        chat_template,
        name,
        ..
    } = model::load(&path, &options)?;
    let load_seconds = start.elapsed().as_secs_f64();
    let tokenizer = Tokenizer::new(tokenizer).map_err(|source| AppError::Tokenizer {
        path: path.clone(),
        source,
    })?;
    let tokenizer = Arc::new(tokenizer);
    let override_template = manifest
        .as_ref()
        .and_then(|manifest| manifest.chat_template.clone());
    let source = override_template
        .or(chat_template)
        .ok_or_else(|| AppError::NoTemplate(path.clone()))?;
    let template = ChatTemplate::new(&source, Arc::clone(&tokenizer)).map_err(|source| {
        AppError::Template {
            path: path.clone(),
            source,
        }
    })?;
    let engine = PagedEngine::start(Box::new(runner), tokenizer, stats, &config.engine)?;
    let engine = Arc::new(engine);
    let model = ServedModel {
        id: manifest.map_or(name, |manifest| manifest.id),
        created: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs()),
        engine: Arc::clone(&engine) as _,
        template: Arc::new(template),
    };
    Ok(Speaker {
        model,
        engine,
        load_seconds,
    })
}

/// Serves until `shutdown` has run its course. Health checks are answered while the model loads. `log_level` is what
/// operators change the log with.
///
/// # Errors
/// What cannot be started is named; nothing keeps running.
pub async fn serve(
    config: Config,
    shutdown: Shutdown,
    log_level: Option<LogLevel>,
    ready: oneshot::Sender<Ready>,
) -> Result<(), AppError> {
    let start = Instant::now();
    config.turn.validate()?;
    config.harness.validate()?;
    let tools = Tools::new(&config.tools, config::secrets(&config.tools.secrets))?;
    let metrics = Arc::new(Metrics::new());
    let server = Server::bind(
        config.http.clone(),
        config.turn.clone(),
        shutdown.clone(),
        Arc::clone(&metrics),
    )
    .await?;
    let door = server.door();
    let operators = door.admin(&config.admin).await?;
    let (address, admin) = (server.address(), operators.as_ref().map(Server::address));
    let serving = tokio::spawn(server.run());
    let operating = operators.map(|operators| tokio::spawn(operators.run()));

    let Started {
        speaker,
        turns,
        registry,
    } = match start_all(&config, tools, metrics).await {
        Ok(started) => started,
        Err(error) => {
            shutdown.advance(Phase::Stopped);
            return Err(error);
        }
    };
    let following = registry.as_ref().map(HarnessRegistry::follow);
    let (model, load_seconds) = (speaker.model.id.clone(), speaker.load_seconds);
    open(&door, &speaker, turns, registry.as_ref(), log_level);
    tracing::info!(%address, admin = admin.map(tracing::field::display), model, load_seconds, "ready");
    let ready_seconds = start.elapsed().as_secs_f64();
    // Nobody listens where nobody wants to know.
    let _ = ready.send(Ready {
        address,
        admin,
        model,
        load_seconds,
        ready_seconds,
    });

    if let Err(error) = serving.await {
        tracing::error!(%error, "the server ended early");
        shutdown.advance(Phase::Stopped);
    }
    drop(following);
    if let Some(operating) = operating {
        // It has ended by now, but for answers on their way.
        let _ = operating.await;
    }
    let engine = speaker.engine;
    // Joins a thread that finishes its step first.
    let _ = tokio::task::spawn_blocking(move || engine.shutdown()).await;
    Ok(())
}

/// Everything that answers.
struct Started {
    speaker: Speaker,
    turns: Turns,
    registry: Option<HarnessRegistry>,
}

/// Loads the model, then the harnesses, each warm before anybody is let in.
async fn start_all(
    config: &Config,
    tools: Tools,
    metrics: Arc<Metrics>,
) -> Result<Started, AppError> {
    let stats = Arc::new(EngineStats::default());
    let loading = tokio::task::spawn_blocking({
        let (config, stats) = (config.clone(), Arc::clone(&stats));
        move || speaker(&config, stats)
    });
    let speaker = loading
        .await
        .map_err(|error| AppError::WarmUp(error.to_string()))??;
    let (harnesses, registry) =
        live::start(config, &speaker.model, &tools, Arc::clone(&metrics)).await?;
    let turns = Turns::new(
        speaker.model.clone(),
        harnesses,
        tools,
        config.turn.clone(),
        Arc::clone(&metrics),
    );
    metrics
        .watch_engine(stats)
        .map_err(|error| AppError::WarmUp(error.to_string()))?;
    Ok(Started {
        speaker,
        turns,
        registry,
    })
}

/// Lets viewers and operators in.
fn open(
    door: &Door,
    speaker: &Speaker,
    turns: Turns,
    registry: Option<&HarnessRegistry>,
    log_level: Option<LogLevel>,
) {
    door.manage(Operations {
        harnesses: registry.map(HarnessRegistry::handle),
        log_level,
    });
    door.open(Backend {
        model: speaker.model.clone(),
        turns,
    });
}

/// Where the model's file is, and its manifest where it has one.
fn locate(config: &model::Config) -> Result<(PathBuf, Option<Manifest>), AppError> {
    match spec::resolve(&config.manifests, &config.model)? {
        Located::File(path) => Ok((path, None)),
        Located::Known(manifest) => {
            let cache = fetch::Config::new(config.cache_dir.clone().unwrap_or_default());
            let mut report = |progress: fetch::Progress<'_>| report(&manifest.id, &progress);
            Ok((
                fetch::fetch(&manifest, &cache, &mut report)?,
                Some(*manifest),
            ))
        }
    }
}

/// One line on standard error for what takes time; growing files are left to patience.
fn report(model: &str, progress: &fetch::Progress<'_>) {
    match progress {
        fetch::Progress::Waiting { file } => {
            tracing::info!(model, file = %file.display(), "another process fetches it")
        }
        fetch::Progress::Checking { file } => {
            tracing::info!(model, file = %file.display(), "checking")
        }
        fetch::Progress::Replacing { reason } => {
            tracing::warn!(model, %reason, "fetching it again")
        }
        fetch::Progress::Fetching { from } => tracing::info!(model, from, "fetching"),
        fetch::Progress::Bytes { .. } => {}
    }
}
