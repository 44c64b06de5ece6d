//! How turns end: cancelled, dropped, drained, rejected; never mixed, never lost.

use super::*;

#[tokio::test(start_paused = true)]
async fn what_the_engine_refuses_is_rejected_with_its_cause_and_a_fallback() {
    let full = SubmitError::QueueFull { limit: 256 };
    let stage = stage(vec![Err(full.clone())]);
    let rejection = stage.turns.respond(request()).unwrap_err();
    assert_eq!(rejection.cause, RejectionCause::Submit(full));
    assert_eq!(rejection.fallback, Config::default().fallback);
    let samples = stage.samples();
    assert_eq!(
        samples["avatar_turns_rejected_total{reason=\"queue_full\"}"],
        1.0
    );
    assert_eq!(samples["avatar_turns_accepted_total"], 0.0);
    assert_eq!(stage.turns.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_the_turn_at_once_at_any_moment() {
    for spoken in [false, true] {
        let first = if spoken { "It is warm. It al" } else { "" };
        let stage = stage(vec![Ok(vec![text(first), Beat::Hang])]);
        let start = Instant::now();
        let stream = stage.turns.respond(request()).unwrap();
        let id = stream.response_id().to_owned();
        if spoken {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(stage.turns.cancel(&id, Some(0)), Ok(()));
        let events = events(stream).await;
        assert_eq!(completion(&events).finish_reason, TurnFinish::Cancelled);
        assert!(start.elapsed() <= Duration::from_millis(2));
        assert_eq!(stage.turns.cancel(&id, None), Err(UnknownTurn));
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(stage.engine.running(), 0);
        assert_eq!(stage.ended("cancelled"), 1.0);
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_stream_cancels_the_generation_and_counts_once() {
    for _ in 0..20 {
        let stage = stage(vec![Ok(vec![text("It is warm. It al"), Beat::Hang])]);
        let mut stream = stage.turns.respond(request()).unwrap();
        stream.next().await;
        drop(stream);
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(stage.engine.running(), 0);
        assert_eq!(stage.turns.in_flight(), 0);
        assert_eq!(stage.ended("cancelled"), 1.0);
        stage.assert_conserved();
    }
}

#[tokio::test(start_paused = true)]
async fn a_finished_turn_keeps_its_outcome_when_it_is_dropped_unread() {
    let stage = stage(vec![says(&["Yes."])]);
    let stream = stage.turns.respond(request()).unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    drop(stream);
    assert_eq!(stage.ended("stop"), 1.0);
    assert_eq!(stage.ended("cancelled"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_every_turn_with_a_terminal_event() {
    let hang = || Ok(vec![Beat::Hang]);
    let stage = stage(vec![hang(), hang(), hang()]);
    let streams: Vec<_> = (0..3)
        .map(|_| stage.turns.respond(request()).unwrap())
        .collect();
    assert_eq!(stage.turns.in_flight(), 3);
    stage.turns.cancel_all();
    for stream in streams {
        assert_eq!(
            completion(&events(stream).await).finish_reason,
            TurnFinish::Cancelled
        );
    }
    assert_eq!(stage.turns.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn many_turns_never_mix() {
    let scripts = (0..200)
        .map(|turn| says(&["Hello viewer ", &turn.to_string(), "!"]))
        .collect();
    let stage = stage(scripts);
    let streams: Vec<_> = (0..200)
        .map(|turn| stage.turns.respond(in_room(&format!("r{turn}"))).unwrap())
        .collect();
    let ids: std::collections::BTreeSet<_> = streams
        .iter()
        .map(|stream| stream.response_id().to_owned())
        .collect();
    assert_eq!(ids.len(), 200);
    for (turn, stream) in streams.into_iter().enumerate() {
        assert_eq!(
            texts(&events(stream).await).concat(),
            format!("Hello viewer {turn}!")
        );
    }
    stage.assert_conserved();
}

#[test]
fn a_runtime_that_is_shut_down_still_counts_its_turns() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let stage = stage(vec![Ok(vec![Beat::Hang])]);
    let mut stream = runtime.block_on(async { stage.turns.respond(request()).unwrap() });
    drop(runtime);
    assert_eq!(stage.ended("failed"), 1.0);
    stage.assert_conserved();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let last = runtime.block_on(async { (stream.next().await, stream.next().await) });
    assert!(
        matches!(&last, (Some(TurnEvent::Failed(failure)), None) if failure.code == "internal_error"),
        "{last:?}"
    );
}
