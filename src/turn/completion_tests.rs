//! Several prompts and choices on the real scheduler over a fake model.

use super::*;
use crate::engine::paged::fake::{END, FakeRunner, byte_tokenizer};
use crate::engine::paged::runner::RunnerLimits;
use crate::engine::paged::{Config, PagedEngine};
use crate::engine::{Engine, Sampling, SubmitError};
use crate::telemetry::EngineStats;
use crate::template::ChatTemplate;

fn served() -> ServedModel {
    let limits = RunnerLimits {
        vocab: 257,
        max_context: 256,
        block_tokens: 4,
        blocks: 400,
    };
    let stats = Arc::new(EngineStats::default());
    let runner = Box::new(FakeRunner::hashing(limits));
    let engine = PagedEngine::start(runner, byte_tokenizer(), stats, &Config::default()).unwrap();
    let template = ChatTemplate::new("{{ messages[0].content }}", byte_tokenizer()).unwrap();
    ServedModel {
        id: "fake".to_owned(),
        created: 0,
        engine: Arc::new(engine) as Arc<dyn Engine>,
        template: Arc::new(template),
    }
}

fn request(prompts: &[&str], n: usize, options: GenerateRequest) -> CompletionRequest {
    CompletionRequest {
        prompts: prompts
            .iter()
            .map(|text| RawPrompt::Text((*text).to_owned()))
            .collect(),
        n,
        vary_seeds: false,
        options: GenerateRequest {
            max_tokens: Some(6),
            ignore_eos: true,
            sampling: Sampling {
                temperature: 1.0,
                seed: 3,
                ..Sampling::default()
            },
            ..options
        },
    }
}

async fn all(mut stream: CompletionStream) -> (Vec<CompletionEvent>, Usage) {
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event);
    }
    (events, stream.usage())
}

#[tokio::test]
async fn every_choice_of_every_prompt_ends_once_and_all_count_as_one() {
    let (model, metrics) = (served(), Arc::new(Metrics::new()));
    let asked = request(&["first", "the second"], 3, GenerateRequest::default());
    let stream = complete(&model, &metrics, asked).unwrap();
    assert_eq!((stream.choices(), stream.prompt_tokens()), (6, 15));
    let (events, usage) = all(stream).await;
    let mut ended: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            CompletionEvent::Finished { choice, .. } => Some(*choice),
            _ => None,
        })
        .collect();
    ended.sort_unstable();
    assert_eq!(ended, [0, 1, 2, 3, 4, 5]);
    assert!(matches!(
        events.last(),
        Some(CompletionEvent::Finished { .. })
    ));
    assert_eq!((usage.prompt, usage.completion), (15, 36));
    let rendered = metrics.render();
    assert!(
        rendered.contains("avatar_chat_accepted_total 1\n"),
        "{rendered}"
    );
    assert!(
        rendered.contains("avatar_chat_total{outcome=\"length\"} 1\n"),
        "{rendered}"
    );
}

/// Fault: equal prompts of one request without a seed got one and the same answer.
#[tokio::test]
async fn equal_prompts_differ_unless_a_seed_is_given() {
    let (model, metrics) = (served(), Arc::new(Metrics::new()));
    for vary_seeds in [false, true] {
        let asked = CompletionRequest {
            vary_seeds,
            ..request(&["once", "once"], 1, GenerateRequest::default())
        };
        let (events, _) = all(complete(&model, &metrics, asked).unwrap()).await;
        let text = |wanted: usize| -> String {
            let texts = events.iter().filter_map(|event| match event {
                CompletionEvent::Text { choice, text, .. } if *choice == wanted => {
                    Some(text.as_str())
                }
                _ => None,
            });
            texts.collect()
        };
        assert_eq!(text(0) != text(1), vary_seeds);
    }
}

