//! Turns of one room: one speaks, the others wait, are superseded or cut by their deadlines, each counted once.

use super::*;

fn with_priority(priority: Priority, supersede: Supersede) -> TurnRequest {
    TurnRequest {
        priority,
        supersede,
        ..request()
    }
}

fn finish(events: &[TurnEvent]) -> TurnFinish {
    completion(events).finish_reason
}

fn position(events: &[TurnEvent]) -> Option<usize> {
    match &events[0] {
        TurnEvent::Queued { position, .. } => Some(*position),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn turns_of_a_room_speak_one_after_the_other_in_order_of_priority() {
    let slow = |said: &str| Ok(vec![wait(100), text(said), Beat::End(FinishReason::Stop)]);
    let stage = stage(vec![
        slow("One."),
        slow("Two."),
        slow("Three."),
        slow("Four."),
    ]);
    let [low, high] = [Priority::Low, Priority::High];
    let turns = [low, low, Priority::Normal, high].map(|priority| {
        let request = with_priority(priority, Supersede::None);
        stage.turns.respond(request).unwrap()
    });
    assert_eq!(stage.turns.in_flight(), 4);
    assert_eq!(stage.samples()["avatar_turns_in_flight"], 4.0);
    let mut all = Vec::new();
    for turn in turns {
        all.push(events(turn).await);
        assert!(stage.engine.running() <= 1, "two speak at once");
    }
    let said: Vec<_> = all.iter().map(|events| spoken(events)).collect();
    assert_eq!(said, ["One.", "Four.", "Three.", "Two."]);
    let positions: Vec<_> = all.iter().map(|events| position(events)).collect();
    assert_eq!(positions, [None, Some(1), Some(1), Some(1)]);
    let queue_ms = |events: &[TurnEvent]| completion(events).timings.queue_ms;
    let waited: Vec<_> = all.iter().map(|events| queue_ms(events)).collect();
    assert_eq!(waited, [7, 307, 207, 107]);
    stage.assert_conserved();
}

#[tokio::test(start_paused = true)]
async fn superseded_turns_end_as_such_whether_they_speak_or_wait() {
    let stage = stage(vec![
        Ok(vec![text("It is warm. It al"), Beat::Hang]),
        says(&["Sold out."]),
    ]);
    let first = stage.turns.respond(request()).unwrap();
    let second = stage.turns.respond(request()).unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let third = with_priority(Priority::Normal, Supersede::All);
    let third = stage.turns.respond(third).unwrap();
    let (first, second, third) = (
        events(first).await,
        events(second).await,
        events(third).await,
    );
    assert_eq!(
        (finish(&first), texts(&first)),
        (TurnFinish::Superseded, vec!["It is warm. "])
    );
    assert_eq!((finish(&second), second.len()), (TurnFinish::Superseded, 2));
    assert_eq!(
        (spoken(&third).as_str(), finish(&third)),
        ("Sold out.", TurnFinish::Stop)
    );
    assert_eq!(position(&third), None, "it waits for nobody who goes on");
    assert_eq!((stage.ended("superseded"), stage.ended("stop")), (2.0, 1.0));
    stage.assert_conserved();
}

#[tokio::test(start_paused = true)]
async fn only_lower_priorities_are_superseded_where_that_is_asked() {
    let stage = stage(vec![says(&["One."]), says(&["Two."])]);
    let normal = stage.turns.respond(request()).unwrap();
    let low = with_priority(Priority::Low, Supersede::None);
    let low = stage.turns.respond(low).unwrap();
    let asked = with_priority(Priority::Normal, Supersede::Lower);
    let asked = stage.turns.respond(asked).unwrap();
    assert_eq!(finish(&events(low).await), TurnFinish::Superseded);
    assert_eq!(finish(&events(normal).await), TurnFinish::Stop);
    assert_eq!(spoken(&events(asked).await), "Two.");
    stage.assert_conserved();
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_and_ends_nobody() {
    let stage = stage((0..9).map(|_| says(&["Yes."])).collect());
    let turns: Vec<_> = (0..9)
        .map(|_| stage.turns.respond(request()).unwrap())
        .collect();
    let refused = stage.turns.respond(request()).unwrap_err();
    let full = RoomError::QueueFull { limit: 8 };
    assert_eq!(refused.cause, RejectionCause::Room(full));
    assert_eq!(refused.fallback, Config::default().fallback);
    let refused = "avatar_turns_rejected_total{reason=\"room_queue_full\"}";
    assert_eq!(stage.samples()[refused], 1.0);
    for turn in turns {
        assert_eq!(finish(&events(turn).await), TurnFinish::Stop);
    }
    stage.assert_conserved();
}

/// Fault: the time in a queue did not count, so an answer came long after its deadline.
#[tokio::test(start_paused = true)]
async fn a_deadline_counts_from_acceptance_also_in_the_queue() {
    let long = Duration::from_secs(60);
    let stage = stage(vec![Ok(vec![text("It is warm. It al"), Beat::Hang])]);
    let first = TurnRequest {
        deadline: long,
        ..request()
    };
    let first = stage.turns.respond(first).unwrap();
    let start = Instant::now();
    let second = events(stage.turns.respond(request()).unwrap()).await;
    assert!(start.elapsed() < Duration::from_secs(6));
    let end = completion(&second);
    assert_eq!(end.finish_reason, TurnFinish::Deadline);
    assert_eq!(end.degraded, ["cut", "fallback"]);
    assert_eq!(spoken(&second), Config::default().fallback);
    assert!(matches!(second[1], TurnEvent::Started { .. }));
    assert_eq!((end.usage.prompt, end.timings.rounds), (0, 0));
    let missed = "avatar_deadline_missed_total{stage=\"waiting\"}";
    assert_eq!(stage.samples()[missed], 1.0);
    assert_eq!(stage.engine.running(), 1, "the first goes on");
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waited_long_is_asked_for_a_shorter_answer() {
    let sentence = "It is warm and dry. ";
    let long = sentence.repeat(6);
    let stage = stage(vec![
        Ok(vec![
            wait(4000),
            text("Yes."),
            Beat::End(FinishReason::Stop),
        ]),
        says(&[&long]),
    ]);
    let first = stage.turns.respond(request()).unwrap();
    let second = stage.turns.respond(request()).unwrap();
    assert_eq!(finish(&events(first).await), TurnFinish::Stop);
    let second = events(second).await;
    assert_eq!(completion(&second).degraded, ["length"]);
    assert_eq!(spoken(&second), sentence.repeat(3));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_turn_can_be_cancelled_and_left() {
    let stage = stage(vec![Ok(vec![Beat::Hang]), says(&["Yes."])]);
    let first = stage.turns.respond(request()).unwrap();
    let second = stage.turns.respond(request()).unwrap();
    let third = stage.turns.respond(request()).unwrap();
    let last = stage.turns.respond(request()).unwrap();
    let id = second.response_id().to_owned();
    assert_eq!(stage.turns.cancel(&id, None), Ok(()));
    drop(third);
    let second = events(second).await;
    assert_eq!((finish(&second), second.len()), (TurnFinish::Cancelled, 2));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(stage.turns.in_flight(), 2);
    drop(first);
    assert_eq!(spoken(&events(last).await), "Yes.");
    assert_eq!((stage.ended("cancelled"), stage.ended("stop")), (3.0, 1.0));
    stage.assert_conserved();
}

#[tokio::test(start_paused = true)]
async fn what_the_engine_refuses_after_the_wait_fails_and_the_next_one_speaks() {
    let long = SubmitError::ContextLength {
        prompt: 9,
        max_tokens: 9,
        limit: 9,
    };
    let full = SubmitError::QueueFull { limit: 256 };
    let stage = stage(vec![
        says(&["One."]),
        Err(long),
        Err(full),
        says(&["Four."]),
    ]);
    let turns = [(); 4].map(|()| stage.turns.respond(request()).unwrap());
    let mut all = Vec::new();
    for turn in turns {
        all.push(events(turn).await);
    }
    let told: Vec<_> = all[1..3]
        .iter()
        .map(|events| (failure(events).code, failure(events).retryable))
        .collect();
    assert_eq!(
        told,
        [("context_length_exceeded", false), ("queue_full", true)]
    );
    assert_eq!(failure(&all[1]).fallback, Config::default().fallback);
    assert_eq!(spoken(&all[3]), "Four.");
    assert_eq!((stage.ended("failed"), stage.ended("stop")), (2.0, 2.0));
    stage.assert_conserved();
}

#[tokio::test(start_paused = true)]
async fn ending_a_room_cancels_its_turns_and_leaves_others_alone() {
    let hang = || Ok(vec![Beat::Hang]);
    let stage = stage(vec![hang(), hang(), says(&["New."])]);
    let other = stage.turns.respond(in_room("r2")).unwrap();
    let turns = [(); 3].map(|()| stage.turns.respond(request()).unwrap());
    assert_eq!(stage.turns.end_room("r1"), Ok(3));
    for turn in turns {
        assert_eq!(finish(&events(turn).await), TurnFinish::Cancelled);
    }
    assert_eq!(stage.turns.end_room("r1"), Err(UnknownRoom));
    assert_eq!(stage.turns.in_flight(), 1);
    let next = events(stage.turns.respond(request()).unwrap()).await;
    assert_eq!((position(&next), spoken(&next).as_str()), (None, "New."));
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_one_turn_lets_the_next_one_speak() {
    let stage = stage(vec![Ok(vec![Beat::Die]), says(&["Two."])]);
    let first = stage.turns.respond(request()).unwrap();
    let second = stage.turns.respond(request()).unwrap();
    assert!(matches!(
        events(first).await.last(),
        Some(TurnEvent::Failed(_))
    ));
    assert_eq!(spoken(&events(second).await), "Two.");
    stage.assert_conserved();
}
