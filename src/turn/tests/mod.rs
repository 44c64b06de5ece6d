//! A turn from acceptance to its one end: on a fake engine, with the clock paused.

mod answer;
mod ending;
mod harness;
mod hooked;
mod privacy;
mod property;
mod rooms;
mod rounds;
mod routing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::scripted::{Beat, Script, ScriptedEngine, says};
use super::*;
use crate::engine::{FinishReason, Priority, SubmitError};
use crate::harness::{Harness, Source, load};

struct Stage {
    engine: Arc<ScriptedEngine>,
    metrics: Arc<Metrics>,
    turns: Turns,
}

/// A template that shows how its model writes calls, and is told of tools.
const CALLING: &str = "{% for tool in tools or [] %}<tool>{{ tool.function.name }}</tool>{% endfor %}\
    {% for message in messages %}{{ message.role }}: {{ message.content }}\
    {% for call in message.tool_calls or [] %}<tool_call>{{ call.function.name }}{{ call.function.arguments|tojson }}</tool_call>{% endfor %}\n\
    {% endfor %}";

/// What every test's harness has beside its own files.
const BASE: &[(&str, &str)] = &[
    (
        "harness.toml",
        "fallback = \"One moment.\"\n[budgets]\nmax_tokens = 4096\n",
    ),
    ("prompts/persona.txt", "You are Mia."),
];

fn harness(files: &[(&str, &str)]) -> Harness {
    let mut source = Source::default();
    for (path, text) in BASE.iter().chain(files) {
        source.insert(*path, text.as_bytes());
    }
    load("shop", &source).unwrap().harness
}

fn tools() -> Tools {
    Tools::new(&crate::tools::Config::default(), BTreeMap::new()).unwrap()
}

/// A stage whose harness is the persona alone, and whose fallback line is the configuration's.
fn stage(scripts: Vec<Script>) -> Stage {
    let plain = "[budgets]\nmax_tokens = 4096\n";
    staged(&[("harness.toml", plain)], scripts)
}

/// A stage whose harness has these files.
fn staged(files: &[(&str, &str)], scripts: Vec<Script>) -> Stage {
    let engine = ScriptedEngine::new(scripts);
    let model = engine.served();
    over(engine, model, harness(files))
}

/// A stage whose model can call tools.
fn calling(files: &[(&str, &str)], scripts: Vec<Script>) -> Stage {
    let engine = ScriptedEngine::new(scripts);
    let model = engine.served_with(CALLING);
    over(engine, model, harness(files))
}

fn over(engine: Arc<ScriptedEngine>, model: ServedModel, harnesses: impl Into<Harnesses>) -> Stage {
    let metrics = Arc::new(Metrics::new());
    let config = Config::default();
    let turns = Turns::new(model, harnesses, tools(), config, Arc::clone(&metrics));
    Stage {
        engine,
        metrics,
        turns,
    }
}

impl Stage {
    /// What the model was told in round `round`.
    fn prompt(&self, round: usize) -> String {
        let requests = self.engine.requests.lock().unwrap();
        self.engine.tokenizer().decode(&requests[round].prompt)
    }

    /// All events of a turn that answers `comment`.
    async fn answer(&self, comment: &str) -> Vec<TurnEvent> {
        events(self.turns.respond(asking(comment)).unwrap()).await
    }

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

/// A request that asks this, with debugging.
fn asking(comment: &str) -> TurnRequest {
    let mut request = request();
    comment.clone_into(&mut request.comments[0].text);
    request.debug = true;
    request
}

/// Everything that was said.
fn spoken(events: &[TurnEvent]) -> String {
    texts(events).concat()
}

fn actions(events: &[TurnEvent]) -> Vec<&Action> {
    let actions = events.iter().filter_map(|event| match event {
        TurnEvent::Action(action) => Some(action),
        _ => None,
    });
    actions.collect()
}

/// Names of activated skills and finished tools, those that failed with a `!`.
fn debug(events: &[TurnEvent]) -> Vec<String> {
    let told = events.iter().filter_map(|event| match event {
        TurnEvent::SkillActivated { name } => Some(name.clone()),
        TurnEvent::ToolFinished { name, ok: true, .. } => Some(name.clone()),
        TurnEvent::ToolFinished { name, .. } => Some(format!("{name}!")),
        _ => None,
    });
    told.collect()
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
        priority: Priority::Normal,
        max_chars: 120,
        ..TurnRequest::default()
    }
}

/// A request in a room of this name.
fn in_room(room_id: &str) -> TurnRequest {
    TurnRequest {
        room_id: room_id.to_owned(),
        ..request()
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
