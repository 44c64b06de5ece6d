//! What viewers write stays out of logs and metrics.

use super::*;

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn what_viewers_write_is_in_no_log_and_no_metric_at_any_level() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    // Log lines that another test came to first are remembered as wanted by nobody.
    tracing::callsite::rebuild_interest_cache();
    let broken = Beat::End(FinishReason::Error("broken".to_owned()));
    let stage = stage(vec![
        says(&["Call 13800138000."]),
        says(&["👏"]),
        Ok(vec![broken]),
        Ok(vec![Beat::Hang]),
        Err(SubmitError::ContextLength {
            prompt: 9,
            max_tokens: 9,
            limit: 9,
        }),
        Ok(vec![Beat::Hang]),
    ]);
    let mut canary = request();
    canary.comments[0].text = "my number is 13800138000".to_owned();
    canary.comments[0].nickname = "13800138000".to_owned();
    for _ in 0..4 {
        // A line that another test reaches first, while this log is being set up, would stay off.
        tracing::callsite::rebuild_interest_cache();
        events(stage.turns.respond(canary.clone()).unwrap()).await;
    }
    assert!(stage.turns.respond(canary.clone()).is_err());
    drop(stage.turns.respond(canary).unwrap());
    tokio::time::sleep(Duration::from_millis(5)).await;
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for line in [
        "turn ended",
        "turn failed",
        "turn rejected",
        "fallback spoken",
    ] {
        assert!(logged.contains(line), "{line} is not in {logged}");
    }
    assert!(!logged.contains("13800138000"), "{logged}");
    assert!(!stage.metrics.render().contains("13800138000"));
}

#[tokio::test(start_paused = true)]
async fn names_of_rooms_viewers_and_comments_never_make_a_series() {
    let lines = |stage: &Stage| stage.metrics.render().lines().count();
    let stage = stage((0..300).map(|_| says(&["Yes."])).collect());
    events(stage.turns.respond(request()).unwrap()).await;
    let before = lines(&stage);
    for turn in 1..300 {
        let mut request = request();
        request.room_id = format!("room \"{turn}\"\n{}", "x".repeat(1000));
        request.comments[0].comment_id = format!("c{turn}");
        request.comments[0].nickname = format!("viewer {turn}");
        events(stage.turns.respond(request).unwrap()).await;
    }
    assert_eq!(lines(&stage), before);
}
