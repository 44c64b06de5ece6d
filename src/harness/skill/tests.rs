//! Skills from files: what is read, what is refused, and that nothing makes the reader panic.

use proptest::prelude::*;

use super::Skill;
use super::frontmatter::{self, Value};
use crate::harness::{Findings, Source};

const GOOD: &str =
    "---\nname: size-help\ndescription: Helps with sizes.\n---\n\nSay which size fits.\n";

fn read_files(files: &[(&str, &[u8])]) -> (Vec<Skill>, Findings) {
    let mut source = Source::default();
    for (path, bytes) in files {
        source.insert(*path, *bytes);
    }
    let mut found = Findings::default();
    let skills = super::read_all(&source, &mut found);
    (skills.skills.into_values().collect(), found)
}

/// The one skill of a folder `size-help`, and what was found.
fn read(text: &str) -> (Option<Skill>, Findings) {
    let (mut skills, found) = read_files(&[("skills/size-help/SKILL.md", text.as_bytes())]);
    (skills.pop(), found)
}

fn skill(text: &str) -> Skill {
    let (skill, found) = read(text);
    skill.unwrap_or_else(|| panic!("{text}\n{:?}", found.problems))
}

fn head(fields: &str) -> String {
    format!("---\nname: size-help\ndescription: ok\n{fields}\n---\nbody\n")
}

/// The only problem of a skill with these further fields.
fn refusal(fields: &str) -> String {
    let (skill, found) = read(&head(fields));
    assert!(skill.is_none(), "{fields}");
    assert_eq!(found.problems.len(), 1, "{fields}: {:?}", found.problems);
    found.problems[0].to_string()
}

#[test]
fn every_way_to_write_line_ends_and_fences_is_read_alike() {
    let endings = [
        GOOD.to_owned(),
        GOOD.replace('\n', "\r\n"),
        format!("\u{feff}{GOOD}"),
        GOOD.replacen("---\n", "---\r\n", 1)
            .replace("sizes.\n---", "sizes.\n---  "),
    ];
    for text in endings {
        let skill = skill(&text);
        assert_eq!(skill.description, "Helps with sizes.");
        assert_eq!(skill.body, "Say which size fits.");
    }
    let bare = skill("---\r\nname: size-help\r\ndescription: ok\r\n---");
    assert_eq!((bare.description.as_str(), bare.body.as_str()), ("ok", ""));
}

#[test]
fn a_fence_inside_a_value_or_the_body_is_none() {
    let text =
        "---\nname: size-help\ndescription: |\n  a\n  ---\n  b --- c\n---\nbody\n---\nmore: body\n";
    let skill = skill(text);
    assert_eq!(skill.description, "a\n---\nb --- c");
    assert_eq!(skill.body, "body\n---\nmore: body");
}

#[test]
fn what_has_no_whole_head_is_refused_and_never_read_as_a_body() {
    for text in [
        "name: x\n",
        "\n---\nname: x\n---\n",
        "---\nname: x\ndescription: y\n",
        "",
        "--- \nname",
        "----\nname: x\n---\n",
    ] {
        let (skill, found) = read(text);
        assert!(skill.is_none() && !found.problems.is_empty(), "{text:?}");
        assert_eq!(found.problems[0].line, Some(1), "{text:?}");
    }
}

