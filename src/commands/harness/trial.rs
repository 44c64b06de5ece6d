//! `compere harness try`: one comment asked of a kept version beside the live one, without a server.

use std::sync::Arc;

use super::Failure;
use super::kept::Place;
use crate::app;
use crate::cli::StoreArgs;
use crate::config;
use crate::harness::registry::Live;
use crate::harness::store::PRODUCTION;
use crate::harness::{self, Snapshot, Version};
use crate::telemetry::{EngineStats, Metrics};
use crate::tools::Tools;
use crate::turn::{TurnEvent, Turns};

pub(super) fn run(comment: &str, version: &str, args: &StoreArgs) -> Result<(), Failure> {
    let place = Place::open(args)?;
    let live = place.store.label(PRODUCTION)?;
    let live = live.ok_or("no version of this harness was ever live")?;
    let other = place.version(version)?;
    let snapshots = [load(&place, live)?, load(&place, other)?];
    let config = config::load(&args.config)?;
    let speaker = app::speaker(&config, Arc::new(EngineStats::default()))?;
    let turns = Turns::new(
        speaker.model.clone(),
        snapshots[0].harness().as_ref().clone(),
        Tools::new(&config.tools, config::secrets(&config.tools.secrets))?,
        config.turn.clone(),
        Arc::new(Metrics::new()),
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    for (what, snapshot) in ["live", "tried"].into_iter().zip(snapshots) {
        println!("{what} {}", snapshot.version.short());
        for counted in turns.section_tokens(&snapshot) {
            println!("  {:>5} tokens  {}", counted.tokens, counted.section);
        }
        runtime.block_on(show(&turns, snapshot, comment))?;
    }
    speaker.engine.shutdown();
    Ok(())
}

fn load(place: &Place, version: Version) -> Result<Snapshot, Failure> {
    let source = place.store.get(version)?;
    let loaded = harness::load(&place.name, &source).map_err(|problems| {
        problems.iter().for_each(|problem| println!("{problem}"));
        format!("{} cannot be used", version.short())
    })?;
    Ok(Arc::new(Live::new(Arc::new(loaded.harness), None)))
}

/// Prints an answer as it comes.
async fn show(turns: &Turns, snapshot: Snapshot, comment: &str) -> Result<(), Failure> {
    let mut turn = turns.try_out(snapshot, comment)?;
    while let Some(event) = turn.next().await {
        match event {
            TurnEvent::Queued { .. } | TurnEvent::Started { .. } => {}
            TurnEvent::SkillActivated { name } => println!("  skill {name}"),
            TurnEvent::ToolFinished { name, ms, ok } => {
                println!(
                    "  tool {name} {} after {ms} ms",
                    if ok { "answered" } else { "failed" }
                );
            }
            TurnEvent::Action(action) => println!("  shows {} {}", action.kind, action.args),
            TurnEvent::Segment(segment) => println!("  says {}", segment.text.trim()),
            TurnEvent::Completed(end) => println!(
                "  {:?} after {} ms, first segment after {} ms; {} prompt tokens ({} cached), {} generated\n",
                end.finish_reason,
                end.timings.total_ms,
                end.timings.first_segment_ms.unwrap_or_default(),
                end.usage.prompt,
                end.usage.cached,
                end.usage.completion
            ),
            TurnEvent::Failed(failure) => return Err(failure.message.into()),
        }
    }
    Ok(())
}
