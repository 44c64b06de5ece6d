//! Several choices of one request: they share the prompt, differ by what they draw, and each comes and goes alone.

use super::support::{Reader, Rig, alone, choices_alone, config, limits, request};
use crate::engine::paged::Config;
use crate::engine::{FinishReason, GenerateRequest, Sampling, SubmitError};

const LONG: &str = "you are the host of a live show and answer viewers in one short sentence";

fn warm(text: &str, max_tokens: usize) -> GenerateRequest {
    GenerateRequest {
        sampling: Sampling {
            temperature: 1.0,
            seed: 7,
            ..Sampling::default()
        },
        ..request(text, max_tokens)
    }
}

fn texts(readers: &mut [Reader]) -> Vec<String> {
    readers.iter_mut().map(Reader::text).collect()
}

/// Fault: every choice prefilled the whole prompt for itself.
#[test]
fn the_prompt_is_computed_once_and_counted_once() {
    let big = Config {
        step_tokens: 1000,
        mixed_step_tokens: 1000,
        ..config()
    };
    for config in [config(), big] {
        let mut rig = Rig::new(limits(200, 4), &config);
        rig.control.record();
        let mut readers = rig.try_choices(warm(LONG, 5), 4).unwrap();
        rig.settle();
        let batches = rig.control.take_recorded();
        let computed: usize = batches.iter().map(|batch| batch.tokens.len()).sum();
        // 72 tokens are 18 blocks; the last one is computed by each, since its logits are needed.
        assert_eq!(computed, 72 + 3 * 4 + 4 * 4);
        let finish: Vec<_> = readers.iter_mut().map(Reader::end).collect();
        assert!(finish.iter().all(|finish| finish.usage.completion == 5));
        assert!(finish.iter().all(|finish| finish.usage.cached == 0));
        assert_eq!(rig.count(|stats| &stats.prompt_tokens), 72);
        assert_eq!(rig.count(|stats| &stats.prefix_query_tokens), 72);
        assert_eq!(rig.count(|stats| &stats.prefix_hit_tokens), 0);
        assert_eq!(rig.count(|stats| &stats.generation_tokens), 20);
        assert_eq!(rig.stats.time_to_first_token.snapshot().total, 1);
    }
}

#[test]
fn choices_differ_by_their_draws_only_and_the_first_is_the_plain_answer() {
    let mut eight = choices_alone(warm(LONG, 12), 8);
    let eight = texts(&mut eight);
    for (index, text) in eight.iter().enumerate() {
        assert!(!eight[..index].contains(text), "two choices say {text:?}");
    }
    assert_eq!(texts(&mut choices_alone(warm(LONG, 12), 3)), eight[..3]);
    assert_eq!(alone(warm(LONG, 12)).0, eight[0]);
    let greedy = texts(&mut choices_alone(request(LONG, 12), 3));
    assert!(greedy.iter().all(|text| *text == greedy[0]));
}

#[test]
fn a_request_takes_one_place_in_the_queue_however_many_choices_it_has() {
    let small = Config {
        queue: 2,
        ..config()
    };
    let mut rig = Rig::new(limits(200, 4), &small);
    let mut first = rig.try_choices(warm("one", 3), 8).unwrap();
    let mut second = rig.try_choices(warm("two", 3), 8).unwrap();
    let full = Err(SubmitError::QueueFull { limit: 2 });
    assert_eq!(rig.try_choices(warm("three", 3), 2).map(|_| ()), full);
    assert_eq!(rig.count(|stats| &stats.requests_waiting), 2);
    rig.settle();
    for reader in first.iter_mut().chain(&mut second) {
        assert_eq!(reader.reason(), Some(FinishReason::Length));
    }
    assert_eq!(rig.count(|stats| &stats.requests_waiting), 0);
    assert!(!rig.shared.heartbeat().busy);
    assert!(rig.try_submit(request("again", 1)).is_ok());
}

#[test]
fn one_choice_can_leave_at_any_time_and_the_others_go_on() {
    let whole = texts(&mut choices_alone(warm(LONG, 8), 3));
    for leaver in 0..3 {
        for steps in [0, 1, 3, 6, 8] {
            let mut rig = Rig::new(limits(200, 4), &config());
            let mut readers = rig.try_choices(warm(LONG, 8), 3).unwrap();
            rig.steps(steps);
            drop(readers.remove(leaver));
            rig.settle();
            let mut expected = whole.clone();
            expected.remove(leaver);
            assert_eq!(texts(&mut readers), expected, "{leaver} left after {steps}");
            assert_eq!(rig.blocks_used(), 0);
            assert_eq!(rig.count(|stats| &stats.requests_waiting), 0);
            assert_eq!(rig.count(|stats| &stats.zombie_tokens), 0);
        }
    }
}

#[test]
fn all_choices_leaving_free_all_within_a_step() {
    let mut rig = Rig::new(limits(200, 4), &config());
    for steps in [0, 2, 7] {
        let readers = rig.try_choices(warm(LONG, 50), 8).unwrap();
        rig.steps(steps);
        drop(readers);
        rig.step();
        assert_eq!(rig.blocks_used(), 0);
        assert!(!rig.shared.heartbeat().busy);
    }
}

#[test]
fn choices_that_wait_for_the_first_stop_nobody_else() {
    let mut rig = Rig::new(limits(200, 4), &config());
    let choices = rig.try_choices(warm(LONG, 3), 3).unwrap();
    let mut other = rig.submit(request("short", 1));
    // The first choice computes its prompt over five steps.
    rig.steps(6);
    assert_eq!(other.reason(), Some(FinishReason::Length));
    drop(choices);
}

#[test]
fn a_failed_step_ends_the_choices_that_were_in_it() {
    let mut rig = Rig::new(limits(200, 4), &config());
    let mut readers = rig.try_choices(warm("hello", 3), 2).unwrap();
    rig.control.fail_next("out of luck");
    rig.settle();
    assert!(matches!(readers[0].reason(), Some(FinishReason::Error(_))));
    assert_eq!(readers[1].reason(), Some(FinishReason::Length));
}