#[test]
fn texts_are_read_in_every_style() {
    let cases = [
        ("license: true", "true"),
        ("license: 1.10", "1.10"),
        ("license: MIT # comment", "MIT"),
        ("license: C#", "C#"),
        ("license: 'it''s'", "it's"),
        (r#"license: "a\"b\u4e2d\n: #c" # comment"#, "a\"b中\n: #c"),
        ("license: https://x.y/z", "https://x.y/z"),
        ("license: one\n  two\n\n  three", "one two\nthree"),
        ("license:\n  below", "below"),
        ("license: >\n  one\n  two\n\n  three", "one two\nthree"),
        ("license: |-\n  one\n    two", "one\n  two"),
        ("\"license\": quoted key", "quoted key"),
    ];
    for (fields, expected) in cases {
        assert_eq!(
            skill(&head(fields)).license.as_deref(),
            Some(expected),
            "{fields}"
        );
    }
}

#[test]
fn what_is_left_out_of_yaml_is_refused_by_name_and_line() {
    let cases = [
        ("license: Use for: price", "colon"),
        ("license: &a x", "anchors"),
        ("license: *a", "aliases"),
        ("license: !!str x", "tags"),
        ("license: @x", "@"),
        ("license: 'open", "quote"),
        ("license: \"a\" b", "\"b\""),
        ("license: \"\\q\"", "\\q"),
        ("license: \"\\ud800\"", "ud800"),
        ("license: |2\n  x", "|2"),
        ("license: [a, b]", "must be a text"),
        ("license: {a: b}", "must be a text"),
        ("license: x\nlicense: y", "twice"),
        ("license: ", "blank"),
        ("license: ~", "blank"),
        ("<<: x", "merge"),
        ("? a", "?"),
        ("- a", "list item"),
        ("  license: x", "colon"),
        ("license:x", "key: value"),
        ("just words", "key: value"),
        ("\tlicense: x", "tabs"),
        ("metadata: x", "map"),
        ("metadata:\n  a: 1\n  a: 2", "twice"),
        ("metadata:\n  a:\n    b: c", "more than a text"),
        ("metadata:\n  a: 1\n   b: 2", "holds a colon"),
        ("metadata:\n  a: [x]", "begins with ["),
        ("metadata: {a: {b: c}}", "more than texts"),
        ("metadata: {a: 1, a: 2}", "twice"),
        ("compatibility: ''", "blank"),
    ];
    for (fields, part) in cases {
        let reason = refusal(fields);
        assert!(reason.contains(part), "{fields}: {reason}");
        let line: usize = reason
            .split(':')
            .nth(1)
            .and_then(|line| line.parse().ok())
            .expect("a line");
        assert!((4..=6).contains(&line), "{fields}: {reason}");
    }
}

#[test]
fn doubling_anchors_are_refused_at_once() {
    let mut fields = String::from("metadata:\n  a0: &a0 [x,x]\n");
    for level in 1..=30 {
        fields.push_str(&format!("  a{level}: &a{level} [*a{0},*a{0}]\n", level - 1));
    }
    assert!(refusal(fields.trim_end()).contains("anchors"));
}

#[test]
fn lengths_are_code_points() {
    let fits = format!("compatibility: {}", "技".repeat(500));
    assert!(skill(&head(&fits)).compatibility.is_some());
    assert!(refusal(&format!("{fits}能")).contains("501"));
    let long = format!(
        "---\nname: size-help\ndescription: {}\n---\n",
        "é".repeat(1025)
    );
    assert!(read(&long).1.problems[0].reason.contains("1025"));
}

#[test]
fn a_missing_or_blank_description_rejects() {
    for text in [
        "---\nname: size-help\n---\n",
        "---\nname: size-help\ndescription: '   '\n---\n",
    ] {
        let (skill, found) = read(text);
        assert!(skill.is_none());
        assert!(
            found.problems[0].reason.starts_with("description:"),
            "{:?}",
            found.problems
        );
    }
}

#[test]
fn the_folder_names_the_skill_whatever_the_order() {
    let beta = b"---\nname: beta\ndescription: ok\n---\nbody".as_slice();
    let (skills, found) = read_files(&[
        ("skills/alpha/SKILL.md", beta),
        ("skills/beta/SKILL.md", beta),
    ]);
    assert_eq!(found.problems, []);
    assert_eq!(found.warnings.len(), 1, "{:?}", found.warnings);
    assert_eq!(found.warnings[0].path, "skills/alpha/SKILL.md");
    let beta = skills
        .iter()
        .find(|skill| skill.name == "beta")
        .expect("beta");
    assert_eq!(beta.path, "skills/beta/SKILL.md");
}

#[test]
fn names_of_any_script_load_and_others_are_refused() {
    for (name, valid) in [
        ("直播-促销", true),
        ("осенняя-скидка", true),
        ("Осенняя-скидка", false),
        ("my--skill", false),
        ("-x", false),
        ("x-", false),
        ("my_skill", false),
        ("my skill", false),
    ] {
        let text = format!("---\nname: \"{name}\"\ndescription: ok\n---\n");
        let path = format!("skills/{name}/SKILL.md");
        let (skills, found) = read_files(&[(&path, text.as_bytes())]);
        assert_eq!(skills.len() == 1, valid, "{name}: {:?}", found.problems);
        assert_eq!(found.problems.is_empty(), valid, "{name}");
    }
}

#[test]
fn allowed_tools_are_one_set_however_written_and_refused_when_unreadable() {
    for fields in [
        "allowed-tools: get_price get_stock",
        "allowed-tools: [get_price, get_stock]",
        "allowed-tools: [get_price, 'get_stock',]",
        "allowed-tools:\n  - get_price\n  - get_stock",
        "allowed-tools:\n- get_price\n- \"get_stock\"",
    ] {
        assert_eq!(
            skill(&head(fields)).tools,
            ["get_price", "get_stock"],
            "{fields}"
        );
    }
    assert_eq!(skill(&head("license: x")).tools, Vec::<String>::new());
    // A limit that cannot be kept gives no permission at all.
    assert_eq!(
        skill(&head("allowed-tools: Bash(git:*) get_price")).tools,
        ["get_price"]
    );
    for fields in [
        "allowed-tools:",
        "allowed-tools: get_price, get_stock",
        "allowed-tools: '*'",
        "allowed-tools: {get_price: yes}",
        "allowed-tools: [get_price",
        "allowed-tools: Bash(git",
        "allowed-tools: [[a]]",
    ] {
        assert!(refusal(fields).contains("allowed-tools"), "{fields}");
    }
}

#[test]
fn metadata_are_texts() {
    let skill = skill(&head("metadata: {v: 1.10, on: yes, t: \"a, b\", e: }"));
    let pairs: Vec<_> = skill
        .metadata
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        pairs,
        [("e", ""), ("on", "yes"), ("t", "a, b"), ("v", "1.10")]
    );
}

