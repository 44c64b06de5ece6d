//! The engine as callers see it: a thread that lives, sleeps, dies and stops.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::support::{alone, config, limits, prompt, request};
use crate::engine::paged::batch::Batch;
use crate::engine::paged::fake::{FakeControl, FakeRunner, byte_tokenizer};
use crate::engine::paged::runner::{ModelRunner, RunnerError, RunnerLimits};
use crate::engine::paged::{Config, PagedEngine, StartError};
use crate::engine::{Engine, FinishReason, SubmitError, TokenEvent, TokenStream};
use crate::telemetry::EngineStats;

fn start(config: &Config) -> (PagedEngine, FakeControl, Arc<EngineStats>) {
    let runner = FakeRunner::hashing(limits(200, 4));
    let control = runner.control();
    let stats = Arc::new(EngineStats::default());
    let engine = PagedEngine::start(
        Box::new(runner),
        byte_tokenizer(),
        Arc::clone(&stats),
        config,
    )
    .unwrap();
    (engine, control, stats)
}

fn read(mut stream: TokenStream) -> (String, FinishReason) {
    let mut text = String::new();
    loop {
        match stream
            .blocking_next()
            .expect("a terminal event comes first")
        {
            TokenEvent::Text(delta) => text.push_str(&delta),
            other @ (TokenEvent::Prompt(_) | TokenEvent::Scored { .. }) => {
                panic!("nobody asked for {other:?}")
            }
            TokenEvent::Finished(finish) => {
                assert!(stream.blocking_next().is_none());
                return (text, finish.reason);
            }
        }
    }
}

