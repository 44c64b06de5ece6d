//! What hooks make of a turn: what is asked, what is said, and what is said when a hook itself fails.

use super::*;

fn script(point: &str, on_error: &str, body: &str) -> (String, String) {
    let toml = format!(
        "point = \"{point}\"\non_error = \"{on_error}\"\nbudget_ms = 1\nscript = \"hook.rhai\"\n"
    );
    (toml, format!("fn run(event) {{ {body} }}"))
}

/// A stage with one script as its only hook.
fn scripted(point: &str, on_error: &str, body: &str, scripts: Vec<Script>) -> Stage {
    let (toml, script) = script(point, on_error, body);
    let files = [
        ("hooks/own/hook.toml", toml.as_str()),
        ("hooks/own/hook.rhai", script.as_str()),
    ];
    staged(&files, scripts)
}

const BANNED: (&str, &str) = (
    "hooks/banned/hook.toml",
    "point = \"pre_segment\"\n[[rule]]\nkind = \"words\"\nwords = [\"best\"]\naction = \"block\"\nreason = \"superlative\"\n",
);
const READ_ALOUD: (&str, &str) = (
    "hooks/aloud/hook.toml",
    "point = \"pre_segment\"\norder = 90\n[[rule]]\nkind = \"read_aloud\"\n",
);

#[tokio::test(start_paused = true)]
async fn a_blocked_clause_is_replaced_by_the_fallback_line_and_nothing_follows() {
    let script = Ok(vec![
        text("It is warm. It is the best one. Buy"),
        Beat::Hang,
    ]);
    let stage = staged(&[BANNED], vec![script]);
    let events = stage.answer("is it good?").await;
    assert_eq!(texts(&events), ["It is warm. ", "One moment."]);
    let completion = completion(&events);
    assert_eq!(completion.finish_reason, TurnFinish::Blocked);
    assert!(completion.usage.prompt > 0 && completion.usage.completion > 0);
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(stage.engine.running(), 0);
    assert_eq!(stage.ended("blocked"), 1.0);
    let samples = stage.samples();
    assert_eq!(
        samples["avatar_segments_blocked_total{hook=\"banned\"}"],
        1.0
    );
    assert_eq!(samples["avatar_fallback_total{reason=\"blocked\"}"], 1.0);
    stage.assert_conserved();
}

#[tokio::test(start_paused = true)]
async fn the_last_clause_and_a_cut_one_are_asked_about_too() {
    for script in [
        says(&["The best"]),
        Ok(vec![text("The best one."), Beat::End(FinishReason::Length)]),
        Ok(vec![text("The best one."), wait(9000)]),
    ] {
        let stage = staged(&[BANNED], vec![script]);
        let events = stage.answer("is it good?").await;
        assert_eq!(texts(&events), ["One moment."]);
        assert_eq!(completion(&events).finish_reason, TurnFinish::Blocked);
    }
}

#[tokio::test(start_paused = true)]
async fn a_skills_own_fallback_line_goes_first() {
    let skill = (
        "skills/price/SKILL.md",
        "---\nname: price\ndescription: Prices.\nmetadata:\n  avatar/triggers: how much\n  avatar/fallback: The price is on screen.\n---\nB.\n",
    );
    let scripts = vec![says(&["The best."]), says(&["The best."])];
    let stage = staged(&[BANNED, skill], scripts);
    assert_eq!(
        spoken(&stage.answer("how much?").await),
        "The price is on screen."
    );
    assert_eq!(spoken(&stage.answer("why?").await), "One moment.");
}

#[tokio::test(start_paused = true)]
async fn numbers_read_aloud_change_what_is_said_and_not_what_is_shown() {
    let substitute = (
        "hooks/mild/hook.toml",
        "point = \"pre_segment\"\n[[rule]]\nkind = \"words\"\nwords = [\"cheap\"]\naction = \"substitute\"\ntext = \"fair\"\n",
    );
    let stage = staged(
        &[READ_ALOUD, substitute],
        vec![says(&["It is a cheap $59. Yes."])],
    );
    let events = stage.answer("how much?").await;
    let TurnEvent::Segment(first) = &events[1] else {
        panic!("{events:?}")
    };
    assert_eq!(first.text, "It is a fair $59. ");
    assert_eq!(first.tts_text, "It is a fair fifty-nine dollars.");
    assert_eq!(completion(&events).finish_reason, TurnFinish::Stop);
}

