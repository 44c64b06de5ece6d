//! Guessed tokens change how many steps an answer takes, and nothing else.

use super::support::{Reader, Rig, choices_of, config, limits, request};
use crate::engine::paged::Config;
use crate::engine::paged::fake::FakeRunner;
use crate::engine::{FinishReason, GenerateRequest, Sampling};

/// Of a model whose next token depends on the latest one only.
const MEMORY: usize = 1;
const TEXT: &str = "the jacket is waterproof to 10,000 mm";

fn rig(blocks: usize, block_tokens: usize, speculate_rows: usize) -> Rig {
    let config = Config {
        speculate_rows,
        ..config()
    };
    Rig::over(
        FakeRunner::forgetful(limits(blocks, block_tokens), MEMORY),
        &config,
    )
}

fn requests() -> Vec<GenerateRequest> {
    let plain = request(TEXT, 60);
    let sampled = GenerateRequest {
        sampling: Sampling {
            temperature: 0.05,
            top_k: 2,
            seed: 5,
            ..Sampling::default()
        },
        logprobs: Some(3),
        ..request(TEXT, 60)
    };
    let penalised = GenerateRequest {
        sampling: Sampling {
            frequency_penalty: 0.01,
            presence_penalty: 0.01,
            ..Sampling::default()
        },
        ..request(&TEXT[4..], 60)
    };
    vec![plain, sampled, penalised]
}

fn assert_same(reader: &mut Reader, request: GenerateRequest) {
    let mut alone = choices_of(MEMORY, request, 1).remove(0);
    assert_eq!(reader.text(), alone.text());
    assert_eq!(reader.scores, alone.scores);
    assert_eq!(reader.end().reason, alone.end().reason);
    assert_eq!(reader.end().usage.completion, alone.end().usage.completion);
}

#[test]
fn speculated_is_plain_in_fewer_steps() {
    for request in requests() {
        let mut steps = [0, 0];
        for (speculate_rows, steps) in [0, 12].into_iter().zip(&mut steps) {
            let mut rig = rig(64, 16, speculate_rows);
            let mut reader = rig.submit(request.clone());
            while rig.step() {
                *steps += 1;
            }
            assert_same(&mut reader, request.clone());
            let guessed = rig.count(|stats| &stats.speculated_tokens);
            let right = rig.count(|stats| &stats.speculated_right_tokens);
            assert_eq!(guessed > 0, speculate_rows > 0);
            assert!(right <= guessed);
            let sampled = rig.count(|stats| &stats.generation_tokens);
            assert_eq!(sampled, reader.end().usage.completion as u64);
        }
        assert!(steps[1] < steps[0], "{steps:?}");
    }
}

#[test]
fn speculated_is_plain_beside_others_and_after_preemption() {
    let mut rig = rig(14, 8, 12);
    let requests: Vec<_> = (0..3).flat_map(|_| requests()).collect();
    let mut readers: Vec<Reader> = requests.iter().map(|r| rig.submit(r.clone())).collect();
    rig.settle();
    assert!(rig.count(|stats| &stats.preemptions) > 0);
    assert!(rig.count(|stats| &stats.speculated_right_tokens) > 0);
    for (reader, request) in readers.iter_mut().zip(requests) {
        assert_same(reader, request);
    }
    assert_eq!(rig.blocks_used(), 0);
}

/// What it is to say ends inside a guess.
#[test]
fn the_end_is_the_same_wherever_a_guess_reaches() {
    let whole = choices_of(MEMORY, request(TEXT, 60), 1)[0].text();
    for length in 1..60 {
        let mut limited = rig(64, 16, 16);
        let mut reader = limited.submit(request(TEXT, length));
        limited.settle();
        assert_eq!(reader.text(), whole[..length]);
        assert_eq!(reader.reason(), Some(FinishReason::Length));

        let stop = GenerateRequest {
            stop: vec![whole[length - 1..=length].to_owned()],
            ..request(TEXT, 60)
        };
        let mut stopped = rig(64, 16, 16);
        let mut reader = stopped.submit(stop.clone());
        stopped.settle();
        assert_same(&mut reader, stop);
    }
}

/// A later request finds what a speculating one stored, and reads no guess that was wrong.
#[test]
fn what_it_leaves_in_the_cache_is_right() {
    let mut rig = rig(64, 4, 12);
    let mut first = rig.submit(request(TEXT, 40));
    rig.settle();
    let next = format!("{TEXT}{}!", first.text());
    let mut second = rig.submit(request(&next, 20));
    rig.settle();
    let stored = (TEXT.len() + 40 - 1) / 4 * 4;
    assert_eq!(second.end().usage.cached, stored);
    assert_same(&mut second, request(&next, 20));
}

#[test]
fn a_dropped_stream_frees_its_blocks_in_the_step_that_guesses() {
    let mut rig = rig(64, 4, 12);
    let reader = rig.submit(request(TEXT, 60));
    rig.steps(12);
    assert!(rig.blocks_used() > 0);
    drop(reader);
    rig.step();
    assert_eq!(rig.blocks_used(), 0);
}
