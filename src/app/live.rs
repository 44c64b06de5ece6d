//! The harnesses of the program: read, checked against what it has, made ready for its model.

use std::fs;
use std::sync::Arc;

use super::AppError;
use crate::activate::{Activator, Demands};
use crate::config::Config;
use crate::harness::{Activate, Harness, HarnessRegistry, Live};
use crate::telemetry::Metrics;
use crate::tools::Tools;
use crate::turn::{self, Harnesses, ServedModel};

/// The configured harnesses, each live and warm when this ends. With a persona of one's own it is the shipped live room
/// with that persona, and nothing is followed.
///
/// # Errors
/// Everything that is wrong with every harness that has neither a good folder nor a good kept state.
pub(super) async fn start(
    config: &Config,
    model: &ServedModel,
    tools: &Tools,
    metrics: Arc<Metrics>,
) -> Result<(Harnesses, Option<HarnessRegistry>), AppError> {
    let activator = Activator::new(
        Arc::clone(&model.engine),
        Arc::clone(&model.template),
        turn::calls(model),
        demands(tools.clone()),
    );
    if let Some(harness) = own(config)? {
        let harness = Arc::new(harness);
        let warm = activator.activate(Arc::clone(&harness)).await;
        let live = Live::new(harness, Some(warm.map_err(AppError::BadPersona)?));
        return Ok((Harnesses::Fixed(Arc::new(live)), None));
    }
    let started = HarnessRegistry::start(&config.harness, Arc::new(activator), metrics).await;
    let registry = started?;
    Ok((registry.handle().into(), Some(registry)))
}

/// The harness of a persona that the configuration names.
fn own(config: &Config) -> Result<Option<Harness>, AppError> {
    let Some(path) = &config.harness.persona else {
        return Ok(None);
    };
    let text = fs::read_to_string(path).map_err(|source| AppError::Persona {
        path: path.clone(),
        source,
    })?;
    let harness = turn::built_in(Some(&text)).map_err(|problems| {
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        AppError::BadPersona(problems.join("; "))
    })?;
    Ok(Some(harness))
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
