//! Real folders, saved in every way that people and systems save them. Waits end when what is waited for is there.

use std::fs;
use std::time::Duration;

use super::*;

/// Waits until it is so; hangs, and so fails, if it never is.
async fn until(mut so: impl FnMut() -> bool) {
    while !so() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn until_live(handle: &HarnessHandle, text: &str) {
    let expected = format!("You are {text}.");
    until(|| persona(handle) == expected).await;
}

#[tokio::test]
async fn saving_by_rename_is_seen_every_time() {
    let world = World::new(Mode::Auto);
    let registry = world.start().await.expect("starts");
    let (handle, _following) = (registry.handle(), registry.follow());
    for text in ["a", "b", "c"] {
        let new = world.room().join("prompts/persona.txt.tmp");
        testing::put(&new, &format!("You are {text}."));
        fs::rename(&new, world.room().join("prompts/persona.txt")).expect("renamed");
        until_live(&handle, text).await;
    }
}

#[tokio::test]
async fn an_empty_moment_is_never_live() {
    let world = World::new(Mode::Auto);
    let registry = world.start().await.expect("starts");
    let (handle, _following) = (registry.handle(), registry.follow());
    for round in 0..10 {
        let path = world.room().join("prompts/persona.txt");
        fs::File::create(&path).expect("truncated");
        tokio::task::yield_now().await;
        assert!(!persona(&handle).is_empty());
        let text = format!("round {round}");
        fs::write(&path, format!("You are {text}.")).expect("written");
        until_live(&handle, &text).await;
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_swap_of_a_mounted_map_is_one_change() {
    use std::os::unix::fs::symlink;
    let world = World::new(Mode::Auto);
    let room = world.config.directory.join("mounted");
    testing::write(&room.join("..0"), "0");
    symlink("..0", room.join("..data")).expect("link");
    for entry in ["harness.toml", "prompts", "skills"] {
        symlink(format!("..data/{entry}"), room.join(entry)).expect("link");
    }
    let registry = world.start().await.expect("starts");
    let (handle, _following) = (registry.handle(), registry.follow());
    let said = |handle: &HarnessHandle| {
        handle
            .live(Some("mounted"))
            .expect("live")
            .persona
            .trim()
            .to_owned()
    };
    for round in 1..4 {
        testing::write(&room.join(format!("..{round}")), &round.to_string());
        symlink(format!("..{round}"), room.join("..data_tmp")).expect("link");
        fs::rename(room.join("..data_tmp"), room.join("..data")).expect("swapped");
        fs::remove_dir_all(room.join(format!("..{}", round - 1))).expect("removed");
        let expected = format!("You are {round}.");
        until(|| said(&handle) == expected).await;
    }
}

#[tokio::test]
async fn a_folder_that_is_deleted_and_made_again_is_seen_whole() {
    let world = World::new(Mode::Auto);
    let registry = world.start().await.expect("starts");
    let (handle, _following) = (registry.handle(), registry.follow());
    fs::remove_dir_all(world.room()).expect("removed");
    testing::write(&world.room(), "back");
    for skill in 0..20 {
        let text = format!("---\nname: s{skill}\ndescription: ok\n---\nbody\n");
        testing::put(
            &world.room().join(format!("skills/s{skill}/SKILL.md")),
            &text,
        );
    }
    until(|| handle.live(None).expect("live").skills.len() == 21).await;
    testing::put(
        &world.room().join("skills/s7/SKILL.md"),
        "---\nname: s7\ndescription: ok\n---\nedited\n",
    );
    until(|| handle.live(None).expect("live").skills["s7"].body == "edited").await;
}

#[cfg(unix)]
#[tokio::test]
async fn what_cannot_be_read_is_told_by_its_path_and_ends_nothing() {
    use std::os::unix::fs::symlink;
    let world = World::new(Mode::Auto);
    let registry = world.start().await.expect("starts");
    let (handle, _following) = (registry.handle(), registry.follow());
    symlink("nowhere", world.room().join("skills/aaa")).expect("link");
    world.save("v2");
    until(|| handle.status(None).expect("status").last_error.is_some()).await;
    let error = handle
        .status(None)
        .expect("status")
        .last_error
        .expect("told");
    assert_eq!(error.problems[0].path, "skills/aaa");
    assert_eq!(persona(&handle), "You are v1.");
    fs::remove_file(world.room().join("skills/aaa")).expect("removed");
    until_live(&handle, "v2").await;
}

#[tokio::test]
async fn what_another_process_promotes_in_the_store_goes_live() {
    let world = World::new(Mode::Manual);
    let registry = world.start().await.expect("starts");
    let (handle, _following) = (registry.handle(), registry.follow());
    world.save("v2");
    until(|| handle.status(None).expect("status").staged.is_some()).await;
    let store = crate::harness::store::Store::open(world.dir.path().join("state/live-room"))
        .expect("opens");
    store.promote(version("v2"), "somebody").expect("promoted");
    until_live(&handle, "v2").await;
}

#[tokio::test]
async fn dropping_the_following_ends_it() {
    let world = World::new(Mode::Auto);
    let registry = world.start().await.expect("starts");
    let handle = registry.handle();
    let following = registry.follow();
    world.save("v2");
    until_live(&handle, "v2").await;
    drop(following);
    world.save("v3");
    tokio::task::yield_now().await;
    assert_eq!(persona(&handle), "You are v2.");
}
