//! Whole harnesses: everything together, everything wrong at once, equal bytes for equal content.

use super::*;
use crate::harness::{SectionKind, testing};

const STOCK: &str = r#"{"name": "get_stock", "description": "Stock of a product.", "kind": "catalog", "input_schema": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"], "additionalProperties": false}}"#;
const SHOW: &str = r#"{"name": "show_product", "description": "Shows it.", "kind": "action", "input_schema": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"], "additionalProperties": false}}"#;

fn with(files: &[(&str, &str)]) -> Source {
    let mut source = testing::source("a host");
    for (path, text) in files {
        source.insert(*path, text.as_bytes());
    }
    source
}

fn problems(files: &[(&str, &str)]) -> Vec<String> {
    let problems = load("live-room", &with(files)).map(|loaded| loaded.harness.version);
    problems
        .expect_err("problems")
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn skill(fields: &str) -> String {
    format!("---\nname: coupons\ndescription: Coupons.\n{fields}\n---\nGive one.\n")
}

#[test]
fn a_whole_harness_is_read_with_all_that_it_holds() {
    let coupons = skill(
        "allowed-tools: show_product\nmetadata:\n  avatar/actions: '[{\"type\": \"show_product\", \"args\": {\"id\": \"p1\"}}]'",
    );
    let source = with(&[
        (
            "harness.toml",
            "tools = [\"get_stock\"]\nemotions = [\"happy\"]\n",
        ),
        ("tools/get_stock.json", STOCK),
        ("tools/show_product.json", SHOW),
        (
            "hooks/guard/hook.toml",
            "point = \"pre_segment\"\n[[rule]]\nkind = \"words\"\nlists = [\"banned\"]\n",
        ),
        ("lists/banned.txt", "guaranteed\n"),
        (
            "catalog/p1.json",
            "{\"id\": \"p1\", \"name\": \"Jacket\", \"facts\": {\"price\": 59}}",
        ),
        ("skills/coupons/SKILL.md", &coupons),
    ]);
    let loaded = load("live-room", &source).expect("valid");
    assert_eq!((loaded.warnings, loaded.notes), (Vec::new(), Vec::new()));
    let harness = loaded.harness;
    assert_eq!(harness.hooks.len(), 1);
    assert_eq!(harness.lookup.find("jacket").len(), 1);
    let offered: Vec<_> = harness
        .offered
        .iter()
        .map(|card| card.name.as_str())
        .collect();
    assert_eq!(
        offered,
        ["get_stock", "activate_skill"],
        "what a skill allows waits for it"
    );
    assert_eq!(
        harness.offered[1].input_schema["properties"]["name"]["enum"],
        serde_json::json!(["coupons", "size-help"])
    );
    let kinds: Vec<_> = harness.system.iter().map(|section| section.kind).collect();
    assert_eq!(
        kinds,
        [
            SectionKind::Persona,
            SectionKind::Rules,
            SectionKind::Skills,
            SectionKind::Tools
        ]
    );
    let text = harness.system_text();
    assert!(
        text.starts_with("You are a host.\n\n") && text.contains("\n- coupons: Coupons."),
        "{text}"
    );
    assert!(
        !text.contains("allowed-tools") && !text.contains("Give one."),
        "{text}"
    );
}

#[test]
fn an_inline_skill_is_part_of_the_prompt_with_its_tools() {
    let source = with(&[
        ("tools/show_product.json", SHOW),
        (
            "skills/coupons/SKILL.md",
            &skill("allowed-tools: show_product\nmetadata:\n  avatar/inline: true"),
        ),
    ]);
    let harness = load("live-room", &source).expect("valid").harness;
    assert!(
        harness
            .offered
            .iter()
            .any(|card| card.name == "show_product")
    );
    assert!(
        harness
            .system
            .iter()
            .any(|section| section.kind == SectionKind::Inline && section.text == "Give one.")
    );
}

#[test]
fn files_of_every_kind_are_complained_of_at_once() {
    let problems = problems(&[
        ("harness.toml", "tools = [\n\"none\"]\n"),
        ("skills/coupons/SKILL.md", "no head"),
        ("tools/get_stock.json", "{"),
        ("hooks/guard/hook.toml", "point = 1\n"),
        ("prompts/room.jinja", "\n{{ product"),
        (
            "catalog/p.json",
            "{\"id\": \"a\", \"id\": \"b\", \"name\": \"x\"}",
        ),
        ("lists/banned.txt", "# nothing\n"),
        ("prompts/persona.txt", ""),
    ]);
    for path in [
        "harness.toml:2: ",
        "skills/coupons/SKILL.md:1: ",
        "tools/get_stock.json:1: ",
        "hooks/guard/hook.toml:1: ",
        "prompts/room.jinja:2: ",
        "catalog/p.json:1: ",
        "lists/banned.txt: ",
        "prompts/persona.txt: ",
    ] {
        assert!(
            problems.iter().any(|problem| problem.starts_with(path)),
            "{path} is not in {problems:#?}"
        );
    }
    assert!(problems.is_sorted(), "{problems:#?}");
}

#[test]
fn a_mistyped_tool_never_permits_more() {
    let source = with(&[
        ("tools/show_product.json", SHOW),
        (
            "skills/coupons/SKILL.md",
            &skill("allowed-tools: show_prodcut"),
        ),
    ]);
    let loaded = load("live-room", &source).expect("loads");
    assert_eq!(loaded.warnings.len(), 1, "{:?}", loaded.warnings);
    assert!(loaded.harness.skills["coupons"].tools.is_empty());
    assert!(
        loaded
            .notes
            .iter()
            .any(|note| note.path == "tools/show_product.json"),
        "{:?}",
        loaded.notes
    );
    let limited = problems(&[
        ("tools/show_product.json", SHOW),
        (
            "skills/coupons/SKILL.md",
            &skill("allowed-tools: show_product(id:1)"),
        ),
    ]);
    assert!(limited[0].contains("cannot be kept"), "{limited:?}");
}

#[test]
fn fixed_actions_fit_their_tools() {
    for (action, part) in [
        ("[{\"type\": \"nothing\"}]", "there is no tool"),
        ("[{\"type\": \"show_product\"}]", "id"),
        (
            "[{\"type\": \"get_stock\", \"args\": {\"query\": \"x\"}}]",
            "kind action",
        ),
    ] {
        let coupons = skill(&format!("metadata:\n  avatar/actions: '{action}'"));
        let problems = problems(&[
            ("tools/show_product.json", SHOW),
            ("tools/get_stock.json", STOCK),
            ("skills/coupons/SKILL.md", &coupons),
        ]);
        assert!(
            problems[0].starts_with("skills/coupons/SKILL.md:5: ") && problems[0].contains(part),
            "{problems:?}"
        );
    }
}

#[test]
fn equal_content_gives_equal_bytes_whatever_the_order_of_reading() {
    let files = testing::files("a host");
    let mut backwards = Source::default();
    for (path, text) in files.into_iter().rev() {
        backwards.insert(path, text.into_bytes());
    }
    let one = load("live-room", &testing::source("a host"))
        .expect("valid")
        .harness;
    let other = load("live-room", &backwards).expect("valid").harness;
    assert_eq!((one.version, &one.system), (other.version, &other.system));
    // What a turn does not see changes the version and no section.
    let same = load("live-room", &with(&[("lists/banned.txt", "x\n")]))
        .expect("valid")
        .harness;
    assert_ne!(same.version, one.version);
    assert_eq!(same.system, one.system);
}

#[test]
fn what_nothing_reads_is_a_warning() {
    let loaded = load(
        "live-room",
        &with(&[
            ("notes.md", "x"),
            ("tools/x.yaml", "x"),
            ("skill/a/SKILL.md", "x"),
        ]),
    )
    .expect("loads");
    let paths: Vec<_> = loaded
        .warnings
        .iter()
        .map(|problem| problem.path.as_str())
        .collect();
    assert_eq!(paths, ["notes.md", "skill/a/SKILL.md", "tools/x.yaml"]);
}

#[test]
fn a_thousand_skills_are_read_and_each_bad_one_is_named() {
    let mut source = testing::source("a host");
    for number in 0..1000 {
        let description = if number % 100 == 0 { "" } else { "ok" };
        let text = format!("---\nname: s{number}\ndescription: '{description}'\n---\nbody\n");
        source.insert(format!("skills/s{number}/SKILL.md"), text.into_bytes());
    }
    assert_eq!(
        load("live-room", &source).expect_err("ten are bad").len(),
        10
    );
}
