//! The same text whatever happens around a request. The fake's next token depends on every token that it reads back
//! through the block tables, so any mix-up shows.

use super::support::{Reader, Rig, alone, config, limits, request};
use crate::engine::paged::Config;
use crate::engine::{GenerateRequest, Sampling};

const LONG: &str = "you are the host of a live show and answer viewers in one short sentence";

fn sampled(text: &str, max_tokens: usize, seed: u64) -> GenerateRequest {
    GenerateRequest {
        sampling: Sampling {
            temperature: 1.0,
            top_p: 0.95,
            repetition_penalty: 1.2,
            frequency_penalty: 0.3,
            seed,
            ..Sampling::default()
        },
        ..request(text, max_tokens)
    }
}

#[test]
fn batched_is_alone() {
    let mut rig = Rig::new(limits(400, 4), &config());
    let requests: Vec<_> = (0..12)
        .map(|n: usize| match n % 2 {
            0 => request(&format!("{n} {}", &LONG[..10 + n]), 8 + n),
            _ => sampled(&format!("{LONG} {n}"), 8 + n, n as u64),
        })
        .collect();
    let mut readers = Vec::new();
    for request in &requests {
        readers.push(rig.submit(request.clone()));
        rig.step();
    }
    rig.settle();
    for (request, reader) in requests.into_iter().zip(&mut readers) {
        let (text, finish) = alone(request);
        assert_eq!(reader.text(), text);
        assert_eq!(reader.end().usage.completion, finish.usage.completion);
    }
}

#[test]
fn chunked_is_whole() {
    let whole = alone(request(LONG, 20)).0;
    for step_tokens in [5, 6, 7, 13] {
        for block_tokens in [1, 3, 16] {
            let config = Config {
                step_tokens,
                mixed_step_tokens: 5,
                ..config()
            };
            let mut rig = Rig::new(limits(300, block_tokens), &config);
            let mut other = rig.submit(request("another", 60));
            rig.step();
            let mut reader = rig.submit(request(LONG, 20));
            rig.settle();
            assert_eq!(reader.text(), whole, "{step_tokens} tokens a step");
            assert_eq!(other.end().usage.completion, 60);
        }
    }
}

#[test]
fn cached_is_cold() {
    let mut rig = Rig::new(limits(100, 4), &config());
    let first = format!("{LONG}, please");
    let second = format!("{LONG}: now");
    let texts = [first.clone(), first, second];
    for (text, expected) in texts.iter().zip([0, 76, 72]) {
        let mut reader = rig.submit(request(text, 10));
        rig.settle();
        assert_eq!(reader.end().usage.cached, expected);
        assert_eq!(reader.text(), alone(request(text, 10)).0);
    }
    let hits = rig.count(|stats| &stats.prefix_hit_tokens);
    let queries = rig.count(|stats| &stats.prefix_query_tokens);
    assert_eq!((hits, queries), (76 + 72, 80 + 80 + 77));
}

#[test]
fn a_whole_cached_prompt_still_computes_its_last_token() {
    let mut rig = Rig::new(limits(100, 4), &config());
    let text = &LONG[..16];
    for expected in [0, 12, 12] {
        let mut reader = rig.submit(request(text, 3));
        rig.settle();
        assert_eq!(reader.end().usage.cached, expected);
        assert_eq!(reader.text(), alone(request(text, 3)).0);
    }
}

#[test]
fn generated_text_is_cached_for_the_next_turn() {
    let mut rig = Rig::new(limits(100, 4), &config());
    let mut first = rig.submit(request(&LONG[..20], 13));
    rig.settle();
    let next = format!("{}{} and more", &LONG[..20], first.text());
    let mut second = rig.submit(request(&next, 4));
    rig.settle();
    assert_eq!(
        second.end().usage.cached,
        32,
        "all but the last generated token"
    );
    assert_eq!(second.text(), alone(request(&next, 4)).0);
}

#[test]
fn requests_that_prefill_the_same_prefix_together_share_it() {
    let mut rig = Rig::new(limits(200, 4), &config());
    let requests: Vec<_> = (0..4).map(|n| request(&format!("{LONG} {n}"), 6)).collect();
    let mut readers: Vec<Reader> = requests.iter().map(|r| rig.submit(r.clone())).collect();
    rig.settle();
    for (request, reader) in requests.into_iter().zip(&mut readers) {
        assert_eq!(reader.text(), alone(request).0);
    }
    let cached: Vec<_> = readers.iter_mut().map(|r| r.end().usage.cached).collect();
    // The second one computed the six tokens that the first one's last step left room for.
    assert_eq!(cached, [0, 66, 72, 72]);
}

/// Fault: after eviction a request was not rebuilt from its prompt and all it had said.
#[test]
fn preempted_is_undisturbed() {
    let requests: Vec<_> = (0..8)
        .map(|n: u64| {
            let text = format!("{n}{}", &LONG[..12]);
            if n.is_multiple_of(2) {
                request(&text, 40)
            } else {
                sampled(&text, 40, n)
            }
        })
        .collect();
    // Room for two whole sequences; eight want it.
    let mut rig = Rig::new(limits(28, 4), &config());
    let mut readers: Vec<Reader> = requests.iter().map(|r| rig.submit(r.clone())).collect();
    rig.settle();
    assert!(rig.count(|stats| &stats.preemptions) > 0);
    for (request, reader) in requests.into_iter().zip(&mut readers) {
        let (text, finish) = alone(request);
        assert_eq!(reader.text(), text);
        assert_eq!(reader.deltas.len(), 40, "no piece is sent twice or lost");
        assert_eq!(reader.end().usage.prompt, finish.usage.prompt);
        assert_eq!(reader.end().usage.completion, finish.usage.completion);
        assert_eq!(
            reader.end().usage.cached,
            0,
            "its own blocks, found again, do not count"
        );
    }
    assert_eq!(rig.count(|stats| &stats.prompt_tokens), 8 * 13);
    assert_eq!(rig.count(|stats| &stats.prefix_hit_tokens), 0);
    assert_eq!(rig.blocks_used(), 0);
}

/// Fault: state of earlier requests changed later ones until a restart.
#[test]
fn earlier_work_leaves_no_trace() {
    let fresh = alone(request(LONG, 30)).0;
    let mut rig = Rig::new(limits(40, 4), &config());
    for round in 0..10 {
        let dropped: Vec<_> = (0..4)
            .map(|n| rig.submit(sampled(&LONG[..20 + round + n], 40, n as u64)))
            .collect();
        for _ in 0..round {
            rig.step();
        }
        if round % 3 == 0 {
            rig.control.fail_next("out of luck");
        }
        rig.step();
        drop(dropped);
        let mut readers: Vec<_> = (0..3).map(|_| rig.submit(request(LONG, 30))).collect();
        rig.settle();
        for reader in &mut readers {
            assert_eq!(reader.text(), fresh);
        }
    }
}