#[test]
fn our_settings_live_in_metadata() {
    let fields = "metadata:\n  author: someone\n  avatar/inline: true\n  avatar/triggers: size, /how (big|small)/\n  \
                  avatar/priority: -3\n  avatar/risk: high\n  avatar/facts: sizes, cut\n  avatar/fallback: One moment.\n  \
                  avatar/actions: '[{\"type\": \"show_product\", \"args\": {\"id\": 1}}]'";
    let skill = skill(&head(fields));
    assert!(skill.inline && skill.triggers.matches("How BIG is it"));
    assert_eq!((skill.priority, skill.risk), (-3, super::Risk::High));
    assert_eq!(skill.facts, ["sizes", "cut"]);
    assert_eq!(skill.fallback.as_deref(), Some("One moment."));
    assert_eq!(
        (skill.actions.len(), skill.actions[0].tool.as_str()),
        (1, "show_product")
    );
    for (key, value) in [
        ("inline", "yes"),
        ("triggers", "/(/"),
        ("priority", "101"),
        ("risk", "huge"),
        ("facts", "','"),
        ("fallback", "'…'"),
        ("say", "'…'"),
        ("topics", "rain"),
        ("actions", "show_product"),
        ("actions", "'[{\"type\": \"a b\"}]'"),
    ] {
        let reason = refusal(&format!("metadata:\n  avatar/{key}: {value}"));
        assert!(
            reason.contains(&format!(":5: metadata.avatar/{key}:")),
            "{reason}"
        );
    }
    let (_, found) = read(&head("metadata:\n  avatar/inlin: true"));
    assert!(
        found.warnings[0].reason.contains("avatar/inlin"),
        "{:?}",
        found.warnings
    );
}

#[test]
fn topics_narrow_the_facts_and_activate_their_skill() {
    let text = head(
        "metadata:\n  avatar/triggers: help\n  avatar/facts: about\n  avatar/topics: |\n    fit: fits, tight\n    sizes: size, /\\bxl\\b/",
    );
    let skill = skill(&text);
    assert_eq!(skill.facts, ["about", "fit", "sizes"]);
    assert!(skill.triggers.matches("is it tight?") && skill.triggers.matches("help"));
    assert!(!skill.triggers.matches("what colour?"));
    let topics: Vec<_> = skill
        .topics
        .iter()
        .map(|topic| topic.fact.as_str())
        .collect();
    assert_eq!(topics, ["fit", "sizes"]);
    let reason = refusal("metadata:\n  avatar/topics: size");
    assert!(reason.contains(":5: metadata.avatar/topics:"), "{reason}");
}