fn error_text(reason: FinishReason) -> String {
    match reason {
        FinishReason::Error(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn streams_arrive_and_the_engine_rests() {
    let (engine, control, stats) = start(&config());
    for round in 0..5 {
        let streams: Vec<_> = (0..8)
            .map(|n| {
                engine
                    .generate(request(&format!("round {round} {n}"), 12))
                    .unwrap()
            })
            .collect();
        for (n, stream) in streams.into_iter().enumerate() {
            let expected = alone(request(&format!("round {round} {n}"), 12)).0;
            assert_eq!(read(stream), (expected, FinishReason::Length));
        }
    }
    assert!(!engine.heartbeat().busy);
    assert!(engine.heartbeat().alive);
    assert_eq!(stats.kv_blocks_used.load(Relaxed), 0);
    let passes = control.entered();
    engine.shutdown();
    assert_eq!(control.entered(), passes, "no pass without work");
}

#[test]
fn a_stream_dropped_while_the_engine_computes_is_gone_with_the_step() {
    let (engine, control, stats) = start(&config());
    control.close();
    let dropped = engine.generate(request("dropped", 100)).unwrap();
    control.wait_entered(1);
    let queued = engine.generate(request("queued and dropped", 100)).unwrap();
    let kept = engine.generate(request("kept", 2)).unwrap();
    drop((dropped, queued));
    control.open();
    assert_eq!(read(kept).1, FinishReason::Length);
    engine.shutdown();
    assert_eq!(stats.kv_blocks_used.load(Relaxed), 0);
    assert_eq!(stats.requests_waiting.load(Relaxed), 0);
    assert_eq!(stats.zombie_tokens.load(Relaxed), 0);
    assert!(stats.generation_tokens.load(Relaxed) <= 3);
}

#[test]
fn a_full_queue_refuses_while_the_engine_computes() {
    let config = Config {
        queue: 2,
        ..config()
    };
    let (engine, control, _) = start(&config);
    control.close();
    let mut streams = vec![engine.generate(request("first", 2)).unwrap()];
    control.wait_entered(1);
    streams.push(engine.generate(request("second", 2)).unwrap());
    streams.push(engine.generate(request("third", 2)).unwrap());
    let refused = engine.generate(request("fourth", 2)).map(|_| ());
    assert_eq!(refused, Err(SubmitError::QueueFull { limit: 2 }));
    assert!(engine.heartbeat().busy);
    control.open();
    assert!(
        streams
            .into_iter()
            .all(|stream| read(stream).1 == FinishReason::Length)
    );
}

/// Fault: the service looked alive while its engine was dead.
#[test]
fn a_panic_ends_every_stream_and_shows() {
    let (engine, control, stats) = start(&config());
    control.close();
    let running = engine.generate(request("running", 10)).unwrap();
    control.wait_entered(1);
    let queued = engine.generate(request("queued", 10)).unwrap();
    control.panic_next("the device is gone");
    control.open();
    for stream in [running, queued] {
        assert!(error_text(read(stream).1).contains("the device is gone"));
    }
    engine.shutdown();
    assert!(!engine.heartbeat().alive);
    assert!(!engine.heartbeat().busy);
    assert_eq!(
        engine.generate(request("late", 1)).map(|_| ()),
        Err(SubmitError::Stopped)
    );
    assert_eq!(
        engine.pin(prompt("late")).map(|_| ()),
        Err(SubmitError::Stopped)
    );
    assert_eq!(stats.kv_blocks_used.load(Relaxed), 0);
}

#[test]
fn an_error_is_survived() {
    let (engine, control, _) = start(&config());
    control.fail_next("one bad step");
    let bad = engine.generate(request("bad", 10)).unwrap();
    assert!(error_text(read(bad).1).contains("one bad step"));
    let good = engine.generate(request("good", 10)).unwrap();
    assert_eq!(
        read(good),
        (alone(request("good", 10)).0, FinishReason::Length)
    );
}

#[test]
fn shutdown_ends_running_and_queued_streams_with_an_error() {
    let (engine, control, stats) = start(&Config {
        max_running: 1,
        ..config()
    });
    control.close();
    let running = engine.generate(request("running", 100)).unwrap();
    control.wait_entered(1);
    let queued = engine.generate(request("queued", 100)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| engine.shutdown());
        // Nothing more is taken once the stop is under way; then the step in progress may end.
        let late = || engine.generate(request("late", 1)).map(|_| ());
        while late() != Err(SubmitError::Stopped) {
            std::thread::yield_now();
        }
        control.open();
    });
    for stream in [running, queued] {
        assert!(error_text(read(stream).1).contains("stopping"));
    }
    engine.shutdown();
    assert_eq!(stats.requests_waiting.load(Relaxed), 0);
    assert_eq!(stats.requests_running.load(Relaxed), 0);
}

#[test]
fn pins_work_over_the_thread() {
    let (engine, _, stats) = start(&Config {
        pin_share: 0.5,
        ..config()
    });
    let ticket = engine.pin(prompt("a shared prefix.")).unwrap();
    assert_eq!(read(ticket.ready).1, FinishReason::Stop);
    assert_eq!(stats.kv_blocks_used.load(Relaxed), 4);
    engine.unpin(ticket.id);
    // The unpin is seen before the request that comes after it.
    let next = engine.generate(request("next", 1)).unwrap();
    read(next);
    assert_eq!(stats.kv_blocks_used.load(Relaxed), 0);
}

#[test]
fn a_ticket_dropped_while_its_last_block_is_computed_cancels_the_pin() {
    let (engine, control, stats) = start(&Config {
        pin_share: 0.5,
        ..config()
    });
    control.close();
    let ticket = engine.pin(prompt("a shared prefix.")).unwrap();
    control.wait_entered(1);
    drop(ticket.ready);
    control.open();
    read(engine.generate(request("next", 1)).unwrap());
    assert_eq!(stats.kv_blocks_used.load(Relaxed), 0);
}

#[test]
fn a_runner_without_room_is_refused() {
    let faults: [fn(&mut RunnerLimits); 4] = [
        |l| l.vocab = 0,
        |l| l.max_context = 0,
        |l| l.block_tokens = 0,
        |l| l.blocks = usize::MAX,
    ];
    for fault in faults {
        let mut limits = limits(1, 1);
        fault(&mut limits);
        let runner = Box::new(Unusable(limits));
        let stats = Arc::new(EngineStats::default());
        let started = PagedEngine::start(runner, byte_tokenizer(), stats, &config());
        assert!(matches!(
            started.map(|_| ()),
            Err(StartError::Runner { .. })
        ));
    }
}

/// Declares limits and computes nothing.
struct Unusable(RunnerLimits);

impl crate::engine::paged::runner::ModelRunner for Unusable {
    fn limits(&self) -> RunnerLimits {
        self.0
    }

    fn forward(
        &mut self,
        _: &crate::engine::paged::batch::Batch,
        _: &mut Vec<f32>,
    ) -> Result<(), crate::engine::paged::runner::RunnerError> {
        unreachable!("an engine that did not start computes nothing")
    }
}

/// A fake runner that, like one with compute threads of its own, uses up the thread's park token in each pass.
struct Parking(FakeRunner);

impl ModelRunner for Parking {
    fn limits(&self) -> RunnerLimits {
        self.0.limits()
    }

    fn forward(&mut self, batch: &Batch, logits: &mut Vec<f32>) -> Result<(), RunnerError> {
        let result = self.0.forward(batch, logits);
        std::thread::park_timeout(Duration::ZERO);
        result
    }
}

/// Fault: what arrived during a step that left the engine idle was not looked at until something else arrived.
#[test]
fn work_that_arrives_while_the_last_sequence_ends_is_not_slept_over() {
    let runner = FakeRunner::hashing(limits(200, 4));
    let control = runner.control();
    let (stats, runner) = (Arc::new(EngineStats::default()), Box::new(Parking(runner)));
    let engine = PagedEngine::start(runner, byte_tokenizer(), stats, &config()).unwrap();
    for _ in 0..20 {
        control.close();
        let entered = control.entered();
        let dropped = engine.generate(request("dropped", 50)).unwrap();
        control.wait_entered(entered + 1);
        drop(dropped);
        let next = engine.generate(request("next", 3)).unwrap();
        control.open();
        assert_eq!(read(next).1, FinishReason::Length);
    }
}
