//! What is refused at the door, and by which name.

use super::support::{ASCII, Rig, config, limits, prompt, request};
use crate::engine::paged::{Config, StartError};
use crate::engine::{GenerateRequest, Sampling, SubmitError};

fn refused(rig: &Rig, request: GenerateRequest) -> SubmitError {
    rig.try_submit(request).map(|_| ()).unwrap_err()
}

fn field(error: &SubmitError) -> &'static str {
    match error {
        SubmitError::Invalid { field, .. } => field,
        other => panic!("{other:?}"),
    }
}

#[test]
fn prompt_and_output_share_the_context_and_the_numbers_add_up() {
    let rig = Rig::new(limits(10, 4), &config());
    assert!(rig.try_submit(request(&"x".repeat(30), 10)).is_ok());
    for max_tokens in [11, 50, usize::MAX] {
        let error = refused(&rig, request(&"x".repeat(30), max_tokens));
        let expected = SubmitError::ContextLength {
            prompt: 30,
            max_tokens,
            limit: 40,
        };
        assert_eq!(error, expected);
    }
}

#[test]
fn the_model_context_bounds_a_sequence_when_the_pool_is_larger() {
    let mut small = limits(1000, 4);
    small.max_context = 50;
    let mut rig = Rig::new(small, &config());
    assert_eq!(rig.intake.limits().max_sequence_tokens, 50);
    assert!(rig.try_submit(request(&"x".repeat(45), 6)).is_err());
    let mut reader = rig.submit(GenerateRequest {
        max_tokens: None,
        ..request(&"x".repeat(45), 1)
    });
    rig.settle();
    assert_eq!(reader.end().usage.completion, 5, "what the context leaves");
    let full = GenerateRequest {
        max_tokens: None,
        ..request(&"x".repeat(50), 1)
    };
    assert!(matches!(
        refused(&rig, full),
        SubmitError::ContextLength { limit: 50, .. }
    ));
}

#[test]
fn the_pool_bounds_an_open_ended_request() {
    let mut rig = Rig::new(limits(10, 4), &config());
    let mut reader = rig.submit(GenerateRequest {
        max_tokens: None,
        ..request(&"x".repeat(33), 1)
    });
    rig.settle();
    assert_eq!(reader.end().usage.completion, 7);
}

#[test]
fn tokens_outside_the_vocabulary_and_numbers_without_meaning_are_refused_by_name() {
    type Fault = fn(&mut GenerateRequest);
    let faults: [(&str, &str, Fault); 10] = [
        ("logit_bias", "token 128", |r| {
            r.sampling.logit_bias = vec![(0, 1.0), (128, 1.0)]
        }),
        ("logit_bias", "twice", |r| {
            r.sampling.logit_bias = vec![(5, 1.0), (0, 2.0), (5, 1.0)]
        }),
        ("logit_bias", "-100 to 100", |r| {
            r.sampling.logit_bias = vec![(0, f32::NAN)]
        }),
        ("logit_bias", "-100 to 100", |r| {
            r.sampling.logit_bias = vec![(0, 100.5)]
        }),
        ("stop_token_ids", "token 4000000000", |r| {
            r.stop_token_ids = vec![1, 4_000_000_000]
        }),
        ("logprobs", "at most 20", |r| r.logprobs = Some(21)),
        ("prompt_logprobs", "at most 20", |r| {
            r.prompt_logprobs = Some(usize::MAX)
        }),
        ("min_tokens", "at most max_tokens, 5", |r| r.min_tokens = 6),
        ("min_tokens", "at most max_tokens, 39", |r| {
            (r.max_tokens, r.min_tokens) = (None, 40)
        }),
        ("max_tokens", "at least 1", |r| {
            (r.max_tokens, r.logprobs) = (Some(0), Some(1))
        }),
    ];
    let rig = Rig::new(limits(10, 4), &config());
    for (name, words, fault) in faults {
        let mut request = request("x", 5);
        fault(&mut request);
        let error = refused(&rig, request);
        assert_eq!(field(&error), name);
        assert!(error.to_string().contains(words), "{error}");
    }
    for n in [0, 9, usize::MAX] {
        let error = rig.try_choices(request("x", 5), n).map(|_| ()).unwrap_err();
        assert_eq!(field(&error), "n");
    }
}

