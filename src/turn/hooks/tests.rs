//! Hooks at work: what each outcome does, and that no script or rule can hurt the process.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Decision, Ended, Event, Report, ToolUse, run};
use crate::harness::hook::{self, Hook, Point};
use crate::harness::{Problem, Source};

fn hook(name: &str, toml: &str, script: Option<&str>) -> Hook {
    let mut source = Source::default();
    source.insert(format!("hooks/{name}/hook.toml"), toml.as_bytes());
    if let Some(script) = script {
        source.insert(format!("hooks/{name}/hook.rhai"), script.as_bytes());
    }
    let mut problems: Vec<Problem> = Vec::new();
    let hook = hook::read(name, &source, &mut problems);
    hook.unwrap_or_else(|| panic!("{problems:?}"))
}

fn script(point: &str, body: &str) -> Hook {
    let toml = format!("point = \"{point}\"\nscript = \"hook.rhai\"\nbudget_ms = 20\n");
    hook(
        "script",
        &toml,
        Some(&format!("fn run(event) {{ {body} }}")),
    )
}

fn rule(toml: &str) -> Hook {
    hook(
        "rule",
        &format!("point = \"pre_segment\"\n[[rule]]\n{toml}"),
        None,
    )
}

fn text(text: &str) -> Event {
    Event {
        text: text.to_owned(),
        facts: json!({"price": 199, "name": "jacket"}),
        ..Event::default()
    }
}

fn ask(hook: Hook, event: &Event) -> Report {
    let point = hook.point;
    run(point, event, &[hook])
}

fn blocked(report: &Report) -> bool {
    matches!(report.decision, Decision::Block { .. })
}

#[test]
fn a_script_decides_with_the_fields_people_know() {
    let cases = [
        ("#{decision: \"allow\"}", Ended::Allow),
        (
            "#{decision: \"allow\", additionalContext: \"be brief\"}",
            Ended::Allow,
        ),
        (
            "#{decision: \"modify\", text: event.text + \"!\"}",
            Ended::Modify,
        ),
        (
            "#{decision: \"replace\", text: \"Let me check.\"}",
            Ended::Replace,
        ),
        ("#{decision: \"block\", reason: \"no\"}", Ended::Block),
        (
            "if event.text.contains(\"hello\") { #{decision: \"allow\"} } else { #{decision: \"block\"} }",
            Ended::Allow,
        ),
        (
            "if event.facts.price == 199 { #{decision: \"allow\"} } else { #{decision: \"block\"} }",
            Ended::Allow,
        ),
    ];
    for (body, ended) in cases {
        let report = ask(script("pre_segment", body), &text("hello"));
        assert_eq!(
            report.runs[0].ended, ended,
            "{body}: {}",
            report.runs[0].reason
        );
    }
    let report = ask(
        script(
            "pre_segment",
            "#{decision: \"modify\", text: event.text + \"!\", additionalContext: \"c\"}",
        ),
        &text("hello"),
    );
    assert_eq!(
        (report.event.text.as_str(), report.decision),
        ("hello!", Decision::Modify)
    );
    assert_eq!(report.context, ["c"]);
}

#[test]
fn a_tool_hook_changes_the_input_or_answers_in_its_place() {
    let tool = ToolUse {
        name: "get_price".to_owned(),
        input: json!({"sku": "A1"}),
        result: None,
    };
    let event = Event {
        tool: Some(tool),
        ..Event::default()
    };
    let report = ask(
        script(
            "pre_tool",
            "let i = event.tool_input; i.sku = \"B2\"; #{decision: \"modify\", updatedInput: i}",
        ),
        &event,
    );
    assert_eq!(report.event.tool.unwrap().input, json!({"sku": "B2"}));
    let report = ask(
        script("pre_tool", "#{decision: \"replace\", text: \"sold out\"}"),
        &event,
    );
    assert_eq!(
        (report.decision, report.event.text.as_str()),
        (Decision::Replace, "sold out")
    );
    let report = ask(
        script("pre_tool", "#{decision: \"modify\", updatedInput: 5}"),
        &event,
    );
    assert_eq!(report.runs[0].ended, Ended::WrongType);
}

