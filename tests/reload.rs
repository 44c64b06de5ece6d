//! Changes of a harness while the server answers: what is live, what is told, what stays.

use std::fs;

use serde_json::{Value, json};

use crate::support::harness::{LiveRoom, skill_file};
use crate::support::until;

const OLD: &str = "There are three jackets left.";
const NEW: &str = "There are nine jackets left.";

/// What the model says under the first skill, long enough that a harness goes live meanwhile.
fn long_answer() -> String {
    "Three jackets are left in the shop, and that is all. ".repeat(8)
}

fn room() -> LiveRoom {
    let long = long_answer();
    LiveRoom::start(OLD, &[(OLD, long.trim()), (NEW, "Nine are left.")])
}

fn question() -> Value {
    json!({"room_id": "r1", "stream": true, "policy": {"max_chars": 600}, "deadline_ms": 60_000,
        "comments": [{"text": "how many are left?"}]})
}

fn said(events: impl Iterator<Item = crate::support::client::Event>) -> (String, Vec<Value>) {
    let mut text = String::new();
    let mut all = Vec::new();
    for event in events {
        if event.name.as_deref() == Some("segment") {
            text.push_str(event.json()["text"].as_str().expect("text"));
        }
        all.push(event.json());
    }
    (text, all)
}

/// Fault: an edit in the middle of an answer changed it half-way, or was seen only after a restart.
#[test]
fn an_edit_while_an_answer_streams_ends_that_answer_under_the_old_version_and_begins_the_next_under_the_new()
 {
    let room = room();
    let before = room.version();
    room.control.close();
    let mut client = room.server.client();
    client.post("/v1/avatar/respond", &question().to_string());
    let spoken = room.server.metric("avatar_segments_total");
    until("it speaks", || {
        room.control.allow(1);
        room.server.metric("avatar_segments_total") > spoken
    });
    room.save_skill(&skill_file(NEW));
    until("the edit is live", || {
        room.control.allow(1);
        room.version() != before
    });
    assert_eq!(
        room.server.metric("avatar_turns_in_flight"),
        1.0,
        "the answer still streams"
    );
    room.control.open();
    let (old, events) = said(client.events());
    assert_eq!(old.trim(), long_answer().trim());
    assert_eq!(events[0]["harness"]["version"], before.as_str());
    let (new, events) = said(room.server.stream("/v1/avatar/respond", question()));
    assert_eq!(new.trim(), "Nine are left.");
    assert_eq!(events[0]["harness"]["version"], room.version().as_str());
    let last = events.last().expect("an end");
    let (prompt, cached) = (&last["usage"]["prompt"], &last["usage"]["cached"]);
    let missed = prompt.as_u64().unwrap() - cached.as_u64().unwrap();
    assert!(
        missed < 120,
        "only what is this turn's own is computed: {last}"
    );
}

/// Fault: a broken edit took the harness down, or vanished without a word.
#[test]
fn a_broken_edit_changes_nothing_and_operators_see_why_until_a_good_one() {
    let room = room();
    let before = room.version();
    for (broken, reason) in [
        ("", "empty"),
        ("---\nname: stock\n---\nno description\n", "description"),
        ("---\nname: stock\ndescription: [\n---\n", ""),
    ] {
        room.save_skill(broken);
        until("operators see it", || {
            room.status()["last_error"] != Value::Null
        });
        let status = room.status();
        let problem = &status["last_error"]["problems"][0];
        assert_eq!(problem["path"], "skills/stock/SKILL.md", "{status}");
        assert!(
            problem["reason"].as_str().unwrap().contains(reason),
            "{status}"
        );
        assert_eq!(status["last_error"]["stage"], "load");
        assert_eq!(status["active"]["version"], before.as_str());
        assert_eq!(status["staged"], Value::Null);
        let (answer, _) = said(room.server.stream("/v1/avatar/respond", question()));
        assert_eq!(answer.trim(), long_answer().trim());
        assert!(
            room.server
                .metric("avatar_harness_reload_total{result=\"rejected\"}")
                > 0.0
        );
        room.save_skill(&skill_file(OLD));
        until("the old text is no news", || {
            room.status()["last_error"] == Value::Null
        });
        assert_eq!(room.version(), before);
    }
    room.save_skill(&skill_file(NEW));
    until("the good one is live", || room.version() != before);
    assert_eq!(room.status()["last_error"], Value::Null);
}

/// Fault: after one failed reload every later one was refused.
#[test]
fn operators_reload_promote_and_roll_back() {
    let room = LiveRoom::with(OLD, &[(OLD, "Three."), (NEW, "Nine.")], |config| {
        config.mode = compere::harness::Mode::Manual;
    });
    let old = room.version();
    let path = |verb: &str| format!("/admin/harness/live-room/{verb}");
    room.save_skill("");
    let error = room
        .admin("POST", &path("reload"), "{}")
        .error(422, "harness_rejected");
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("what was live still is")
    );
    room.save_skill(&skill_file(NEW));
    let staged = room.admin("POST", &path("reload"), "").json();
    let staged_by_watch = staged["result"] == "unchanged";
    assert!(staged_by_watch || staged["result"] == "staged", "{staged}");
    until("it is staged", || room.status()["staged"] != Value::Null);
    assert_eq!(room.version(), old);
    let new = room.status()["staged"].as_str().unwrap().to_owned();
    let promoted = room
        .admin("POST", &path("promote"), r#"{"who": "ann"}"#)
        .json();
    assert_eq!(
        (promoted["version"].as_str(), room.version()),
        (Some(&*new), new.clone())
    );
    let short = json!({"version": &old[..12]}).to_string();
    assert_eq!(
        room.admin("POST", &path("promote"), &short).json()["version"],
        old.as_str()
    );
    let back = room.admin("POST", &path("rollback"), "{}").json();
    assert_eq!(back["version"], new.as_str(), "{back}");
    let history = room.admin("GET", &path("history"), "").json();
    let entries = history["entries"].as_array().unwrap();
    assert!(
        entries
            .iter()
            .any(|entry| entry["who"] == "ann" && entry["to"] == new.as_str())
    );
    let list = room.admin("GET", "/admin/harness", "").json();
    assert_eq!(list["default"], "live-room");
    assert_eq!(list["harnesses"][0]["active"], new.as_str());
    assert_eq!(
        room.server.get("/version").json()["harness"]["live-room"],
        new.as_str()
    );
}

