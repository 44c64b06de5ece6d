//! Templates from files: what is compiled, what is refused and where, and that no template can exhaust anything.

use serde_json::json;

use super::Prompts;
use crate::harness::{Findings, Source};

fn read(files: &[(&str, &str)]) -> (Prompts, Vec<String>) {
    let mut source = Source::default();
    for (name, text) in files {
        source.insert(format!("prompts/{name}"), text.as_bytes());
    }
    let mut found = Findings::default();
    let prompts = Prompts::read(&source, &mut found);
    (
        prompts,
        found.problems.iter().map(ToString::to_string).collect(),
    )
}

fn render(text: &str, context: serde_json::Value) -> String {
    let (prompts, problems) = read(&[("room.jinja", text)]);
    assert_eq!(problems, Vec::<String>::new(), "{text}");
    prompts
        .render("room", context)
        .expect("renders")
        .expect("is there")
}

fn refusal(name: &str, text: &str) -> String {
    let (_, problems) = read(&[(name, text)]);
    problems
        .first()
        .unwrap_or_else(|| panic!("{text} was accepted"))
        .clone()
}

#[test]
fn values_are_placed_as_they_are() {
    let context = json!({"product": {"name": "直播 <b>&"}, "facts": {"z": 1, "a": ["x", "y"]}});
    let text = "{# note #}{{ product.name }}\n{% for name, fact in facts|items %}\n- {{ name }}: {{ fact|tojson }}\n{% endfor %}";
    assert_eq!(
        render(text, context),
        "直播 <b>&\n- z: 1\n- a: [\"x\", \"y\"]"
    );
}

#[test]
fn an_absent_value_can_be_asked_for_but_not_spoken() {
    let text = "{% if product.nick %}{{ product.nick }}{% else %}none{% endif %}";
    assert_eq!(render(text, json!({"product": {"name": "x"}})), "none");
    assert!(refusal("room.jinja", "one\n{{ product.nick }}").starts_with("prompts/room.jinja:2: "));
}

#[test]
fn a_base_may_be_extended_in_a_loop() {
    let (prompts, problems) = read(&[
        ("base.jinja", "[{% block b %}{% endblock %}]"),
        (
            "item.jinja",
            "{% extends 'base.jinja' %}{% block b %}{{ comments }}{% endblock %}",
        ),
        (
            "room.jinja",
            "{% for comments in [1,2] %}{% include 'item.jinja' %}{% endfor %}",
        ),
    ]);
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(
        prompts
            .render("room", json!({}))
            .expect("renders")
            .as_deref(),
        Some("[1][2]")
    );
}

#[test]
fn broken_syntax_and_unknown_words_are_named_with_their_line() {
    let cases = [
        ("a\n{{ product", ":2: "),
        ("a\n{% if product %}", ""),
        (
            "{% for m in comments %}<{{m.role}}>{% generation %}{{m.content}}{% endgeneration %}{% endfor %}",
            ":1: ",
        ),
        (
            "\n\n{{ product.name|shout }}",
            ":3: there is no filter shout",
        ),
        (
            "{% if product is odd %}{% endif %}",
            ":1: there is no test odd",
        ),
        (
            "{% if false %}{{ product.name|indent(7777777777) }}{% endif %}",
            "filter indent",
        ),
        ("a\n{{ weather }}", ":2: weather is no value"),
        ("{{ now() }}", "now() is a call"),
        ("{{ 'x'.upper() }}", "upper() is a call"),
        (
            "{% include 'nowhere.jinja' %}",
            "there is no prompts/nowhere.jinja",
        ),
        ("{% include product.name %}", "one name in quotes"),
        ("{% include 'room.jinja' %}", "includes itself"),
        ("{% set x = 1 %}", "set %} is not for prompts"),
        (
            "{%- macro m() -%}{%- endmacro -%}",
            "macro %} is not for prompts",
        ),
        ("{{ self.b() }}", "self is not for prompts"),
        ("{{ {'a': 1} }}", "map"),
        ("{% for a in [product, product] %}{% endfor %}", "list"),
    ];
    for (text, part) in cases {
        let reason = refusal("room.jinja", text);
        assert!(
            reason.starts_with("prompts/room.jinja") && reason.contains(part),
            "{text}: {reason}"
        );
    }
}

#[test]
fn words_in_quotes_comments_and_raw_blocks_are_no_code() {
    let text = "{# {{ now() }} #}{{ 'a ~ b }} {% set %}' }}{% raw %}{{ now() }}{% endraw %}{{ \"|shout\" -}} x";
    assert_eq!(
        render(text, json!({})),
        "a ~ b }} {% set %}{{ now() }}|shoutx"
    );
}

#[test]
fn nothing_of_the_moment_stands_in_the_system_prompt() {
    for name in ["system.jinja", "skills.jinja", "tools.jinja"] {
        let reason = refusal(name, "{% if false %}\n{{ facts.price }}{% endif %}");
        assert!(
            reason.contains(":2: facts changes from turn to turn"),
            "{reason}"
        );
        assert!(refusal(name, "{{ now }}").contains("now is no value"));
        assert!(refusal(name, "{{ random }}").contains("random is no value"));
    }
    assert_eq!(
        read(&[("system.jinja", "{{ language }} {{ emotions|join(' ') }}")]).1,
        Vec::<String>::new()
    );
}

#[test]
fn a_template_that_grows_is_refused_or_stopped() {
    let loops = "{% for a in comments %}{% for b in comments %}{% for c in comments %}{% for d in comments %}x\
                 {% endfor %}{% endfor %}{% endfor %}{% endfor %}";
    for text in [
        "{{ '啊' * 7777777777 }}",
        "{{ 'a' ~ 'b' }}",
        "{{ [1,2]|tojson(indent=7777777777) }}",
        "{{ 'a' + 'b' }}",
    ] {
        refusal("room.jinja", text);
    }
    let (prompts, problems) = read(&[
        ("room.jinja", loops),
        (
            "idle.jinja",
            "{% for c in comments %}{% if comments|join(reason)|replace('x', reason) %}{% endif %}{% endfor %}",
        ),
        (
            "gift.jinja",
            "{% for c in comments %}{{ reason }}{% endfor %}",
        ),
    ]);
    assert_eq!(problems, Vec::<String>::new());
    let context = json!({"comments": vec!["x"; 1000], "reason": "x".repeat(10_000)});
    for name in ["room", "idle", "gift"] {
        let error = prompts.render(name, &context).expect_err(name);
        assert_eq!(error.0.path, format!("prompts/{name}.jinja"));
    }
}

#[test]
fn includes_that_multiply_are_stopped() {
    let mut files = vec![(
        "room.jinja".to_owned(),
        "{% include 'p0.jinja' %}".to_owned(),
    )];
    for level in 0..12 {
        files.push((
            format!("p{level}.jinja"),
            format!("{{% include 'p{}.jinja' %}}", level + 1).repeat(10),
        ));
    }
    files.push(("p12.jinja".to_owned(), "x".to_owned()));
    let files: Vec<_> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let (_, problems) = read(&files);
    assert!(!problems.is_empty(), "found when it is tried out at load");
}

proptest::proptest! {
    #[test]
    fn no_template_makes_the_reader_panic(pieces in proptest::collection::vec(proptest::sample::select(
        &["{{", "}}", "{%", "%}", "{#", "#}", "if ", "for ", "raw", "endraw", "include ", "'", "\"", "\\", "[", "]", "(", ")", "|", "~", "-", "é",
          "is ", "not ", "product", ".", "1", "\n", " "][..]), 0..30)) {
        let _ = read(&[("room.jinja", &pieces.concat())]);
    }
}
