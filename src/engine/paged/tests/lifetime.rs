//! From submission to the last event: cancellation, deadlines, failures, and what is counted.

use std::time::Duration;

use super::support::{Reader, Rig, config, limits, request};
use crate::engine::paged::Config;
use crate::engine::{FinishReason, GenerateRequest};

/// Fault: closing a stream did not stop its generation, and it kept its cache blocks.
#[test]
fn a_dropped_stream_frees_its_blocks_within_one_step() {
    // Steps until the drop: still in the channel, in prefill, in decode.
    for steps in [0, 1, 3, 8, 20] {
        let mut rig = Rig::new(limits(100, 4), &config());
        let reader = rig.submit(request(&"x".repeat(60), 100));
        for _ in 0..steps {
            rig.step();
        }
        let generated = rig.count(|stats| &stats.generation_tokens);
        drop(reader);
        rig.step();
        assert_eq!(rig.blocks_used(), 0, "after {steps} steps");
        assert_eq!(rig.count(|stats| &stats.requests_running), 0);
        assert_eq!(rig.count(|stats| &stats.requests_waiting), 0);
        assert!(!rig.shared.heartbeat().busy);
        rig.settle();
        assert_eq!(rig.count(|stats| &stats.generation_tokens), generated);
        assert_eq!(rig.count(|stats| &stats.zombie_tokens), 0);
    }
}

/// Fault: queued requests of clients that had gone were never taken out.
#[test]
fn a_dropped_stream_leaves_the_queue_behind_a_running_one() {
    let config = Config {
        max_running: 1,
        queue: 3,
        ..config()
    };
    let mut rig = Rig::new(limits(100, 4), &config);
    let _running = rig.submit(request("running", 100));
    rig.step();
    let queued: Vec<_> = (0..3).map(|_| rig.submit(request("queued", 5))).collect();
    rig.step();
    assert!(rig.try_submit(request("too many", 5)).is_err());
    drop(queued);
    rig.step();
    assert_eq!(rig.count(|stats| &stats.requests_waiting), 0);
    let mut next = rig.submit(request("next", 5));
    rig.settle();
    assert_eq!(next.end().reason, FinishReason::Length);
}

#[test]
fn a_deadline_in_the_queue_ends_a_request_before_its_prefill() {
    let config = Config {
        max_running: 1,
        ..config()
    };
    let mut rig = Rig::new(limits(100, 4), &config);
    let _running = rig.submit(request("running", 40));
    rig.step();
    let computed = rig.count(|stats| &stats.prompt_tokens);
    let mut late = rig.submit(GenerateRequest {
        deadline: Some(rig.now() + Duration::from_secs(2)),
        ..request("late", 5)
    });
    rig.pass(Duration::from_secs(2));
    rig.step();
    let finish = late.end();
    assert_eq!(finish.reason, FinishReason::Deadline);
    assert_eq!(finish.usage.completion, 0);
    assert_eq!(finish.timings.first_token, Duration::ZERO);
    assert_eq!(finish.timings.queue, finish.timings.total);
    assert_eq!(rig.count(|stats| &stats.prompt_tokens), computed);
}

#[test]
fn a_deadline_while_running_ends_with_what_there_is() {
    let mut rig = Rig::new(limits(100, 4), &config());
    let mut reader = rig.submit(GenerateRequest {
        deadline: Some(rig.now() + Duration::from_secs(2)),
        ..request("running", 50)
    });
    for _ in 0..4 {
        rig.step();
    }
    rig.pass(Duration::from_secs(3));
    rig.step();
    let finish = reader.end();
    assert_eq!(finish.reason, FinishReason::Deadline);
    assert_eq!(finish.usage.completion, 4);
    assert_eq!(reader.text().len(), 4);
    assert_eq!(rig.blocks_used(), 0);
}

#[test]
fn a_failed_step_ends_its_sequences_and_no_others() {
    let config = Config {
        max_running: 2,
        ..config()
    };
    let mut rig = Rig::new(limits(100, 4), &config);
    let mut readers: Vec<Reader> = (0..3)
        .map(|n| rig.submit(request(&format!("request {n}"), 10)))
        .collect();
    while rig.count(|stats| &stats.requests_running) < 2 {
        rig.step();
    }
    rig.step();
    rig.control.fail_next("no memory left");
    rig.step();
    for reader in &mut readers[..2] {
        let reason = reader.end().reason;
        let expected = "forward pass failed: no memory left".to_owned();
        assert_eq!(reason, FinishReason::Error(expected));
    }
    rig.settle();
    assert_eq!(readers[2].end().reason, FinishReason::Length);
    assert_eq!(rig.blocks_used(), 0);
}