#[test]
fn what_operators_ask_wrongly_is_refused_by_name() {
    let room = room();
    for (method, path, body, status, code) in [
        ("GET", "/admin/harness/shop", "", 404, "harness_not_found"),
        ("GET", "/admin/harness/%FF", "", 404, "harness_not_found"),
        (
            "POST",
            "/admin/harness/live-room/promote",
            r#"{"version": "nightly"}"#,
            404,
            "harness_not_found",
        ),
        (
            "POST",
            "/admin/harness/live-room/promote",
            r#"{"versoin": "x"}"#,
            400,
            "unsupported_parameter",
        ),
        (
            "POST",
            "/admin/harness/live-room/promote",
            r#"{"version": 7}"#,
            400,
            "invalid_parameter",
        ),
        (
            "POST",
            "/admin/harness/live-room/promote",
            r#"{"who": "a", "who": "b"}"#,
            400,
            "invalid_json",
        ),
        (
            "POST",
            "/admin/harness/live-room/rollback",
            "{}",
            404,
            "harness_not_found",
        ),
        (
            "POST",
            "/admin/harness/live-room/reload",
            r#"{"now": true}"#,
            400,
            "unsupported_parameter",
        ),
        (
            "DELETE",
            "/admin/harness/live-room",
            "",
            405,
            "method_not_allowed",
        ),
        ("GET", "/admin/log-level", "", 404, "not_found"),
        ("GET", "/v1/models", "", 404, "not_found"),
    ] {
        room.admin(method, path, body).error(status, code);
    }
    // And viewers' listener has none of it.
    room.server.get("/admin/harness").error(404, "not_found");
    assert_eq!(room.status()["last_error"], Value::Null);
}

/// Fault: labels of metrics grew with every reload.
#[test]
fn metrics_tell_the_live_version_and_its_age() {
    let room = room();
    let before = room.version();
    room.save_skill(&skill_file(NEW));
    until("the edit is live", || room.version() != before);
    let text = room.server.get("/metrics").body;
    let mut info = text
        .lines()
        .filter(|line| line.starts_with("avatar_harness_info{"));
    let line = info.next().expect("a version");
    assert!(line.contains(&room.version()[..12]), "{line}");
    assert_eq!(info.next(), None);
    assert!(text.contains("avatar_harness_age_seconds{harness=\"live-room\"}"));
    assert!(
        room.server
            .metric("avatar_harness_reload_total{result=\"activated\"}")
            >= 1.0
    );
}

/// Fault: a harness that was swapped out kept its share of the KV cache for ever.
#[test]
fn a_swap_leaves_only_the_new_prefix_pinned() {
    let room = room();
    let used = || {
        room.stats
            .kv_blocks_used
            .load(std::sync::atomic::Ordering::SeqCst)
    };
    let blocks = used();
    assert!(blocks > 0, "the live prefix is resident");
    for round in 0..10 {
        let before = room.version();
        room.save_skill(&skill_file(&format!("{NEW} {round}")));
        until("the edit is live", || room.version() != before);
    }
    until("old pins are gone", || used() <= blocks + 1);
}

/// Fault: a folder that was deleted and made again was watched no more.
#[test]
fn a_skill_folder_that_is_made_again_is_followed() {
    let room = room();
    let before = room.version();
    let skills = room.room().join("skills");
    fs::remove_dir_all(&skills).unwrap();
    for n in 0..20 {
        let folder = skills.join(format!("s{n}"));
        fs::create_dir_all(&folder).unwrap();
        let text =
            skill_file(&format!("Skill {n}.")).replace("name: stock", &format!("name: s{n}"));
        fs::write(folder.join("SKILL.md"), text).unwrap();
    }
    until("all are live", || {
        room.status()["active"]["skills"].as_array().unwrap().len() == 20
    });
    let with_all = room.version();
    assert_ne!(with_all, before);
    let text = skill_file("Edited.").replace("name: stock", "name: s7");
    fs::write(skills.join("s7/SKILL.md"), text).unwrap();
    until("the later edit too", || room.version() != with_all);
}

/// The operators' listener answers while the service drains, and ends with it.
#[test]
fn operators_are_answered_in_a_drain_and_the_process_ends() {
    let mut room = room();
    room.control.close();
    let mut client = room.server.client();
    client.post("/v1/avatar/respond", &question().to_string());
    until("a turn runs", || {
        room.server.metric("avatar_turns_in_flight") == 1.0
    });
    room.server.shutdown.request();
    assert_eq!(room.status()["name"], "live-room");
    room.control.open();
    assert!(said(client.events()).0.contains("Three"));
    room.server.stopped();
}
