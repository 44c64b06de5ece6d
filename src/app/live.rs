//! The harnesses of the program: read, checked against what it has, made ready for its model, followed.

use std::sync::Arc;

use super::AppError;
use crate::activate::{Activator, Demands};
use crate::config::Config;
use crate::harness::{Calls, Harness, HarnessRegistry};
use crate::telemetry::Metrics;
use crate::tools::Tools;
use crate::turn::ServedModel;

/// Starts the registry over the configured folders. Every harness is live and warm when this ends.
///
/// # Errors
/// Everything that is wrong with every harness that has neither a good folder nor a good kept state.
pub(super) async fn start(
    config: &Config,
    model: &ServedModel,
    calls: Calls,
    tools: &Tools,
    metrics: Arc<Metrics>,
) -> Result<HarnessRegistry, AppError> {
    let activator = Activator::new(
        Arc::clone(&model.engine),
        Arc::clone(&model.template),
        calls,
        demands(tools.clone()),
    );
    let started = HarnessRegistry::start(&config.harness, Arc::new(activator), metrics).await;
    Ok(started?)
}

/// Hosts, secrets and servers that a harness's tools need and the configuration does not give.
fn demands(tools: Tools) -> Demands {
    Box::new(move |harness: &Harness| {
        let missing = harness.tools.iter().filter_map(|(name, tool)| {
            let reason = tools.missing(tool)?;
            Some(format!("tool {name}: {reason}"))
        });
        missing.collect()
    })
}
