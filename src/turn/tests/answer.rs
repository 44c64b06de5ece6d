//! What is said, up to the length limit and the deadline.

use super::*;

#[tokio::test(start_paused = true)]
async fn an_answer_is_started_spoken_and_completed() {
    let stage = stage(vec![says(&["Yes, it", " is. It keeps", " rain out!"])]);
    let stream = stage.turns.respond(request()).unwrap();
    let id = stream.response_id().to_owned();
    let events = events(stream).await;
    match &events[0] {
        TurnEvent::Started {
            response_id,
            model,
            comment_ids,
            ..
        } => {
            assert_eq!(
                (response_id.as_str(), model.as_str()),
                (id.as_str(), "scripted")
            );
            assert_eq!(comment_ids, &["c1"]);
        }
        other => panic!("not started: {other:?}"),
    }
    assert_eq!(texts(&events), ["Yes, it is. ", "It keeps rain out!"]);
    let TurnEvent::Segment(second) = &events[2] else {
        panic!("no segment")
    };
    assert_eq!((second.seq, second.pause_ms), (1, 300));
    assert_eq!(second.reply_to, ["c1"]);
    let completion = completion(&events);
    assert_eq!(completion.finish_reason, TurnFinish::Stop);
    assert_eq!(completion.timings.queue_ms, 7);
    assert_eq!(completion.usage.completion, 4);
    assert_eq!(stage.ended("stop"), 1.0);
    assert_eq!(stage.turns.in_flight(), 0);
    assert_eq!(stage.samples()["avatar_segments_total"], 2.0);
    stage.assert_conserved();
}

#[tokio::test(start_paused = true)]
async fn the_engine_is_asked_with_the_turns_own_sampling_and_deadline() {
    let stage = stage(vec![says(&["Yes."])]);
    let start = Instant::now();
    events(stage.turns.respond(request()).unwrap()).await;
    let requests = stage.engine.requests.lock().unwrap();
    assert_eq!(requests[0].sampling, Config::default().sampling());
    assert_eq!(requests[0].max_tokens, Some(376));
    let deadline = requests[0].deadline.map(Instant::from_std);
    assert_eq!(deadline, Some(start + Duration::from_millis(5800)));
}

#[tokio::test(start_paused = true)]
async fn times_are_what_the_front_end_sees() {
    let stage = stage(vec![Ok(vec![
        wait(300),
        text("It is warm. It"),
        wait(200),
        text(" is dry."),
        Beat::End(FinishReason::Stop),
    ])]);
    let events = events(stage.turns.respond(request()).unwrap()).await;
    let timings = completion(&events).timings;
    assert_eq!(
        (timings.first_segment_ms, timings.total_ms),
        (Some(300), 500)
    );
    let samples = stage.samples();
    let labels = "{outcome=\"stop\",trigger=\"comments\"}";
    for (name, seconds) in [
        ("avatar_time_to_first_segment_seconds", 0.3),
        ("avatar_response_duration_seconds", 0.5),
    ] {
        assert_eq!(samples[&format!("{name}_count{labels}")], 1.0);
        assert!(
            (samples[&format!("{name}_sum{labels}")] - seconds).abs() < 0.002,
            "{name}"
        );
    }
    let p95 = samples["avatar_response_latency_seconds{window=\"1m\",quantile=\"0.95\"}"];
    assert!((p95 - 0.5).abs() < 0.002, "{p95}");
}

