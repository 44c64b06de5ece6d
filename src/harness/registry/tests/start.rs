//! Which version is live when the program starts.

use super::*;

#[tokio::test]
async fn a_valid_folder_is_live_and_becomes_production() {
    let world = World::new(Mode::Auto);
    let handle = world.started().await;
    assert_eq!(persona(&handle), "You are v1.");
    assert_eq!(world.engine.warm(), 1);
    let history = handle.history(None).await.expect("readable");
    assert_eq!(
        (history.len(), history[0].to, history[0].who.as_str()),
        (1, Some(version("v1")), "start")
    );
    assert_eq!(handle.names().collect::<Vec<_>>(), ["live-room"]);
}

#[tokio::test]
async fn a_bad_folder_leaves_the_last_promoted_version_live() {
    let world = World::new(Mode::Auto);
    world.started().await;
    testing::put(&world.room().join("skills/size-help/SKILL.md"), "no head");
    let handle = world.started().await;
    assert_eq!(persona(&handle), "You are v1.");
    let status = handle.status(None).expect("status");
    let error = status.last_error.expect("it says so");
    assert_eq!((error.stage, error.problems.len()), (Stage::Load, 1));
    std::fs::remove_dir_all(&world.config.directory).expect("removed");
    assert_eq!(persona(&world.started().await), "You are v1.");
}

#[tokio::test]
async fn with_neither_it_does_not_start_and_says_everything() {
    let world = World::new(Mode::Auto);
    testing::put(&world.room().join("skills/a/SKILL.md"), "no head");
    testing::put(&world.room().join("harness.toml"), "langauge = 1\n");
    testing::put(
        &world.config.directory.join("other/harness.toml"),
        "x = 1\n",
    );
    let error = world.start().await.expect_err("refuses");
    assert!(error.problems.len() >= 4, "{error}");
    for problem in &error.problems {
        assert_inside(&problem.path, &world.config.directory);
    }
    let text = error.to_string();
    assert!(
        text.contains("live-room/skills/a/SKILL.md:1: ") && text.contains("other/harness.toml:1: "),
        "{text}"
    );
}

#[tokio::test]
async fn a_missing_default_is_an_error() {
    let world = World::new(Mode::Auto);
    let config = Config {
        default: "shop".to_owned(),
        ..world.config.clone()
    };
    let started = HarnessRegistry::start(
        &config,
        Arc::new(world.engine.clone()),
        Arc::clone(&world.metrics),
    )
    .await;
    assert!(started.expect_err("refuses").to_string().contains("shop"));
}

#[tokio::test]
async fn an_edit_made_while_it_was_down_is_live_or_staged_by_the_mode() {
    for (mode, live) in [(Mode::Auto, "You are v2."), (Mode::Manual, "You are v1.")] {
        let world = World::new(mode);
        world.started().await;
        world.save("v2");
        let handle = world.started().await;
        assert_eq!(persona(&handle), live);
        let staged = handle.status(None).expect("status").staged;
        assert_eq!(staged, (mode == Mode::Manual).then(|| version("v2")));
    }
}

#[tokio::test]
async fn a_rollback_survives_a_restart_until_the_folder_changes() {
    let world = World::new(Mode::Auto);
    let handle = world.started().await;
    world.save("v2");
    assert_eq!(
        handle.reload(None).await.expect("reloads"),
        Reload::Activated(version("v2"))
    );
    handle.rollback(None, None, "operator").await.expect("back");
    for _ in 0..2 {
        let handle = world.started().await;
        assert_eq!(persona(&handle), "You are v1.");
        assert_eq!(
            handle.status(None).expect("status").staged,
            Some(version("v2"))
        );
    }
    let handle = world.started().await;
    world.save("v3");
    assert_eq!(
        handle.reload(None).await.expect("reloads"),
        Reload::Activated(version("v3"))
    );
    assert_eq!(persona(&world.started().await), "You are v3.");
}

#[tokio::test]
async fn a_store_that_was_tampered_with_is_not_served() {
    let world = World::new(Mode::Manual);
    world.started().await;
    let snapshot = world.dir.path().join(format!(
        "state/live-room/snapshots/{}.snapshot",
        version("v1")
    ));
    std::fs::write(&snapshot, b"junk").expect("written");
    world.save("v2");
    let error = world.start().await.expect_err("refuses");
    assert!(error.to_string().contains("changed or damaged"), "{error}");
}
