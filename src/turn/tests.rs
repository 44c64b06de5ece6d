//! A turn from acceptance to its one end: on a fake engine, with the clock paused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

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

#[tokio::test(start_paused = true)]
async fn an_answer_is_started_spoken_and_completed() {
    let stage = stage(vec![says(&["Yes, it", " is. It keeps", " rain out!"])]);
    let stream = stage.turns.respond(request()).unwrap();
    let id = stream.response_id().to_owned();
    let events = events(stream).await;
    match &events[0] {
        TurnEvent::Started {
            response_id,
            model,
            comment_ids,
            ..
        } => {
            assert_eq!(
                (response_id.as_str(), model.as_str()),
                (id.as_str(), "scripted")
            );
            assert_eq!(comment_ids, &["c1"]);
        }
        other => panic!("not started: {other:?}"),
    }
    assert_eq!(texts(&events), ["Yes, it is. ", "It keeps rain out!"]);
    let TurnEvent::Segment(second) = &events[2] else {
        panic!("no segment")
    };
    assert_eq!((second.seq, second.pause_ms), (1, 300));
    assert_eq!(second.reply_to, ["c1"]);
    let completion = completion(&events);
    assert_eq!(completion.finish_reason, TurnFinish::Stop);
    assert_eq!(completion.timings.queue_ms, 7);
    assert_eq!(completion.usage.completion, 4);
    assert_eq!(stage.ended("stop"), 1.0);
    assert_eq!(stage.turns.in_flight(), 0);
    assert_eq!(stage.samples()["avatar_segments_total"], 2.0);
    stage.assert_conserved();
}

#[tokio::test(start_paused = true)]
async fn the_engine_is_asked_with_the_turns_own_sampling_and_deadline() {
    let stage = stage(vec![says(&["Yes."])]);
    let start = Instant::now();
    events(stage.turns.respond(request()).unwrap()).await;
    let requests = stage.engine.requests.lock().unwrap();
    assert_eq!(requests[0].sampling, Config::default().sampling());
    assert_eq!(requests[0].max_tokens, Some(376));
    let deadline = requests[0].deadline.map(Instant::from_std);
    assert_eq!(deadline, Some(start + Duration::from_millis(5800)));
}

