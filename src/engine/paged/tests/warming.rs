//! Prefixes computed for later: behind everybody else's work, a chunk at a time, and never forgotten.

use std::time::Duration;

use super::support::{Reader, Rig, config, limits, prompt, request};
use crate::engine::paged::Config;
use crate::engine::{FinishReason, Priority, SubmitError};

/// 160 tokens: 20 chunks beside streams.
fn long() -> String {
    "harness ".repeat(20)
}

fn warm(rig: &Rig, text: &str) -> Reader {
    Reader::new(rig.intake.warm(prompt(text)).unwrap())
}

#[test]
fn a_warmed_prefix_is_there_and_holds_nothing() {
    let mut rig = Rig::new(limits(100, 4), &config());
    let mut ready = warm(&rig, &format!("{}xyz", long()));
    rig.settle();
    let finish = ready.end();
    assert_eq!(finish.reason, FinishReason::Stop);
    assert_eq!((finish.usage.prompt, finish.usage.completion), (160, 0));
    assert_eq!(rig.blocks_used(), 0);
    let mut reader = rig.submit(request(&format!("{} and a question", long()), 3));
    rig.settle();
    assert_eq!(reader.end().usage.cached, 160);
    let passes = rig.control.entered();
    let mut again = warm(&rig, &long());
    rig.settle();
    assert_eq!(again.end().usage.cached, 160);
    assert_eq!(rig.control.entered(), passes, "it is there already");
}

#[test]
fn what_can_never_be_warmed_is_refused() {
    let rig = Rig::new(limits(10, 4), &config());
    let refused = rig.intake.warm(prompt(&long())).map(|_| ());
    assert!(matches!(refused, Err(SubmitError::ContextLength { .. })));
    let empty = rig.intake.warm(Vec::new()).map(|_| ());
    assert!(matches!(
        empty,
        Err(SubmitError::Invalid {
            field: "prompt",
            ..
        })
    ));
}

#[test]
fn dropping_the_stream_stops_the_warming() {
    let mut rig = Rig::new(limits(100, 4), &config());
    let ready = warm(&rig, &long());
    rig.step();
    drop(ready);
    let passes = rig.control.entered();
    assert!(!rig.step());
    assert_eq!(rig.control.entered(), passes);
    assert_eq!(rig.blocks_used(), 0);
}

/// Fault: filling a cache held a viewer's question up for as long as the prefix was long.
#[test]
fn a_newcomer_waits_for_one_chunk_at_most() {
    for priority in [Priority::Low, Priority::Normal] {
        for pinned in [false, true] {
            let config = Config {
                pin_share: 0.5,
                ..config()
            };
            let mut rig = Rig::new(limits(200, 4), &config);
            let mut ready = if pinned {
                Reader::new(rig.pin(&long()).unwrap().ready)
            } else {
                warm(&rig, &long())
            };
            rig.control.record();
            rig.step();
            let mut newcomer = rig.submit(crate::engine::GenerateRequest {
                priority,
                ..request("question", 5)
            });
            rig.step();
            assert_eq!(newcomer.read(), 1, "in its first step");
            rig.settle();
            assert_eq!(newcomer.end().usage.completion, 5);
            assert_eq!(ready.end().reason, FinishReason::Stop);
            let sizes = rig.control.take_recorded();
            let most = sizes.iter().map(|batch| batch.tokens.len()).max();
            assert_eq!(most, Some(16), "the newcomer's 8 and one chunk of 8");
        }
    }
}

/// Fault: warming a new prefix took a chunk of every step, and every stream's gaps grew to a chunk's time meanwhile.
#[test]
fn streams_run_on_while_a_prefix_is_warmed() {
    let mut rig = Rig::new(limits(400, 4), &config());
    let mut stream = rig.submit(request("question", 900));
    rig.step();
    assert_eq!(stream.read(), 1);
    let mut ready = warm(&rig, &long());
    rig.control.record();
    while ready.reason().is_none() {
        rig.step();
        assert_eq!(stream.read(), 1);
    }
    let batches = rig.control.take_recorded();
    let slowed = batches.iter().filter(|batch| batch.tokens.len() > 1);
    assert!(slowed.count() * 20 < batches.len(), "of {}", batches.len());
    drop(stream);
}

#[test]
fn several_warmed_prefixes_share_one_chunk_a_step() {
    let mut rig = Rig::new(limits(400, 4), &config());
    let mut all: Vec<_> = (0..3)
        .map(|n| warm(&rig, &format!("{n}{}", long())))
        .collect();
    rig.control.record();
    rig.settle();
    assert!(
        all.iter_mut()
            .all(|ready| ready.end().reason == FinishReason::Stop)
    );
    let batches = rig.control.take_recorded();
    assert!(batches.iter().all(|batch| batch.tokens.len() <= 8));
}

/// Every step is full of prompts that go first; the prefix still gets there, and takes one chunk each aging interval.
#[test]
fn a_prefix_is_warmed_however_busy_the_engine_is() {
    let config = Config {
        queue: 8,
        ..config()
    };
    let mut rig = Rig::new(limits(400, 4), &config);
    let mut ready = warm(&rig, &long()[..48]);
    let mut flow: Vec<Reader> = Vec::new();
    let mut steps = 0;
    while ready.reason().is_none() {
        while let Ok(reader) = rig.try_submit(request(&format!("{steps} {}", long()), 1)) {
            flow.push(reader);
        }
        rig.pass(Duration::from_millis(500));
        rig.step();
        flow.retain_mut(|reader| reader.reason().is_none());
        steps += 1;
        // It rises to the top in 15 s, what was there before takes 10 s a request, and then six chunks are 5 s each.
        assert!(steps < 400, "it starves");
    }
    assert_eq!(ready.end().reason, FinishReason::Stop);
    assert!(steps > 60, "it goes last: {steps}");
}

#[test]
fn warming_takes_nobodys_blocks() {
    let mut rig = Rig::new(limits(20, 4), &config());
    let mut running = rig.submit(crate::engine::GenerateRequest {
        priority: Priority::Low,
        ..request("running", 60)
    });
    rig.step();
    let mut ready = warm(&rig, &long()[..72]);
    rig.pass(Duration::from_secs(3600));
    for _ in 1..60 {
        assert_eq!(running.read(), 1);
        rig.step();
    }
    assert_eq!(running.reason(), Some(FinishReason::Length));
    rig.settle();
    assert_eq!(ready.end().reason, FinishReason::Stop);
}
