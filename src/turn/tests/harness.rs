//! Which harness speaks: what a request names, and that a turn keeps it to its end.

use std::fs;
use std::path::Path;

use super::*;
use crate::harness::{self, HarnessRegistry, Warm};

fn write(dir: &Path, persona: &str) {
    for (path, text) in BASE {
        let file = dir.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    fs::write(dir.join("prompts/persona.txt"), persona).unwrap();
}

async fn registry(dir: &Path) -> HarnessRegistry {
    let config = harness::Config {
        directory: dir.join("harness"),
        state: Some(dir.join("state")),
        default: "shop".to_owned(),
        ..harness::Config::default()
    };
    let activate = |_: Arc<Harness>| async { Ok::<Warm, String>(Box::new(())) };
    let metrics = Arc::new(Metrics::new());
    HarnessRegistry::start(&config, Arc::new(activate), metrics)
        .await
        .unwrap()
}

fn started(events: &[TurnEvent]) -> &HarnessUsed {
    match &events[0] {
        TurnEvent::Started { harness, .. } => harness,
        other => panic!("not started: {other:?}"),
    }
}

#[tokio::test]
async fn a_turn_keeps_the_harness_it_began_with_while_another_goes_live() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("harness/shop"), "You are Mia.");
    let handle = registry(dir.path()).await.handle();
    let before = handle.live(None).unwrap().version.to_string();
    let first = Ok(vec![text("It is warm. It"), wait(30), Beat::Hang]);
    let answers = [(); 3].map(|()| says(&["Yes."]));
    let engine = ScriptedEngine::new([first].into_iter().chain(answers).collect());
    let model = engine.served();
    let stage = over(engine, model, handle.clone());
    let mut running = stage.turns.respond(request()).unwrap();
    running.next().await;
    let waiting = stage.turns.respond(request()).unwrap();

    write(&dir.path().join("harness/shop"), "You are Bo.");
    handle.reload(None).await.unwrap();
    let after = handle.live(None).unwrap().version.to_string();
    assert_ne!(before, after);
    let next = events(stage.turns.respond(in_room("r2")).unwrap()).await;
    assert!(stage.prompt(0).contains("Mia") && stage.prompt(1).contains("Bo"));
    assert_eq!(started(&next).version, after);
    assert_eq!(completion(&next).harness_version, after);

    stage.turns.cancel(running.response_id(), None).unwrap();
    let rest = events(running).await;
    assert_eq!(completion(&rest).harness_version, before);
    // Also the turn that waited all along.
    let waiting = events(waiting).await;
    assert_eq!(completion(&waiting).harness_version, before);
    assert!(stage.prompt(2).contains("Mia"));

    // An earlier version can be asked for by its name.
    let mut pinned = request();
    pinned.harness.which = Some(before.clone());
    stage.turns.pin(&mut pinned).await.unwrap();
    let pinned = events(stage.turns.respond(pinned).unwrap()).await;
    assert_eq!(
        (started(&pinned).version.as_str(), &started(&pinned).label),
        (before.as_str(), &None)
    );
}

#[tokio::test]
async fn what_is_not_there_is_an_error_that_names_it_and_never_another_harness() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("harness/shop"), "You are Mia.");
    let handle = registry(dir.path()).await.handle();
    let fixed = harness(&[]);
    for harnesses in [Harnesses::from(handle), Harnesses::from(fixed)] {
        let engine = ScriptedEngine::new(Vec::new());
        let model = engine.served();
        let stage = over(engine, model, harnesses);
        for (name, which, member) in [
            (Some("nobody"), None, "name"),
            (Some("nobody"), Some("production"), "name"),
            (None, Some("canary"), "label"),
            (
                Some("shop"),
                Some("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
                "version",
            ),
        ] {
            let mut request = request();
            request.harness.name = name.map(str::to_owned);
            request.harness.which = which.map(str::to_owned);
            let rejection = stage.turns.pin(&mut request).await.unwrap_err();
            let RejectionCause::Harness(HarnessError::Unknown { member: found, .. }) =
                rejection.cause
            else {
                panic!("{rejection:?}")
            };
            assert_eq!(found, member);
            assert!(stage.turns.respond(request).is_err());
        }
        assert_eq!(
            stage.samples()["avatar_turns_rejected_total{reason=\"unknown_harness\"}"],
            8.0
        );
        assert_eq!(stage.samples()["avatar_turns_accepted_total"], 0.0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_fixed_harness_is_its_own_production_and_may_be_named() {
    let fixed = harness(&[]);
    let (name, version) = (fixed.name.clone(), fixed.version.to_string());
    let engine = ScriptedEngine::new((0..3).map(|_| says(&["Yes."])).collect());
    let model = engine.served();
    let stage = over(engine, model, fixed);
    for (which, label) in [
        (None, Some("production")),
        (Some("production"), Some("production")),
        (Some(version.as_str()), None),
    ] {
        let mut request = request();
        request.harness.name = Some(name.clone());
        request.harness.which = which.map(str::to_owned);
        stage.turns.pin(&mut request).await.unwrap();
        let events = events(stage.turns.respond(request).unwrap()).await;
        assert_eq!(started(&events).label.as_deref(), label);
        assert_eq!(started(&events).version, version);
    }
}

#[test]
fn the_built_in_room_is_valid_and_may_have_a_persona_of_its_own() {
    assert!(built_in(None).unwrap().system_text().contains("host"));
    assert_eq!(
        built_in(Some("You are Bo.")).unwrap().persona,
        "You are Bo."
    );
    assert!(built_in(Some(" ")).is_err());
}