#[test]
fn unusable_logits_end_their_sequence_and_leave_nothing_in_the_cache() {
    let mut rig = Rig::new(limits(100, 4), &config());
    let text = "a prompt of 20 byte.";
    let mut reader = rig.submit(request(text, 10));
    rig.step();
    rig.control.poison_next();
    rig.step();
    let reason = reader.end().reason;
    assert!(
        matches!(&reason, FinishReason::Error(text) if text.contains("NaN")),
        "{reason:?}"
    );
    let mut again = rig.submit(request(text, 10));
    rig.settle();
    assert_eq!(
        again.end().usage.cached,
        0,
        "what led to it is not used again"
    );
}

#[test]
fn usage_and_timings_tell_what_happened() {
    let config = Config {
        max_running: 1,
        ..config()
    };
    let mut rig = Rig::new(limits(100, 4), &config);
    let mut first = rig.submit(request("first", 1));
    let mut second = rig.submit(request(&"x".repeat(30), 3));
    rig.pass(Duration::from_millis(100));
    rig.step();
    let mut steps = 0;
    while second.reason().is_none() {
        rig.pass(Duration::from_millis(10));
        rig.step();
        steps += 1;
    }
    assert_eq!(first.end().timings.queue, Duration::from_millis(100));
    // Its 30 tokens take two steps of 16, and then two more tokens.
    assert_eq!(steps, 4);
    let timings = second.end().timings;
    assert_eq!(timings.queue, Duration::from_millis(110));
    assert_eq!(timings.first_token, Duration::from_millis(120));
    assert_eq!(timings.total, Duration::from_millis(140));
    assert_eq!(rig.count(|stats| &stats.prompt_tokens), 35);
    assert_eq!(rig.count(|stats| &stats.generation_tokens), 4);
    assert_eq!(rig.stats.time_to_first_token.snapshot().total, 2);
    let gaps = rig.stats.inter_token.snapshot();
    assert_eq!((gaps.total, gaps.sum), (2, 0.02));
    assert_eq!(rig.stats.step.snapshot().total, 5);
    assert_eq!(rig.stats.batch_size.snapshot().sum, 5.0);
    assert_eq!(rig.count(|stats| &stats.kv_blocks), 100);
}

#[test]
fn an_unread_stream_delays_nobody() {
    let mut rig = Rig::new(limits(400, 4), &config());
    let mut unread = rig.submit(request("nobody reads this", 300));
    let mut read = rig.submit(request("somebody reads this", 300));
    while rig.step() {
        read.read();
    }
    assert_eq!(read.end().usage.completion, 300);
    assert_eq!(unread.text().len(), 300, "all of it is there");
    assert_eq!(unread.end().reason, FinishReason::Length);
}

#[test]
fn only_rows_that_choose_a_token_ask_for_logits() {
    let mut rig = Rig::new(limits(100, 4), &config());
    rig.control.record();
    let _reader = rig.submit(request(&"x".repeat(40), 3));
    rig.settle();
    let asked: Vec<_> = rig
        .control
        .take_recorded()
        .iter()
        .map(|b| b.logit_rows.clone())
        .collect();
    assert_eq!(asked, [vec![], vec![], vec![7], vec![0], vec![0]]);
}

#[test]
fn the_heartbeat_counts_from_the_last_step_or_from_the_arrival_of_work() {
    let second = Duration::from_secs(1);
    let mut rig = Rig::new(limits(100, 4), &config());
    let since = |rig: &Rig| rig.shared.heartbeat().since_step;
    rig.pass(10 * second);
    assert_eq!(since(&rig), 10 * second);
    let _first = rig.submit(request("first", 9));
    assert_eq!(since(&rig), Duration::ZERO, "an idle engine did not hang");
    rig.pass(2 * second);
    let _second = rig.submit(request("second", 9));
    assert_eq!(since(&rig), 2 * second, "more work does not hide a hang");
    rig.step();
    assert_eq!(since(&rig), Duration::ZERO);
}

#[test]
fn an_idle_engine_does_nothing() {
    let mut rig = Rig::new(limits(100, 4), &config());
    assert!(!rig.step());
    let mut reader = rig.submit(request("once", 2));
    assert!(rig.shared.heartbeat().busy);
    rig.settle();
    assert_eq!(reader.end().usage.completion, 2);
    let passes = rig.control.entered();
    assert!(!rig.step());
    assert_eq!(rig.control.entered(), passes);
    assert!(!rig.shared.heartbeat().busy);
}
