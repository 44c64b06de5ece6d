//! `compere serve`: answers viewers until it is stopped.

use tokio::sync::oneshot;

use super::{Failure, sample};
use crate::app;
use crate::cli::ServeArgs;
use crate::config;
use crate::shutdown::Shutdown;
use crate::telemetry;
use crate::telemetry::logging::LogLevel;

/// The service mostly waits; the engine and its compute threads are what needs the cores.
const WORKERS: usize = 2;

pub(super) fn run(args: &ServeArgs) -> Result<(), Failure> {
    let mut config = config::load(&args.config)?;
    if let Some(listen) = &args.listen {
        config.http.listen = listen
            .parse()
            .map_err(|_| format!("--listen {listen}: not an address such as 127.0.0.1:8080"))?;
    }
    let log_level = telemetry::logging::init(&config.telemetry)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()?;
    runtime.block_on(serve(config, log_level, args.sample.clone()))
}

async fn serve(
    config: config::Config,
    log_level: LogLevel,
    comment: Option<String>,
) -> Result<(), Failure> {
    let shutdown = Shutdown::new();
    tokio::spawn(shutdown.clone().watch_signals());
    let (ready, became_ready) = oneshot::channel();
    let show = tokio::spawn(async move {
        // The sender is dropped when starting fails, which is reported by who failed.
        if let Ok(ready) = became_ready.await {
            greet(&ready);
            if let Some(comment) = comment {
                sample::show(&ready, &comment).await;
            }
        }
    });
    let result = app::serve(config, shutdown, Some(log_level), ready).await;
    show.abort();
    Ok(result?)
}

fn greet(ready: &app::Ready) {
    println!(
        "compere answers with {} on http://{} ({:.2} s to weights ready, {:.2} s to ready)",
        ready.model, ready.address, ready.load_seconds, ready.ready_seconds
    );
    if let Some(admin) = ready.admin {
        println!("operators reach it on http://{admin}/admin/harness");
    }
}