#[test]
fn fields_that_mean_nothing_are_refused_by_name() {
    let rig = Rig::new(limits(10, 4), &config());
    assert_eq!(field(&refused(&rig, request("", 5))), "prompt");
    assert_eq!(field(&refused(&rig, request("x", 0))), "max_tokens");
    let outside = GenerateRequest {
        prompt: vec![1, ASCII as u32],
        ..request("x", 5)
    };
    assert_eq!(field(&refused(&rig, outside)), "prompt");
    let empty_stop = GenerateRequest {
        stop: vec!["END".to_owned(), String::new()],
        ..request("x", 5)
    };
    assert_eq!(field(&refused(&rig, empty_stop)), "stop");
    assert_eq!(field(&rig.intake.pin(Vec::new()).unwrap_err()), "prompt");
    assert!(rig.intake.pin(prompt(&"x".repeat(41))).is_err());
}

/// Fault: a one-sided comparison let a temperature that is not a number through.
#[test]
fn sampling_outside_its_range_never_reaches_the_engine() {
    let rig = Rig::new(limits(10, 4), &config());
    let with = |change: fn(&mut Sampling, f32), value: f32| {
        let mut request = request("x", 5);
        change(&mut request.sampling, value);
        field(&refused(&rig, request))
    };
    for value in [f32::NAN, f32::INFINITY, -1e30] {
        assert_eq!(with(|s, v| s.temperature = v, value), "temperature");
        assert_eq!(with(|s, v| s.top_p = v, value), "top_p");
        assert_eq!(with(|s, v| s.min_p = v, value), "min_p");
        assert_eq!(
            with(|s, v| s.repetition_penalty = v, value),
            "repetition_penalty"
        );
        assert_eq!(
            with(|s, v| s.presence_penalty = v, value),
            "presence_penalty"
        );
        assert_eq!(
            with(|s, v| s.frequency_penalty = v, value),
            "frequency_penalty"
        );
    }
    assert_eq!(with(|s, v| s.top_p = v, 0.0), "top_p");
}

/// Fault: the waiting queue had no limit.
#[test]
fn the_queue_is_bounded_and_refuses_at_once() {
    let config = Config {
        queue: 5,
        max_running: 2,
        ..config()
    };
    let mut rig = Rig::new(limits(100, 4), &config);
    let mut accepted: Vec<_> = (0..5).map(|_| rig.submit(request("x", 3))).collect();
    for _ in 0..100 {
        assert_eq!(
            refused(&rig, request("x", 3)),
            SubmitError::QueueFull { limit: 5 }
        );
        assert_eq!(rig.count(|stats| &stats.requests_waiting), 5);
    }
    rig.step();
    assert_eq!(rig.count(|stats| &stats.requests_waiting), 3);
    accepted.push(rig.submit(request("x", 3)));
    rig.settle();
    for reader in &mut accepted {
        assert_eq!(reader.end().usage.completion, 3);
    }
}

#[test]
fn settings_outside_their_range_are_refused_by_name() {
    type Fault = fn(&mut Config);
    let faults: [(&str, Fault); 6] = [
        ("max_running", |c| c.max_running = 0),
        ("max_running", |c| c.max_running = c.mixed_step_tokens),
        ("max_running", |c| c.step_tokens = c.max_running),
        ("queue", |c| c.queue = 0),
        ("pin_share", |c| c.pin_share = 1.0),
        ("aging_ms", |c| c.aging_ms = 0),
    ];
    for (name, fault) in faults {
        let mut config = Config::default();
        config.validate().unwrap();
        fault(&mut config);
        let error = config.validate().unwrap_err();
        assert!(
            matches!(error, StartError::Config { field, .. } if field == name),
            "{error}"
        );
    }
}

#[test]
fn unknown_settings_are_errors_and_absent_ones_defaults() {
    assert_eq!(toml::from_str::<Config>("").unwrap(), Config::default());
    let error = toml::from_str::<Config>("max_runing = 3")
        .unwrap_err()
        .to_string();
    assert!(error.contains("max_runing"), "{error}");
}