#[tokio::test(start_paused = true)]
async fn silence_of_the_model_flushes_the_last_clause() {
    let script = vec![
        text("It is light, and wa"),
        wait(1000),
        text("rm too."),
        Beat::End(FinishReason::Stop),
    ];
    let stage = stage(vec![Ok(script)]);
    let start = Instant::now();
    let mut stream = stage.turns.respond(request()).unwrap();
    stream.next().await;
    let Some(TurnEvent::Segment(first)) = stream.next().await else {
        panic!("no segment")
    };
    assert_eq!(first.text, "It is light, ");
    assert_eq!(start.elapsed(), Duration::from_millis(400));
    let events = events(stream).await;
    assert_eq!(texts(&events), ["and warm too."]);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_cuts_at_the_last_whole_segment() {
    for hangs in [false, true] {
        let pause = if hangs { Beat::Hang } else { wait(60_000) };
        let stage = stage(vec![Ok(vec![text("It is warm. It al"), pause])]);
        let start = Instant::now();
        let events = events(stage.turns.respond(request()).unwrap()).await;
        assert!(start.elapsed() <= Duration::from_secs(6));
        assert_eq!(texts(&events), ["It is warm. "]);
        let completion = completion(&events);
        assert_eq!(completion.finish_reason, TurnFinish::Deadline);
        assert_eq!(completion.degraded, ["cut"]);
        let samples = stage.samples();
        assert_eq!(
            samples["avatar_deadline_missed_total{stage=\"decode\"}"],
            1.0
        );
        assert_eq!(stage.ended("deadline"), 1.0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_before_the_first_word_is_answered_with_the_fallback_line() {
    let stage = stage(vec![Ok(vec![Beat::Hang])]);
    let events = events(stage.turns.respond(request()).unwrap()).await;
    assert_eq!(texts(&events), [Config::default().fallback]);
    assert_eq!(completion(&events).degraded, ["cut", "fallback"]);
    let samples = stage.samples();
    assert_eq!(samples["avatar_fallback_total{reason=\"deadline\"}"], 1.0);
    assert_eq!(
        samples["avatar_deadline_missed_total{stage=\"first_token\"}"],
        1.0
    );
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(stage.engine.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_full_answer_ends_with_a_whole_segment_and_stops_the_engine() {
    let endless = "It is warm. ".repeat(40);
    let mut script = vec![text(&endless)];
    script.push(Beat::Hang);
    let stage = stage(vec![Ok(script)]);
    let events = events(stage.turns.respond(request()).unwrap()).await;
    let texts = texts(&events);
    assert_eq!(texts.len(), 10);
    assert_eq!(texts.concat(), "It is warm. ".repeat(10));
    assert_eq!(completion(&events).finish_reason, TurnFinish::Length);
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(stage.engine.running(), 0);
    assert_eq!(stage.ended("length"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_within_the_limit_is_never_called_full() {
    let exact = "It is warm. ".repeat(9) + "It is light.";
    let stage = stage(vec![says(&[&exact]), says(&[&exact, " \n"])]);
    for end in ["", " \n"] {
        let events = events(stage.turns.respond(request()).unwrap()).await;
        assert_eq!(texts(&events).concat(), exact.clone() + end);
    }
    assert_eq!(stage.ended("stop"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn no_answer_is_longer_than_its_limit_whatever_the_limit() {
    let answers = [
        "Waterproof jackets keep you dry. Really.",
        "这款冲锋衣是防水的，放心买吧。",
        "It is 1,299,000.00 now",
    ];
    for answer in answers {
        for max_chars in 1..40 {
            let stage = stage(vec![says(&[answer])]);
            let stream = stage
                .turns
                .respond(TurnRequest {
                    max_chars,
                    ..request()
                })
                .unwrap();
            let events = events(stream).await;
            let spoken = texts(&events).concat();
            if completion(&events).degraded == ["fallback"] {
                assert_eq!(spoken, Config::default().fallback);
                continue;
            }
            assert!(!spoken.is_empty(), "{max_chars} {answer}");
            assert!(answer.starts_with(&spoken), "{spoken:?}");
            assert!(spoken.trim_end().chars().count() <= max_chars, "{spoken:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_segment_that_does_not_fit_ends_the_answer_even_if_a_later_one_would() {
    let stage = stage(vec![Ok(vec![
        text("It is warm. This one is far too long. Ok"),
        Beat::Hang,
    ])]);
    let short = TurnRequest {
        max_chars: 20,
        ..request()
    };
    let events = events(stage.turns.respond(short).unwrap()).await;
    assert_eq!(texts(&events), ["It is warm. "]);
    assert_eq!(completion(&events).finish_reason, TurnFinish::Length);
}

#[tokio::test(start_paused = true)]
async fn words_that_never_end_stop_the_engine() {
    let stage = stage(vec![Ok(vec![text(&"👏".repeat(1000)), Beat::Hang])]);
    let start = Instant::now();
    let events = events(stage.turns.respond(request()).unwrap()).await;
    assert_eq!(completion(&events).degraded, ["fallback"]);
    assert!(start.elapsed() < Duration::from_millis(5));
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_words_is_the_fallback_line() {
    for silent in [
        "👏👏👏",
        "   ",
        "\u{200b}",
        "……",
        "！！！！！",
        "",
        "https://a.b",
    ] {
        let stage = stage(vec![says(&[silent])]);
        let events = events(stage.turns.respond(request()).unwrap()).await;
        assert_eq!(texts(&events), [Config::default().fallback], "{silent:?}");
        assert_eq!(completion(&events).degraded, ["fallback"]);
        assert_eq!(stage.ended("stop"), 1.0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_error_after_text_is_a_failure_not_an_answer() {
    let broken = Beat::End(FinishReason::Error("forward pass failed: nan".to_owned()));
    for last in [broken, Beat::Die] {
        let stage = stage(vec![Ok(vec![text("It is warm. It al"), last])]);
        let events = events(stage.turns.respond(request()).unwrap()).await;
        assert_eq!(texts(&events), ["It is warm. "]);
        let failure = failure(&events);
        assert_eq!(failure.code, "engine_error");
        assert!(failure.retryable && !failure.message.is_empty());
        assert_eq!(stage.ended("failed"), 1.0);
        assert_eq!(stage.ended("stop"), 0.0);
    }
}
