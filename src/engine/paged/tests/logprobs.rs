//! How likely tokens were, of the output and of the prompt: the model's own view, whatever is done to the logits.

use super::support::{Reader, Rig, choices_alone, config, limits, request};
use crate::engine::paged::Config;
use crate::engine::{FinishReason, GenerateRequest, Sampling, TokenLogprob};

const LONG: &str = "you are the host of a live show and answer viewers in one short sentence";

/// The prompt scored and continued.
fn scored(text: &str, max_tokens: usize) -> GenerateRequest {
    GenerateRequest {
        logprobs: Some(5),
        prompt_logprobs: Some(3),
        ..request(text, max_tokens)
    }
}

fn whole(request: GenerateRequest) -> Reader {
    choices_alone(request, 1).remove(0)
}

fn likelihoods(scores: &[TokenLogprob]) -> Vec<f32> {
    scores.iter().map(|score| score.logprob).collect()
}

#[test]
fn each_token_of_the_output_has_an_entry_that_spells_it() {
    let mut reader = whole(scored(LONG, 20));
    let spelled: Vec<u8> = reader
        .scores
        .iter()
        .map(|score| score.token as u8)
        .collect();
    assert_eq!(String::from_utf8(spelled).unwrap(), reader.text());
    for score in &reader.scores {
        assert_eq!(score.top.as_slice().len(), 5);
        assert_eq!(
            score.top.as_slice()[0],
            (score.token, score.logprob),
            "greedy"
        );
        assert!(score.top.as_slice().is_sorted_by(|a, b| a.1 >= b.1));
        assert!(score.logprob.is_finite() && score.logprob <= 0.0);
    }
}

#[test]
fn all_probabilities_add_up_to_one() {
    let mut request = scored("a", 3);
    request.logprobs = Some(20);
    for score in whole(request).scores {
        // The fake's logits spread over 16: the 20 highest of 128 hold nearly everything.
        let sum: f32 = score
            .top
            .as_slice()
            .iter()
            .map(|(_, logprob)| logprob.exp())
            .sum();
        assert!((0.9..1.0001).contains(&sum), "{sum}");
    }
}

/// Fault: the log-probabilities were those of the truncated distribution, minus infinity for most tokens.
#[test]
fn what_is_done_to_the_logits_does_not_show() {
    let plain = whole(scored(LONG, 1));
    let first = plain.scores[0].top.as_slice()[0].0;
    let second = plain.scores[0].top.as_slice()[1];
    let changed = Sampling {
        temperature: 0.7,
        top_p: 0.05,
        top_k: 1,
        repetition_penalty: 1.7,
        logit_bias: vec![(first, -100.0), (second.0, 100.0)],
        ..Sampling::default()
    };
    let reader = whole(GenerateRequest {
        sampling: changed,
        ..scored(LONG, 1)
    });
    assert_eq!(reader.scores[0].token, second.0, "the bias decides");
    assert_eq!(reader.scores[0].logprob, second.1, "and is not shown");
    assert_eq!(reader.scores[0].top, plain.scores[0].top);
}

#[test]
fn a_prompt_is_scored_as_it_would_have_been_said() {
    let mut said = whole(scored(LONG, 20));
    let longer = format!("{LONG}{}", said.text());
    let reader = whole(scored(&longer, 1));
    let prompt = reader.prompt.unwrap();
    assert_eq!(prompt.len(), longer.len() - 1);
    assert_eq!(
        likelihoods(&prompt[LONG.len() - 1..]),
        likelihoods(&said.scores)
    );
    assert_eq!(prompt[..LONG.len() - 1], said.prompt.unwrap());
    let tokens: Vec<u8> = prompt.iter().map(|score| score.token as u8).collect();
    assert_eq!(tokens, longer.as_bytes()[1..]);
}

#[test]
fn a_prompt_may_be_scored_and_not_continued() {
    for text in ["x", "xy", LONG] {
        let mut reader = whole(GenerateRequest {
            logprobs: None,
            ..scored(text, 0)
        });
        assert_eq!(reader.prompt.as_ref().map(Vec::len), Some(text.len() - 1));
        let finish = reader.end();
        assert_eq!(
            (reader.text(), finish.reason),
            (String::new(), FinishReason::Length)
        );
        assert_eq!(
            (finish.usage.prompt, finish.usage.completion),
            (text.len(), 0)
        );
    }
}

#[test]
fn scores_are_the_same_from_a_cache_in_chunks_and_after_preemption() {
    let whole = whole(scored(LONG, 12));
    let config = Config {
        step_tokens: 7,
        mixed_step_tokens: 5,
        ..config()
    };
    // Room for one and a half of them.
    let mut rig = Rig::new(limits(34, 4), &config);
    rig.submit(request(LONG, 1));
    rig.settle();
    let mut readers: Vec<Reader> = (0..4).map(|_| rig.submit(scored(LONG, 12))).collect();
    rig.settle();
    for reader in &mut readers {
        let usage = reader.end().usage;
        assert_eq!(usage.completion, 12);
        assert_eq!(reader.scores, whole.scores);
        assert_eq!(reader.prompt, whole.prompt);
        assert_eq!(usage.cached, 0, "every row of a scored prompt is computed");
    }
    assert_eq!(rig.blocks_used(), 0);
}

#[test]
fn a_step_scores_no_more_rows_than_memory_is_meant_for() {
    let big = Config {
        step_tokens: 4096,
        mixed_step_tokens: 4096,
        ..config()
    };
    let mut rig = Rig::new(limits(200, 4), &big);
    rig.control.record();
    let mut reader = rig.submit(scored(&"x".repeat(300), 1));
    rig.settle();
    let batches = rig.control.take_recorded();
    assert!(batches.iter().all(|batch| batch.logit_rows.len() <= 33));
    assert_eq!(reader.end().usage.completion, 1);
}

#[test]
fn with_several_choices_the_prompt_is_scored_once() {
    let mut readers = choices_alone(scored(LONG, 4), 3);
    assert!(readers[0].prompt.is_some());
    assert!(readers[1].prompt.is_none() && readers[2].prompt.is_none());
    assert!(readers.iter_mut().all(|reader| reader.scores.len() == 4));
}

#[test]
fn logits_that_are_no_numbers_fail_the_request_and_no_other() {
    let mut rig = Rig::new(limits(100, 4), &config());
    let mut bad = rig.submit(scored("abc", 3));
    rig.control.poison_next();
    rig.step();
    assert!(matches!(bad.reason(), Some(FinishReason::Error(_))));
    let mut good = rig.submit(scored("abc", 3));
    rig.settle();
    assert_eq!(good.end().usage.completion, 3);
}