#[test]
fn what_is_no_decision_blocks_unless_the_hook_says_otherwise() {
    let bodies = [
        "()",
        "42",
        "\"deny\"",
        "#{}",
        "#{decision: true}",
        "#{decision: \"deny\"}",
        "#{decison: \"allow\"}",
        "#{decision: \"allow\", text: \"x\"}",
        "#{decision: \"replace\"}",
        "#{decision: \"replace\", text: \"…\"}",
        "#{decision: \"modify\"}",
        "#{decision: \"modify\", updatedInput: #{}}",
        "#{decision: \"block\", reason: 1}",
        "#{decision: \"modify\", text: [[1]]}",
    ];
    for body in bodies {
        let report = ask(script("pre_segment", body), &text("hello"));
        assert_eq!(report.runs[0].ended, Ended::WrongType, "{body}");
        assert!(blocked(&report), "{body}");
    }
}

#[test]
fn abnormal_ends_are_outcomes_of_their_own_and_follow_on_error() {
    let cases = [
        ("throw \"x\"", Ended::Error),
        ("no_such_function(1)", Ended::Error),
        ("1 / 0", Ended::Error),
        ("loop { }", Ended::Timeout),
        ("panic_in_test()", Ended::Panic),
        ("5", Ended::WrongType),
    ];
    for (body, ended) in cases {
        for (policy, deny) in [("deny", true), ("allow", false)] {
            let toml = format!(
                "point = \"pre_segment\"\nscript = \"hook.rhai\"\non_error = \"{policy}\"\n"
            );
            let hook = hook("guard", &toml, Some(&format!("fn run(event) {{ {body} }}")));
            let report = ask(hook, &text("hello"));
            assert_eq!(report.runs[0].ended, ended, "{body}");
            assert_eq!(blocked(&report), deny, "{body}");
            assert!(deny || report.decision == Decision::Allow);
            assert!(!report.runs[0].reason.is_empty());
        }
    }
}

#[test]
fn no_script_takes_more_memory_stack_or_time_than_its_limits() {
    let bodies = [
        "let s = \"x\"; loop { s += s; }",
        "let s = \"x\"; s.pad(1000000000, \"y\"); s",
        "let m = #{}; let i = 0; loop { m[`k${i}`] = i; i += 1; }",
        "let a = []; loop { a.push(a); }",
        "let a = []; loop { a = [a, a]; }",
        "let a = []; a.pad(1000000000, 1); a",
        "let a = [1]; loop { a += a; }",
        "let m = #{}; loop { m = #{a: m, b: [m]}; }",
        "let s = `${event.text}`; loop { s = `${s}${s}`; }",
        "let s = \"x\"; while true { s = s + s; }",
        "let a = []; while a.len() < 2000 { a = [a]; } a",
        "let x = 0..9223372036854775807; for i in x { }",
        "Fn(\"run\").call(event)",
        "run(event)",
        "let f = Fn(\"sleep\"); f.call(10)",
        "call(Fn(\"eval\"), \"loop {}\")",
        "sleep(10)",
        "exit(1)",
        "event.text.split(\"\").sort(|a, b| 1)",
    ];
    for body in bodies {
        let body = body.to_owned();
        // The size of a worker's stack; an overflow would end the test program.
        let worker = std::thread::Builder::new()
            .stack_size(2 << 20)
            .spawn(move || {
                let report = ask(script("pre_segment", &body), &text("hello"));
                assert!(blocked(&report), "{body}: {:?}", report.runs);
                let ended = report.runs[0].ended;
                assert!(
                    matches!(ended, Ended::Error | Ended::Timeout | Ended::WrongType),
                    "{body}: {ended:?}"
                );
            });
        worker.unwrap().join().unwrap();
    }
}