#[tokio::test(start_paused = true)]
async fn a_hook_may_say_something_else_in_a_clauses_place_and_the_turn_goes_on() {
    let replace = (
        "hooks/own/hook.toml",
        "point = \"pre_segment\"\n[[rule]]\nkind = \"words\"\nwords = [\"best\"]\naction = \"replace\"\ntext = \"It is good.\"\nreason = \"r\"\n",
    );
    let stage = staged(&[replace], vec![says(&["The best one. It is warm."])]);
    let events = stage.answer("is it good?").await;
    assert_eq!(texts(&events), ["It is good. ", "It is warm."]);
    assert_eq!(completion(&events).finish_reason, TurnFinish::Stop);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_blocks_what_it_guards_unless_it_says_otherwise() {
    for (ended, body) in [
        ("error", "throw \"broken\""),
        ("timeout", "let i = 0; loop { i += 1; }"),
        ("wrong_type", "42"),
        ("wrong_type", "#{decision: \"maybe\"}"),
        ("error", "let s = \"x\"; loop { s += s; }"),
    ] {
        let stage = scripted("pre_segment", "deny", body, vec![says(&["It is warm."])]);
        let events = stage.answer("is it warm?").await;
        assert_eq!(spoken(&events), "One moment.", "{body}");
        assert_eq!(stage.ended("blocked"), 1.0);
        let key = format!("avatar_hook_runs_total{{ended=\"{ended}\",hook=\"own\"}}");
        assert_eq!(stage.samples()[&key], 1.0, "{body}");

        let stage = scripted("pre_segment", "allow", body, vec![says(&["It is warm."])]);
        assert_eq!(spoken(&stage.answer("is it warm?").await), "It is warm.");
        assert_eq!(stage.ended("stop"), 1.0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_blocked_before_the_model_is_asked_is_answered_with_the_fallback_line() {
    for point in ["on_request", "pre_prompt"] {
        let body = "if event.text.contains(\"scam\") { #{decision: \"block\", reason: \"abuse\"} } else { #{decision: \"allow\"} }";
        let stage = scripted(point, "deny", body, vec![says(&["Yes."])]);
        let events = stage.answer("is it a scam?").await;
        assert_eq!(spoken(&events), "One moment.");
        let completion = completion(&events);
        assert_eq!(completion.finish_reason, TurnFinish::Blocked);
        assert_eq!((completion.timings.rounds, completion.usage.prompt), (0, 0));
        assert!(stage.engine.requests.lock().unwrap().is_empty());
        assert_eq!(stage.ended("blocked"), 1.0);
        assert_eq!(spoken(&stage.answer("is it warm?").await), "Yes.");
        stage.assert_conserved();
    }
}

#[tokio::test(start_paused = true)]
async fn one_blocked_comment_of_several_is_dropped_with_its_reason() {
    let body = "if event.text == \"scam\" { #{decision: \"block\"} } else { #{decision: \"modify\", text: event.text.to_upper(), additionalContext: \"be brief\"} }";
    let stage = scripted("on_request", "deny", body, vec![says(&["Yes."])]);
    let mut request = asking("scam");
    request.comments.push(Comment {
        comment_id: "c2".to_owned(),
        text: "is it warm?".to_owned(),
        ..Comment::default()
    });
    let events = events(stage.turns.respond(request).unwrap()).await;
    let TurnEvent::Started {
        comment_ids,
        dropped,
        ..
    } = &events[0]
    else {
        panic!("{events:?}")
    };
    assert_eq!(comment_ids, &["c2"]);
    assert_eq!(
        (dropped[0].comment_id.as_str(), dropped[0].reason),
        ("c1", "blocked")
    );
    let prompt = stage.prompt(0);
    assert!(
        prompt.contains("be brief\n\nPlease answer this question from a viewer: IS IT WARM?"),
        "{prompt}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_quiet_room_that_a_hook_leaves_quiet_hears_nothing() {
    let stage = scripted("on_idle", "deny", "#{decision: \"block\"}", Vec::new());
    let idle = TurnRequest {
        trigger: Trigger {
            kind: TriggerKind::Idle,
            reason: String::new(),
        },
        comments: Vec::new(),
        ..request()
    };
    let events = events(stage.turns.respond(idle).unwrap()).await;
    assert_eq!(texts(&events), Vec::<&str>::new());
    assert_eq!(completion(&events).finish_reason, TurnFinish::Blocked);
}

#[tokio::test(start_paused = true)]
async fn the_hooks_of_the_end_see_all_that_was_said_and_change_nothing() {
    let body =
        "if event.text == \"It is warm. Buy it.\" { #{decision: \"block\"} } else { throw \"no\" }";
    let stage = scripted(
        "on_complete",
        "deny",
        body,
        vec![says(&["It is warm. Buy it."])],
    );
    let events = stage.answer("is it warm?").await;
    assert_eq!(completion(&events).finish_reason, TurnFinish::Stop);
    let samples = stage.samples();
    assert_eq!(
        samples["avatar_hook_runs_total{ended=\"block\",hook=\"own\"}"],
        1.0
    );
    assert_eq!(samples["avatar_stage_seconds_count{stage=\"hook\"}"], 1.0);
    assert_eq!(samples["avatar_stage_seconds_count{stage=\"render\"}"], 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_price_that_no_fact_bears_out_is_not_said() {
    let guard = (
        "hooks/guard/hook.toml",
        "point = \"pre_segment\"\n[[rule]]\nkind = \"price_guard\"\naction = \"block\"\nreason = \"price\"\n",
    );
    let product = (
        "catalog/a.json",
        r#"{"id":"p","name":"Jacket","facts":{"price":"$59"}}"#,
    );
    let scripts = vec![says(&["It is $59."]), says(&["It is $9."])];
    let stage = staged(&[guard, READ_ALOUD, product], scripts);
    assert_eq!(
        spoken(&stage.answer("how much is the jacket?").await),
        "It is $59."
    );
    assert_eq!(
        spoken(&stage.answer("how much is the jacket?").await),
        "One moment."
    );
}
