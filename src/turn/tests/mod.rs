//! A turn from acceptance to its one end: on a fake engine, with the clock paused.

mod answer;
mod ending;
mod privacy;
mod property;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::scripted::{Beat, Script, ScriptedEngine, says};
use super::*;
use crate::engine::{FinishReason, Priority, SubmitError};

struct Stage {
    engine: Arc<ScriptedEngine>,
    metrics: Arc<Metrics>,
    turns: Turns,
}

fn stage(scripts: Vec<Script>) -> Stage {
    let engine = ScriptedEngine::new(scripts);
    let metrics = Arc::new(Metrics::new());
    let persona = "You are Mia.".to_owned();
    let turns = Turns::new(
        engine.served(),
        persona,
        Config::default(),
        Arc::clone(&metrics),
    );
    Stage {
        engine,
        metrics,
        turns,
    }
}

impl Stage {
    /// `name{labels}` to value.
    fn samples(&self) -> BTreeMap<String, f64> {
        let text = self.metrics.render();
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let samples = samples.map(|line| line.rsplit_once(' ').unwrap());
        samples
            .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
            .collect()
    }

    fn ended(&self, outcome: &str) -> f64 {
        self.samples()[&format!("avatar_turns_total{{outcome=\"{outcome}\"}}")]
    }

    fn assert_conserved(&self) {
        let samples = self.samples();
        let ended = samples
            .iter()
            .filter(|(name, _)| name.starts_with("avatar_turns_total{"));
        let ended: f64 = ended.map(|(_, value)| value).sum();
        assert_eq!(
            samples["avatar_turns_accepted_total"],
            samples["avatar_turns_in_flight"] + ended
        );
    }
}

fn request() -> TurnRequest {
    TurnRequest {
        room_id: "r1".to_owned(),
        deadline: Duration::from_secs(6),
        comments: vec![Comment {
            comment_id: "c1".to_owned(),
            nickname: "Ann".to_owned(),
            text: "is it waterproof?".to_owned(),
        }],
        context: Context::default(),
        priority: Priority::Normal,
        max_chars: 120,
        language: None,
    }
}

async fn events(mut stream: TurnStream) -> Vec<TurnEvent> {
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event);
    }
    events
}

fn texts(events: &[TurnEvent]) -> Vec<&str> {
    let text = |event: &'_ TurnEvent| matches!(event, TurnEvent::Segment(_));
    events
        .iter()
        .filter(|event| text(event))
        .map(|event| match event {
            TurnEvent::Segment(segment) => segment.text.as_str(),
            _ => "",
        })
        .collect()
}

fn completion(events: &[TurnEvent]) -> &Completion {
    match events.last() {
        Some(TurnEvent::Completed(completion)) => completion,
        other => panic!("not completed: {other:?}"),
    }
}

fn failure(events: &[TurnEvent]) -> &Failure {
    match events.last() {
        Some(TurnEvent::Failed(failure)) => failure,
        other => panic!("not failed: {other:?}"),
    }
}

fn wait(ms: u64) -> Beat {
    Beat::Wait(Duration::from_millis(ms))
}

fn text(text: &str) -> Beat {
    Beat::Text(text.to_owned())
}