#[test]
fn recursion_ends_as_an_error() {
    let toml = "point = \"pre_segment\"\nscript = \"hook.rhai\"\nbudget_ms = 500\n";
    let hook = hook(
        "guard",
        toml,
        Some("fn f(n) { f(n + 1) }\nfn run(event) { f(0) }"),
    );
    let report = ask(hook, &text("hello"));
    assert_eq!(report.runs[0].ended, Ended::Error);
}

#[test]
fn large_facts_reach_a_script_whole() {
    let products: Vec<Value> = (0..5_000).map(|n| json!({"id": n, "price": n})).collect();
    let event = Event {
        text: "hello".to_owned(),
        facts: Value::Array(products),
        ..Event::default()
    };
    let body = "if event.facts[4999].price == 4999 { #{decision: \"allow\"} } else { #{decision: \"block\"} }";
    assert_eq!(
        ask(script("pre_segment", body), &event).decision,
        Decision::Allow
    );
}

#[test]
fn hooks_run_in_order_each_on_what_the_one_before_left_and_a_block_ends_it() {
    let make = |name: &str, order: i64, body: &str| {
        let toml = format!("point = \"pre_segment\"\norder = {order}\nscript = \"hook.rhai\"\n");
        hook(name, &toml, Some(&format!("fn run(event) {{ {body} }}")))
    };
    let append = |word: &str| format!("#{{decision: \"modify\", text: event.text + \" {word}\"}}");
    let hooks = [
        make("c", 5, &append("c")),
        make("b", 1, &append("b")),
        make("a", 1, &append("a")),
        make("z", -1, &append("z")),
    ];
    let report = run(Point::PreSegment, &text("start"), &hooks);
    assert_eq!(report.event.text, "start z a b c");
    let order: Vec<&str> = report.runs.iter().map(|run| &*run.hook).collect();
    assert_eq!(order, ["z", "a", "b", "c"]);
    let with_block = [
        make("last", 9, "panic_in_test()"),
        make("stop", 2, "#{decision: \"block\", reason: \"r\"}"),
        hooks[0].clone(),
    ];
    let report = run(Point::PreSegment, &text("start"), &with_block);
    assert_eq!(
        report.decision,
        Decision::Block {
            hook: "stop".into(),
            reason: "r".to_owned()
        }
    );
    assert_eq!(report.runs.len(), 1, "hooks behind a block are not asked");
}

#[test]
fn a_guard_still_looks_at_what_another_hook_put_in_place() {
    let replace = script(
        "pre_segment",
        "#{decision: \"replace\", text: \"the best ever\"}",
    );
    let guard = hook(
        "zguard",
        "point = \"pre_segment\"\norder = 1\n[[rule]]\nkind = \"words\"\nwords = [\"best\"]\n",
        None,
    );
    assert!(blocked(&run(
        Point::PreSegment,
        &text("hello"),
        &[guard, replace]
    )));
}

#[test]
fn other_points_are_not_asked() {
    let report = run(
        Point::OnIdle,
        &text("x"),
        &[script("pre_segment", "#{decision: \"block\"}")],
    );
    assert_eq!((report.decision, report.runs.len()), (Decision::Allow, 0));
}

