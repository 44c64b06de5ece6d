//! Chat completions on a fake engine.

use super::super::scripted::{Beat, ScriptedEngine, says};
use super::*;
use crate::engine::{FinishReason, SubmitError};
use crate::turn::completion::CompletionEvent;

fn request() -> ChatRequest {
    ChatRequest {
        messages: vec![Message::new("user", "hello")],
        n: 1,
        options: GenerateRequest {
            stop: vec!["END".to_owned()],
            max_tokens: Some(5),
            ..GenerateRequest::default()
        },
    }
}

async fn events(mut stream: CompletionStream) -> Vec<CompletionEvent> {
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event);
    }
    events
}

#[tokio::test]
async fn text_comes_as_written_and_the_end_is_counted_once() {
    let engine = ScriptedEngine::new(vec![says(&["\n\n\nA", "\n\n", "\u{2028}B \n"])]);
    let metrics = Arc::new(Metrics::new());
    let stream = chat(&engine.served(), &metrics, request()).unwrap();
    assert!(metrics.render().contains("avatar_chat_in_flight 1\n"));
    let events = events(stream).await;
    let text: String = events
        .iter()
        .filter_map(|event| match event {
            CompletionEvent::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(text, "\n\n\nA\n\n\u{2028}B \n");
    assert!(
        matches!(events.last(), Some(CompletionEvent::Finished { finish, .. }) if finish.reason == FinishReason::Stop)
    );
    let rendered = metrics.render();
    assert!(
        rendered.contains("avatar_chat_total{outcome=\"stop\"} 1\n"),
        "{rendered}"
    );
    assert!(
        rendered.contains("avatar_turns_accepted_total 0\n"),
        "chat is no turn"
    );
    let asked = engine.requests.lock().unwrap();
    assert_eq!(
        (asked[0].max_tokens, asked[0].stop.as_slice()),
        (Some(5), ["END".to_owned()].as_slice())
    );
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_chat_is_cancelled_and_an_error_is_a_failure() {
    let broken = Beat::End(FinishReason::Error("broken".to_owned()));
    let engine = ScriptedEngine::new(vec![
        Ok(vec![Beat::Hang]),
        Ok(vec![Beat::Text("A".to_owned()), broken]),
    ]);
    let metrics = Arc::new(Metrics::new());
    drop(chat(&engine.served(), &metrics, request()).unwrap());
    events(chat(&engine.served(), &metrics, request()).unwrap()).await;
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    assert_eq!(engine.running(), 0);
    let rendered = metrics.render();
    for outcome in ["cancelled", "failed"] {
        assert!(
            rendered.contains(&format!("avatar_chat_total{{outcome=\"{outcome}\"}} 1\n")),
            "{rendered}"
        );
    }
}

#[tokio::test]
async fn a_refused_chat_is_rejected_by_reason() {
    let too_long = SubmitError::ContextLength {
        prompt: 9,
        max_tokens: 5,
        limit: 8,
    };
    let engine = ScriptedEngine::new(vec![Err(too_long.clone())]);
    let metrics = Arc::new(Metrics::new());
    let error = chat(&engine.served(), &metrics, request()).unwrap_err();
    assert_eq!(error, RejectionCause::Submit(too_long));
    assert!(
        metrics
            .render()
            .contains("avatar_chat_rejected_total{reason=\"context_length\"} 1\n")
    );
}