#[tokio::test]
async fn a_prompt_is_scored_before_any_choice_is_heard() {
    let (model, metrics) = (served(), Arc::new(Metrics::new()));
    let options = GenerateRequest {
        prompt_logprobs: Some(2),
        logprobs: Some(2),
        ..GenerateRequest::default()
    };
    for _ in 0..5 {
        let asked = request(&["a long enough prompt"], 4, options.clone());
        let (events, _) = all(complete(&model, &metrics, asked).unwrap()).await;
        let CompletionEvent::Prompt { prompt: 0, tokens } = &events[0] else {
            panic!("{:?}", events[0])
        };
        assert_eq!(tokens.len(), 20);
        assert_eq!(
            (tokens[0].logprob, tokens[0].token.text.as_str()),
            (None, "a")
        );
        assert!(
            tokens[1..]
                .iter()
                .all(|token| token.logprob.is_some() && token.top.len() == 2)
        );
        let prompts = events
            .iter()
            .filter(|event| matches!(event, CompletionEvent::Prompt { .. }));
        assert_eq!(prompts.count(), 1);
    }
}

#[tokio::test]
async fn one_refused_prompt_refuses_all() {
    let (model, metrics) = (served(), Arc::new(Metrics::new()));
    let mut asked = request(&["good"], 2, GenerateRequest::default());
    asked.prompts.push(RawPrompt::Tokens(vec![5, 9_999]));
    let refused = complete(&model, &metrics, asked).unwrap_err();
    let RejectionCause::Submit(SubmitError::Invalid { field, reason }) = refused else {
        panic!("{refused}")
    };
    assert_eq!(field, "prompt");
    assert!(reason.contains("9999"), "{reason}");
    let rendered = metrics.render();
    assert!(
        rendered.contains("avatar_chat_accepted_total 0\n"),
        "{rendered}"
    );
    assert!(
        rendered.contains("avatar_chat_rejected_total{reason=\"invalid\"} 1\n"),
        "{rendered}"
    );
}

#[tokio::test]
async fn a_failed_choice_fails_the_request() {
    let limits = RunnerLimits {
        vocab: 257,
        max_context: 256,
        block_tokens: 4,
        blocks: 400,
    };
    let runner = FakeRunner::hashing(limits);
    let control = runner.control();
    let stats = Arc::new(EngineStats::default());
    let engine = PagedEngine::start(
        Box::new(runner),
        byte_tokenizer(),
        Arc::clone(&stats),
        &Config::default(),
    );
    let model = ServedModel {
        engine: Arc::new(engine.unwrap()),
        ..served()
    };
    let metrics = Arc::new(Metrics::new());
    control.close();
    let asked = request(&["good"], 3, GenerateRequest::default());
    let stream = complete(&model, &metrics, asked).unwrap();
    control.fail_next("out of luck");
    control.open();
    let (events, _) = all(stream).await;
    let failed = events.iter().filter(|event| {
        matches!(event, CompletionEvent::Finished { finish, .. } if matches!(finish.reason, FinishReason::Error(_)))
    });
    assert_eq!(failed.count(), 1, "the first failure is the end");
    let rendered = metrics.render();
    assert!(
        rendered.contains("avatar_chat_total{outcome=\"failed\"} 1\n"),
        "{rendered}"
    );
    assert!(rendered.contains("avatar_chat_in_flight 0\n"), "{rendered}");
}

#[test]
fn tokens_are_spelled_for_readers() {
    let tokenizer = byte_tokenizer();
    let spelled = |token| Spelled::new(token, &tokenizer);
    let (letter, half, end) = (spelled(65), spelled(0xe4), spelled(END));
    assert_eq!((letter.text.as_str(), letter.bytes), ("A", Some(vec![65])));
    assert_eq!(
        (half.text.as_str(), half.bytes),
        ("bytes:\\xe4", Some(vec![0xe4]))
    );
    assert_eq!((end.text.as_str(), end.bytes), ("<|end|>", None));
    assert_eq!(spelled(9_999).text, "");
    assert_eq!(
        spelled::prompt_text(&[65, END, 0xe4, 0xbd, 0xa0], &tokenizer),
        "A<|end|>你"
    );
}