#[test]
fn rules_block_replace_and_substitute() {
    let report = ask(
        rule("kind = \"words\"\nwords = [\"最便宜\"]\n"),
        &text("全网最 便宜！"),
    );
    assert!(blocked(&report));
    let report = ask(
        rule(
            "kind = \"words\"\nwords = [\"cheapest\"]\naction = \"substitute\"\ntext = \"great\"\n",
        ),
        &text("The Cheapest one"),
    );
    assert_eq!(
        (report.event.text.as_str(), report.decision),
        ("The great one", Decision::Modify)
    );
    let report = ask(
        rule(
            "kind = \"regex\"\npattern = '(?i)\\bid (\\d+)'\naction = \"substitute\"\ntext = \"number $1\"\n",
        ),
        &text("ID 42 is yours"),
    );
    assert_eq!(report.event.text, "number 42 is yours");
    let report = ask(
        rule(
            "kind = \"price_guard\"\naction = \"replace\"\ntext = \"See the link for its price.\"\n",
        ),
        &text("It is only $99 today"),
    );
    assert_eq!(
        (report.event.text.as_str(), report.decision),
        ("See the link for its price.", Decision::Replace)
    );
    let report = ask(rule("kind = \"read_aloud\"\n"), &text("It is $199."));
    assert_eq!(report.event.text, "It is one hundred ninety-nine dollars.");
    let report = ask(
        rule("kind = \"regex\"\npattern = \".+\"\naction = \"substitute\"\ntext = \"\"\n"),
        &text("all of it"),
    );
    assert!(blocked(&report), "nothing is left to say");
}

#[test]
fn rules_look_inside_the_arguments_and_results_of_tools() {
    let toml = "point = \"pre_tool\"\n[[rule]]\nkind = \"regex\"\npattern = \"1\\\\d{10}\"\naction = \"substitute\"\ntext = \"***\"\n";
    let tool = ToolUse {
        name: "note".to_owned(),
        input: json!({"a": [{"b": "call 13800138000"}]}),
        result: None,
    };
    let event = Event {
        tool: Some(tool.clone()),
        ..Event::default()
    };
    let report = ask(hook("mask", toml, None), &event);
    assert_eq!(
        report.event.tool.unwrap().input,
        json!({"a": [{"b": "call ***"}]})
    );
    let toml = toml.replace("pre_tool", "post_tool");
    let event = Event {
        tool: Some(ToolUse {
            result: Some(json!("13800138000")),
            ..tool
        }),
        ..Event::default()
    };
    let report = ask(hook("mask", &toml, None), &event);
    assert_eq!(report.event.tool.unwrap().result, Some(json!("***")));
}

#[test]
fn substitutions_cannot_blow_a_text_up() {
    let toml = format!(
        "kind = \"words\"\nwords = [\"a\"]\naction = \"substitute\"\ntext = \"{}\"\n",
        "b ".repeat(2_000)
    );
    let report = ask(rule(&toml), &text(&"a ".repeat(100)));
    assert_eq!(report.runs[0].ended, Ended::Error);
    assert!(blocked(&report));
}

#[test]
fn a_text_beyond_the_budget_is_a_timeout() {
    let hook = hook(
        "rule",
        "point = \"pre_segment\"\nbudget_ms = 1\n[[rule]]\nkind = \"words\"\nwords = [\"zz\"]\n",
        None,
    );
    assert_eq!(
        ask(hook.clone(), &text(&"word ".repeat(20_000))).runs[0].ended,
        Ended::Timeout
    );
    assert_eq!(
        ask(hook, &text(&"word ".repeat(1_000))).runs[0].ended,
        Ended::Allow
    );
}

#[test]
fn durations_are_told_for_each_run() {
    let report = ask(script("pre_segment", "#{decision: \"allow\"}"), &text("x"));
    assert!(report.runs[0].duration > Duration::ZERO);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever a script is, its run ends in an outcome, and one that is no clean allow or change blocks.
    #[test]
    fn any_script_ends_and_fails_closed(body in "[-a-z0-9+*/(){}\\[\\];=.,\" |#:!<>&`$]{0,60}", said in "\\PC{0,40}") {
        let mut source = Source::default();
        source.insert("hooks/h/hook.toml", b"point = \"pre_segment\"\nscript = \"hook.rhai\"\n".as_slice());
        source.insert("hooks/h/hook.rhai", format!("fn run(event) {{ {body} }}").into_bytes());
        if let Some(hook) = hook::read("h", &source, &mut Vec::new()) {
            let report = ask(hook, &text(&said));
            let clean = matches!(report.runs[0].ended, Ended::Allow | Ended::Modify | Ended::Replace);
            prop_assert_eq!(blocked(&report), !clean);
        }
    }
}