#[test]
fn an_unknown_field_is_a_warning_and_every_problem_is_told_at_once() {
    let (skill, found) = read(&head("version: 3"));
    assert!(skill.is_some());
    assert_eq!(
        found.warnings[0].to_string(),
        "skills/size-help/SKILL.md:4: version: is no field of the format; put it under metadata"
    );
    let (_, found) = read("---\nname: A\ndescription: ''\nlicense: &x\nallowed-tools: '?'\n---\n");
    let lines: Vec<_> = found
        .problems
        .iter()
        .filter_map(|problem| problem.line)
        .collect();
    assert_eq!(lines.len(), 4, "{:?}", found.problems);
}

#[test]
fn only_the_folders_own_files_can_be_read() {
    let (skills, found) = read_files(&[
        ("skills/size-help/SKILL.md", GOOD.as_bytes()),
        ("skills/size-help/references/chart.md", b"S M L"),
        ("skills/size-help/assets/logo.png", b"\xff\xd8"),
        (
            "skills/other/SKILL.md",
            b"---\nname: other\ndescription: ok\n---\nx",
        ),
        ("skills/other/references/secret.md", b"secret"),
        ("skills/size-help/references/bad.md", b"\xff"),
    ]);
    assert_eq!(found.problems.len(), 1);
    assert_eq!(found.problems[0].path, "skills/size-help/references/bad.md");
    assert_eq!(
        skills.len(),
        1,
        "a skill with a broken file is not half loaded"
    );
    let (skills, _) = read_files(&[
        ("skills/size-help/SKILL.md", GOOD.as_bytes()),
        ("skills/size-help/references/chart.md", b"S M L"),
        (
            "skills/other/SKILL.md",
            b"---\nname: other\ndescription: ok\n---\nx",
        ),
        ("skills/other/references/secret.md", b"secret"),
    ]);
    let skill = skills
        .iter()
        .find(|skill| skill.name == "size-help")
        .expect("size-help");
    assert_eq!(skill.file("references/chart.md"), Some(b"S M L".as_slice()));
    assert_eq!(
        skill.file("./references/chart.md"),
        Some(b"S M L".as_slice())
    );
    for path in [
        "../other/references/secret.md",
        "references/../../other/references/secret.md",
        "/etc/passwd",
        "SKILL.md",
        "",
    ] {
        assert_eq!(skill.file(path), None, "{path}");
    }
}

#[test]
fn a_folder_without_a_skill_is_a_problem() {
    let (_, found) = read_files(&[("skills/a/skill.md", b"x"), ("skills/README.md", b"x")]);
    assert_eq!(found.problems[0].to_string(), "skills/a: has no SKILL.md");
    assert_eq!(found.warnings[0].path, "skills/README.md");
}

/// Pieces that meet in broken heads.
const PIECES: [&str; 26] = [
    "---", "\n", "\r\n", "name", ":", " ", "  ", "- ", "'", "\"", "\\", "\\u12", "[", "]", "{",
    "}", ",", "#", "&a", "*a", "|", ">", "\t", "metadata", "技", "\u{feff}",
];

proptest! {
    #[test]
    fn no_input_makes_the_reader_panic(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..40), raw in any::<bool>()) {
        let text = pieces.concat();
        let text = if raw { text } else { format!("---\n{text}\n---\nbody") };
        let parts = frontmatter::split(&text);
        for entry in &parts.entries {
            prop_assert!(!entry.key.is_empty() && entry.line >= 2);
        }
        let _ = read(&text);
    }

    #[test]
    fn a_changed_good_file_is_read_or_refused_with_a_line(at in 0usize..GOOD.len(), byte in any::<u8>()) {
        let mut bytes = GOOD.as_bytes().to_vec();
        bytes[at] = byte;
        let (skills, found) = read_files(&[("skills/size-help/SKILL.md", &bytes)]);
        prop_assert_eq!(skills.is_empty(), !found.problems.is_empty());
        prop_assert!(found.problems.iter().all(|problem| problem.line.is_some()));
    }

    #[test]
    fn any_text_in_double_quotes_is_read_back(text in "[^\\p{Cc}]{1,40}") {
        let quoted = serde_json::to_string(&text).expect("JSON");
        let parts = frontmatter::split(&format!("---\nkey: {quoted}\n---\n"));
        prop_assert_eq!(&parts.faults, &Vec::new());
        prop_assert_eq!(&parts.entries[0].value, &Value::Text(text));
    }
}
