//! Changes while turns run.

use super::*;

#[tokio::test]
async fn a_turn_keeps_its_version_and_what_is_warm_until_it_ends() {
    let world = World::new(Mode::Auto);
    let handle = world.started().await;
    let turn = handle.live(None).expect("live");
    world.save("v2");
    handle.reload(None).await.expect("reloads");
    assert_eq!(persona(&handle), "You are v2.");
    assert_eq!(
        (turn.persona.trim(), world.engine.warm()),
        ("You are v1.", 2)
    );
    drop(turn);
    assert_eq!(world.engine.warm(), 1);
    assert!(world.counted("activated"));
}

#[tokio::test]
async fn a_change_that_cannot_be_used_changes_nothing_and_the_next_good_one_goes_live() {
    let world = World::new(Mode::Auto);
    let handle = world.started().await;
    for round in 0..5 {
        testing::put(&world.room().join("skills/bad/SKILL.md"), "");
        assert_eq!(
            handle.reload(None).await.expect("reloads"),
            Reload::Rejected
        );
        let status = handle.status(None).expect("status");
        assert!(
            status
                .last_error
                .expect("told")
                .problems
                .iter()
                .all(|problem| problem.path == "skills/bad/SKILL.md")
        );
        assert_eq!(world.engine.warm(), 1);
        std::fs::remove_dir_all(world.room().join("skills/bad")).expect("removed");
        let text = format!("good {round}");
        world.save(&text);
        handle.reload(None).await.expect("reloads");
        assert_eq!(persona(&handle), format!("You are {text}."));
        assert_eq!(handle.status(None).expect("status").last_error, None);
    }
    assert!(world.counted("rejected"));
}

#[tokio::test]
async fn what_cannot_be_made_ready_is_tried_again_and_leaves_the_live_one() {
    let world = World::new(Mode::Auto);
    let handle = world.started().await;
    world.engine.refuse(true);
    world.save("v2");
    for _ in 0..2 {
        assert_eq!(
            handle.reload(None).await.expect("reloads"),
            Reload::Rejected
        );
    }
    let error = handle
        .status(None)
        .expect("status")
        .last_error
        .expect("told");
    assert_eq!(
        (error.stage, error.version),
        (Stage::Activate, Some(version("v2")))
    );
    assert_eq!(
        (persona(&handle), world.engine.warm()),
        ("You are v1.".to_owned(), 1)
    );
    let failures = handle
        .history(None)
        .await
        .expect("readable")
        .iter()
        .filter(|entry| entry.result != "ok")
        .count();
    assert_eq!(failures, 1, "the same failure is told once");
    world.engine.refuse(false);
    assert_eq!(
        handle.reload(None).await.expect("reloads"),
        Reload::Activated(version("v2"))
    );
}

#[tokio::test]
async fn in_manual_mode_a_change_waits_for_somebody() {
    let world = World::new(Mode::Manual);
    let handle = world.started().await;
    world.save("v2");
    assert_eq!(
        handle.reload(None).await.expect("reloads"),
        Reload::Staged(version("v2"))
    );
    assert_eq!(
        (persona(&handle), world.engine.warm()),
        ("You are v1.".to_owned(), 1)
    );
    let latest = handle.resolve(None, Some("latest")).await.expect("known");
    assert_eq!(latest.snapshot.persona.trim(), "You are v2.");
    assert_eq!(
        handle
            .promote(None, None, "operator")
            .await
            .expect("promotes"),
        version("v2")
    );
    assert_eq!(persona(&handle), "You are v2.");
    assert_eq!(handle.status(None).expect("status").staged, None);
    let last = handle
        .history(None)
        .await
        .expect("readable")
        .pop()
        .expect("an entry");
    assert_eq!(
        (last.who.as_str(), last.from, last.to),
        ("operator", Some(version("v1")), Some(version("v2")))
    );
}

#[tokio::test]
async fn a_folder_that_is_put_back_stages_nothing() {
    let world = World::new(Mode::Manual);
    let handle = world.started().await;
    world.save("v2");
    handle.reload(None).await.expect("reloads");
    world.save("v1");
    assert_eq!(
        handle.reload(None).await.expect("reloads"),
        Reload::Unchanged
    );
    assert_eq!(handle.status(None).expect("status").staged, None);
}

#[tokio::test]
async fn a_request_may_pin_a_version_and_what_is_unknown_is_an_error() {
    let world = World::new(Mode::Auto);
    let handle = world.started().await;
    world.save("v2");
    handle.reload(None).await.expect("reloads");
    let pinned = handle
        .resolve(Some("live-room"), Some(&version("v1").to_string()))
        .await
        .expect("kept");
    assert_eq!(
        (pinned.snapshot.persona.trim(), pinned.label),
        ("You are v1.", None)
    );
    assert_eq!(world.engine.warm(), 1, "only production is kept warm");
    let production = handle.resolve(None, None).await.expect("live");
    assert_eq!(
        (production.snapshot.version, production.label.as_deref()),
        (version("v2"), Some("production"))
    );
    let unknown = [
        (Some("shop"), None),
        (None, Some("nightly")),
        (None, Some("No Label")),
        (None, Some("../production")),
    ];
    for (name, which) in unknown {
        handle.resolve(name, which).await.expect_err("unknown");
    }
    let other = version("v9").to_string();
    handle
        .resolve(None, Some(&other))
        .await
        .expect_err("not kept");
}

#[tokio::test]
async fn readers_always_find_a_whole_harness() {
    let world = World::new(Mode::Auto);
    let handle = world.started().await;
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (handle, stop) = (handle.clone(), Arc::clone(&stop));
            std::thread::spawn(move || {
                let mut seen = 0_usize;
                while !stop.load(Ordering::SeqCst) || seen == 0 {
                    let live = handle.live(None).expect("always there");
                    assert!(live.skills.contains_key("size-help"));
                    assert_eq!(live.version, Version::of(&live.source));
                    seen += 1;
                }
                seen
            })
        })
        .collect();
    for round in 0..30 {
        world.save(&format!("r{round}"));
        handle.reload(None).await.expect("reloads");
    }
    stop.store(true, Ordering::SeqCst);
    for reader in readers {
        assert!(reader.join().expect("no reader failed") > 0);
    }
    assert_eq!(world.engine.warm(), 1, "nothing is left behind");
}
