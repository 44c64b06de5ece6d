//! Who goes first, who gives way, and that everybody gets there.

use std::time::Duration;

use super::support::{Reader, Rig, alone, config, limits, request};
use crate::engine::paged::Config;
use crate::engine::{FinishReason, GenerateRequest, Priority};

fn prioritised(text: &str, max_tokens: usize, priority: Priority) -> GenerateRequest {
    GenerateRequest {
        priority,
        ..request(text, max_tokens)
    }
}

/// Submits all, then steps until all ended; returns the order in which they said their first word.
fn order_of_first_words(rig: &mut Rig, requests: Vec<GenerateRequest>) -> Vec<usize> {
    let mut readers: Vec<Reader> = requests.into_iter().map(|r| rig.submit(r)).collect();
    let mut order = Vec::new();
    while rig.step() {
        for (index, reader) in readers.iter_mut().enumerate() {
            reader.read();
            if !reader.deltas.is_empty() && !order.contains(&index) {
                order.push(index);
            }
        }
    }
    for (index, _) in readers.iter().enumerate() {
        if !order.contains(&index) {
            order.push(index);
        }
    }
    order
}

/// One sequence at a time, so that the order of service shows.
fn one_by_one() -> Config {
    Config {
        max_running: 1,
        ..config()
    }
}

#[test]
fn prompts_never_stop_a_running_stream() {
    let mut rig = Rig::new(limits(600, 4), &config());
    let mut streams = vec![rig.submit(request("a", 300)), rig.submit(request("b", 300))];
    rig.step();
    assert!(streams.iter_mut().all(|stream| stream.read() == 1));
    let mut prompts = Vec::new();
    for step in 0..200 {
        if step % 10 == 0 {
            prompts.push(rig.submit(request(&"long prompt ".repeat(8), 2)));
        }
        rig.step();
        for stream in &mut streams {
            assert_eq!(stream.read(), 1, "a token in step {step}");
        }
    }
    let ended = prompts.iter_mut().filter_map(Reader::reason).count();
    assert!(ended > 5, "{ended}");
}

#[test]
fn a_step_beside_decoding_streams_stays_small() {
    let config = Config {
        step_tokens: 64,
        mixed_step_tokens: 8,
        ..config()
    };
    let mut rig = Rig::new(limits(600, 4), &config);
    rig.control.record();
    let _first = rig.submit(request("a", 50));
    rig.step();
    let _second = rig.submit(request(&"x".repeat(200), 5));
    rig.settle();
    let _alone = rig.submit(request(&"y".repeat(200), 1));
    rig.settle();
    let sizes: Vec<usize> = rig
        .control
        .take_recorded()
        .iter()
        .map(|batch| batch.tokens.len())
        .collect();
    assert!(sizes[..50].iter().all(|size| *size <= 8), "{sizes:?}");
    assert_eq!(
        sizes.iter().max(),
        Some(&64),
        "alone, a prompt gets the whole step"
    );
}

#[test]
fn priority_then_deadline_then_arrival() {
    let mut rig = Rig::new(limits(100, 4), &one_by_one());
    let soon = Some(rig.now() + Duration::from_secs(5));
    let later = Some(rig.now() + Duration::from_secs(9));
    let requests = vec![
        prioritised("low", 2, Priority::Low),
        request("normal", 2),
        GenerateRequest {
            deadline: later,
            ..request("later", 2)
        },
        GenerateRequest {
            deadline: soon,
            ..request("soon", 2)
        },
        prioritised("high", 2, Priority::High),
        request("normal too", 2),
    ];
    assert_eq!(order_of_first_words(&mut rig, requests), [4, 3, 2, 1, 5, 0]);
}

#[test]
fn waiting_raises_a_request() {
    let mut rig = Rig::new(limits(100, 4), &one_by_one());
    let mut low = rig.submit(prioritised("low", 2, Priority::Low));
    let mut high = rig.submit(prioritised("high", 200, Priority::High));
    rig.step();
    rig.pass(Duration::from_secs(11));
    let mut fresh: Vec<_> = (0..3)
        .map(|n| rig.submit(prioritised(&format!("fresh {n}"), 2, Priority::High)))
        .collect();
    while high.reason().is_none() {
        rig.step();
    }
    while low.reason().is_none() {
        rig.step();
        assert!(
            fresh.iter_mut().all(|reader| reader.read() == 0),
            "it waited longer"
        );
    }
}

#[test]
fn a_request_without_a_deadline_is_not_overtaken_for_ever() {
    let mut rig = Rig::new(limits(100, 4), &one_by_one());
    let mut patient = rig.submit(prioritised("patient", 2, Priority::High));
    let mut overtaking = 0;
    while patient.reason().is_none() {
        let deadline = Some(rig.now() + Duration::from_secs(10));
        let mut reader = rig.submit(GenerateRequest {
            deadline,
            ..prioritised("hurry", 1, Priority::High)
        });
        while reader.reason().is_none() && patient.reason().is_none() {
            rig.step();
        }
        rig.pass(Duration::from_secs(1));
        overtaking += 1;
        assert!(overtaking < 40);
    }
}