#[tokio::test(start_paused = true)]
async fn silence_of_the_model_flushes_the_last_clause() {
    let script = vec![
        text("It is light, and wa"),
        wait(1000),
        text("rm too."),
        Beat::End(FinishReason::Stop),
    ];
    let stage = stage(vec![Ok(script)]);
    let start = Instant::now();
    let mut stream = stage.turns.respond(request()).unwrap();
    stream.next().await;
    let Some(TurnEvent::Segment(first)) = stream.next().await else {
        panic!("no segment")
    };
    assert_eq!(first.text, "It is light, ");
    assert_eq!(start.elapsed(), Duration::from_millis(400));
    let events = events(stream).await;
    assert_eq!(texts(&events), ["and warm too."]);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_cuts_at_the_last_whole_segment() {
    for hangs in [false, true] {
        let pause = if hangs { Beat::Hang } else { wait(60_000) };
        let stage = stage(vec![Ok(vec![text("It is warm. It al"), pause])]);
        let start = Instant::now();
        let events = events(stage.turns.respond(request()).unwrap()).await;
        assert!(start.elapsed() <= Duration::from_secs(6));
        assert_eq!(texts(&events), ["It is warm. "]);
        let completion = completion(&events);
        assert_eq!(completion.finish_reason, TurnFinish::Deadline);
        assert_eq!(completion.degraded, ["cut"]);
        let samples = stage.samples();
        assert_eq!(
            samples["avatar_deadline_missed_total{stage=\"decode\"}"],
            1.0
        );
        assert_eq!(stage.ended("deadline"), 1.0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_before_the_first_word_is_answered_with_the_fallback_line() {
    let stage = stage(vec![Ok(vec![Beat::Hang])]);
    let events = events(stage.turns.respond(request()).unwrap()).await;
    assert_eq!(texts(&events), [Config::default().fallback]);
    assert_eq!(completion(&events).degraded, ["cut", "fallback"]);
    let samples = stage.samples();
    assert_eq!(samples["avatar_fallback_total{reason=\"deadline\"}"], 1.0);
    assert_eq!(
        samples["avatar_deadline_missed_total{stage=\"first_token\"}"],
        1.0
    );
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(stage.engine.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_full_answer_ends_with_a_whole_segment_and_stops_the_engine() {
    let endless = "It is warm. ".repeat(40);
    let mut script = vec![text(&endless)];
    script.push(Beat::Hang);
    let stage = stage(vec![Ok(script)]);
    let events = events(stage.turns.respond(request()).unwrap()).await;
    let texts = texts(&events);
    assert_eq!(texts.len(), 10);
    assert_eq!(texts.concat(), "It is warm. ".repeat(10));
    assert_eq!(completion(&events).finish_reason, TurnFinish::Length);
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(stage.engine.running(), 0);
    assert_eq!(stage.ended("length"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_within_the_limit_is_never_called_full() {
    let exact = "a".repeat(118) + "b.";
    let stage = stage(vec![says(&[&exact])]);
    let events = events(stage.turns.respond(request()).unwrap()).await;
    assert_eq!(texts(&events), [exact]);
    assert_eq!(completion(&events).finish_reason, TurnFinish::Stop);
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_words_fails_with_a_fallback_and_no_segment() {
    for silent in [
        "👏👏👏",
        "   ",
        "\u{200b}",
        "……",
        "！！！！！",
        "",
        "https://a.b",
    ] {
        let stage = stage(vec![says(&[silent])]);
        let events = events(stage.turns.respond(request()).unwrap()).await;
        assert_eq!(events.len(), 2, "{silent:?}: {events:?}");
        let failure = failure(&events);
        assert_eq!(failure.code, "empty_answer");
        assert_eq!(failure.fallback, Config::default().fallback);
        assert_eq!(stage.ended("failed"), 1.0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_error_after_text_is_a_failure_not_an_answer() {
    let broken = Beat::End(FinishReason::Error("forward pass failed: nan".to_owned()));
    for last in [broken, Beat::Die] {
        let stage = stage(vec![Ok(vec![text("It is warm. It al"), last])]);
        let events = events(stage.turns.respond(request()).unwrap()).await;
        assert_eq!(texts(&events), ["It is warm. "]);
        let failure = failure(&events);
        assert_eq!(failure.code, "engine_error");
        assert!(failure.retryable && !failure.message.is_empty());
        assert_eq!(stage.ended("failed"), 1.0);
        assert_eq!(stage.ended("stop"), 0.0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_engine_refuses_is_rejected_with_its_cause_and_a_fallback() {
    let full = SubmitError::QueueFull { limit: 256 };
    let stage = stage(vec![Err(full.clone())]);
    let rejection = stage.turns.respond(request()).unwrap_err();
    assert_eq!(rejection.cause, RejectionCause::Submit(full));
    assert_eq!(rejection.fallback, Config::default().fallback);
    let samples = stage.samples();
    assert_eq!(
        samples["avatar_turns_rejected_total{reason=\"queue_full\"}"],
        1.0
    );
    assert_eq!(samples["avatar_turns_accepted_total"], 0.0);
    assert_eq!(stage.turns.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_the_turn_at_once_at_any_moment() {
    for spoken in [false, true] {
        let first = if spoken { "It is warm. It al" } else { "" };
        let stage = stage(vec![Ok(vec![text(first), Beat::Hang])]);
        let start = Instant::now();
        let stream = stage.turns.respond(request()).unwrap();
        let id = stream.response_id().to_owned();
        if spoken {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(stage.turns.cancel(&id, Some(0)), Ok(()));
        let events = events(stream).await;
        assert_eq!(completion(&events).finish_reason, TurnFinish::Cancelled);
        assert!(start.elapsed() <= Duration::from_millis(2));
        assert_eq!(stage.turns.cancel(&id, None), Err(UnknownTurn));
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(stage.engine.running(), 0);
        assert_eq!(stage.ended("cancelled"), 1.0);
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_stream_cancels_the_generation_and_counts_once() {
    for _ in 0..20 {
        let stage = stage(vec![Ok(vec![text("It is warm. It al"), Beat::Hang])]);
        let mut stream = stage.turns.respond(request()).unwrap();
        stream.next().await;
        drop(stream);
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(stage.engine.running(), 0);
        assert_eq!(stage.turns.in_flight(), 0);
        assert_eq!(stage.ended("cancelled"), 1.0);
        stage.assert_conserved();
    }
}

#[tokio::test(start_paused = true)]
async fn a_finished_turn_keeps_its_outcome_when_it_is_dropped_unread() {
    let stage = stage(vec![says(&["Yes."])]);
    let stream = stage.turns.respond(request()).unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    drop(stream);
    assert_eq!(stage.ended("stop"), 1.0);
    assert_eq!(stage.ended("cancelled"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_every_turn_with_a_terminal_event() {
    let hang = || Ok(vec![Beat::Hang]);
    let stage = stage(vec![hang(), hang(), hang()]);
    let streams: Vec<_> = (0..3)
        .map(|_| stage.turns.respond(request()).unwrap())
        .collect();
    assert_eq!(stage.turns.in_flight(), 3);
    stage.turns.cancel_all();
    for stream in streams {
        assert_eq!(
            completion(&events(stream).await).finish_reason,
            TurnFinish::Cancelled
        );
    }
    assert_eq!(stage.turns.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn many_turns_of_one_room_never_mix() {
    let scripts = (0..200)
        .map(|turn| says(&["Hello viewer ", &turn.to_string(), "!"]))
        .collect();
    let stage = stage(scripts);
    let streams: Vec<_> = (0..200)
        .map(|_| stage.turns.respond(request()).unwrap())
        .collect();
    let ids: std::collections::BTreeSet<_> = streams
        .iter()
        .map(|stream| stream.response_id().to_owned())
        .collect();
    assert_eq!(ids.len(), 200);
    for (turn, stream) in streams.into_iter().enumerate() {
        assert_eq!(
            texts(&events(stream).await).concat(),
            format!("Hello viewer {turn}!")
        );
    }
    stage.assert_conserved();
}

#[test]
fn a_runtime_that_is_shut_down_still_counts_its_turns() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let stage = stage(vec![Ok(vec![Beat::Hang])]);
    let mut stream = runtime.block_on(async { stage.turns.respond(request()).unwrap() });
    drop(runtime);
    assert_eq!(stage.ended("failed"), 1.0);
    stage.assert_conserved();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let last = runtime.block_on(async { (stream.next().await, stream.next().await) });
    assert!(
        matches!(&last, (Some(TurnEvent::Failed(failure)), None) if failure.code == "internal_error"),
        "{last:?}"
    );
}

#[derive(Clone, Copy, Debug)]
enum Reader {
    Reads,
    Drops(usize),
    Cancels(usize),
}

fn beats() -> impl Strategy<Value = Vec<Beat>> {
    let beat = prop_oneof![
        4 => proptest::sample::select(&["It is warm. ", "好的，", "👏", "3.", "5 kg. ", "！", " "][..]).prop_map(text),
        1 => (1..3000_u64).prop_map(wait),
        1 => Just(Beat::End(FinishReason::Stop)),
        1 => Just(Beat::End(FinishReason::Length)),
        1 => Just(Beat::End(FinishReason::Error("broken".to_owned()))),
        1 => Just(Beat::Hang),
    ];
    proptest::collection::vec(beat, 0..30)
}

fn reader() -> impl Strategy<Value = Reader> {
    prop_oneof![
        2 => Just(Reader::Reads),
        1 => (0..4_usize).prop_map(Reader::Drops),
        1 => (0..4_usize).prop_map(Reader::Cancels),
    ]
}

/// Follows one turn and checks what its reader may rely on.
async fn follow(turns: Turns, mut stream: TurnStream, reader: Reader) {
    let mut events = Vec::new();
    loop {
        match reader {
            Reader::Drops(after) if events.len() == after => return,
            Reader::Cancels(after) if events.len() == after => {
                let _ = turns.cancel(stream.response_id(), None);
            }
            _ => {}
        }
        let Some(event) = stream.next().await else {
            break;
        };
        events.push(event);
    }
    assert!(matches!(events[0], TurnEvent::Started { .. }));
    let terminal =
        |event: &TurnEvent| matches!(event, TurnEvent::Completed(_) | TurnEvent::Failed(_));
    assert_eq!(events.iter().filter(|event| terminal(event)).count(), 1);
    assert!(terminal(&events[events.len() - 1]));
    let segments = events.iter().filter_map(|event| match event {
        TurnEvent::Segment(segment) => Some(segment),
        _ => None,
    });
    for (seq, segment) in segments.enumerate() {
        assert_eq!(segment.seq, seq);
        assert!(!segment.tts_text.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_turn_ends_once_whatever_engine_and_reader_do(
        runs in proptest::collection::vec((beats(), reader()), 1..8),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let scripts = runs.iter().map(|(beats, _)| Ok(beats.clone())).collect();
            let stage = stage(scripts);
            let mut readers = Vec::new();
            for (_, reader) in &runs {
                let stream = stage.turns.respond(request()).unwrap();
                readers.push(tokio::spawn(follow(stage.turns.clone(), stream, *reader)));
            }
            stage.assert_conserved();
            for reader in readers {
                reader.await.unwrap();
            }
            tokio::time::sleep(Duration::from_secs(10)).await;
            stage.assert_conserved();
            assert_eq!(stage.samples()["avatar_turns_in_flight"], 0.0);
            assert_eq!(stage.turns.in_flight(), 0);
            assert_eq!(stage.engine.running(), 0);
        });
    }
}