/// Fault: at the limit of running sequences, priority had no effect.
#[test]
fn high_priority_takes_the_place_of_low() {
    let mut rig = Rig::new(limits(100, 4), &one_by_one());
    let low_request = prioritised("low", 30, Priority::Low);
    let mut low = rig.submit(low_request.clone());
    rig.step();
    rig.step();
    let mut high = rig.submit(prioritised("high", 3, Priority::High));
    rig.step();
    assert_eq!(high.read(), 1, "at once");
    rig.settle();
    assert_eq!(rig.count(|stats| &stats.preemptions), 1);
    assert_eq!(low.text(), alone(low_request).0);
    assert_eq!(high.reason(), Some(FinishReason::Length));
}

#[test]
fn equals_are_not_preempted_for_a_newcomer() {
    let mut rig = Rig::new(limits(100, 4), &one_by_one());
    let _first = rig.submit(request("first", 30));
    rig.step();
    let _second = rig.submit(request("second", 3));
    rig.settle();
    assert_eq!(rig.count(|stats| &stats.preemptions), 0);
}

#[test]
fn the_lowest_priority_and_then_the_least_computed_gives_way() {
    let mut rig = Rig::new(limits(14, 4), &config());
    let mut readers = [
        rig.submit(request("long one here!!", 20)),
        rig.submit(request("short", 20)),
        rig.submit(prioritised("low but quite long", 20, Priority::Low)),
    ];
    let mut said = [0; 3];
    let mut silent = Vec::new();
    for _ in 0..20 {
        rig.step();
        for (index, reader) in readers.iter_mut().enumerate() {
            let now = reader.read();
            if said[index] > 0 && now == 0 && reader.finish.is_none() && !silent.contains(&index) {
                silent.push(index);
            }
            said[index] += now;
        }
    }
    assert_eq!(
        silent,
        [2, 1],
        "the low one, then the one with less to compute again"
    );
    rig.settle();
    assert!(
        readers
            .iter_mut()
            .all(|reader| reader.end().usage.completion == 20)
    );
}

/// Fault: one block too few failed every sequence of the batch.
#[test]
fn one_block_too_few_fails_nobody() {
    let config = Config {
        max_running: 4,
        ..config()
    };
    // Four sequences of 16 tokens each need 16 blocks at their ends.
    let mut rig = Rig::new(limits(15, 4), &config);
    let mut readers: Vec<_> = (0..16)
        .map(|n| rig.submit(request(&format!("{n:02}234567"), 9)))
        .collect();
    rig.settle();
    for reader in &mut readers {
        assert_eq!(reader.end().reason, FinishReason::Length);
    }
    let preemptions = rig.count(|stats| &stats.preemptions);
    assert!((1..=16).contains(&preemptions), "{preemptions}");
}

#[test]
fn a_newcomer_leaves_room_for_those_that_run() {
    let mut rig = Rig::new(limits(11, 4), &config());
    let mut first = rig.submit(request("sixteen letters.", 8));
    rig.step();
    rig.step();
    // It holds five blocks and will need a sixth; six are free, and the newcomer would take all of them.
    let mut second = rig.submit(request("these are 24 characters.", 4));
    rig.settle();
    assert_eq!(rig.count(|stats| &stats.preemptions), 0);
    assert_eq!(first.end().usage.completion, 8);
    assert_eq!(second.end().usage.completion, 4);
}

/// Fault: a request that did not fit was tried again and again and blocked the queue, or never got its turn.
#[test]
fn a_large_request_in_a_steady_flow_of_small_ones_finishes_and_so_do_they() {
    let mut rig = Rig::new(limits(40, 4), &config());
    let mut large = None;
    let mut small = Vec::new();
    let mut large_took = None;
    for step in 0..600_usize {
        if step % 3 == 0 && small.len() < 150 {
            small.push((step, rig.submit(request(&format!("small {step}"), 6)), None));
        }
        if step == 30 {
            large = Some(rig.submit(request(&"x".repeat(120), 30)));
        }
        rig.step();
        for (_, reader, ended) in &mut small {
            if ended.is_none() && reader.reason().is_some() {
                *ended = Some(step);
            }
        }
        let done = large
            .as_mut()
            .is_some_and(|reader| reader.reason().is_some());
        if done && large_took.is_none() {
            large_took = Some(step - 30);
        }
    }
    assert!(
        large_took.expect("the large one ends") < 120,
        "{large_took:?}"
    );
    let waits: Vec<_> = small
        .iter()
        .map(|(start, _, ended)| ended.expect("each small one ends") - start)
        .collect();
    assert!(waits.iter().all(|wait| *wait < 150), "{waits:?}");
    let preemptions = rig.count(|stats| &stats.preemptions);
    assert!(preemptions <= 20, "{preemptions}");
}

#[test]
fn what_keeps_losing_its_blocks_is_spared() {
    let mut rig = Rig::new(limits(100, 4), &one_by_one());
    let mut low = rig.submit(prioritised("low", 40, Priority::Low));
    for round in 0..10 {
        let mut high = rig.submit(prioritised(&format!("high {round}"), 2, Priority::High));
        while high.reason().is_none() {
            rig.step();
        }
        rig.step();
        rig.step();
    }
    rig.settle();
    assert_eq!(low.end().usage.completion, 40);
    assert!(rig.count(|stats| &stats.preemptions) <= 3);
}
