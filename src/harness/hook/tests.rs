//! Loading hooks: every fault is found with its place, and what words match.

use super::words::Words;
use super::{Body, Hook, OnError, Point, read};
use crate::harness::{Problem, Source};

fn source(files: &[(&str, &str)]) -> Source {
    let mut source = Source::default();
    for (path, text) in files {
        source.insert(*path, text.as_bytes());
    }
    source
}

fn load(files: &[(&str, &str)]) -> (Option<Hook>, Vec<Problem>) {
    let mut problems = Vec::new();
    let hook = read("guard", &source(files), &mut problems);
    (hook, problems)
}

fn one_problem(hook_toml: &str) -> Problem {
    let (hook, problems) = load(&[("hooks/guard/hook.toml", hook_toml)]);
    assert!(hook.is_none(), "{hook_toml}");
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems.into_iter().next().unwrap()
}

#[test]
fn a_hook_without_on_error_fails_closed() {
    let (hook, problems) = load(&[
        (
            "hooks/guard/hook.toml",
            "point = \"pre_segment\"\n[[rule]]\nkind = \"words\"\nlists = [\"banned\"]\n",
        ),
        (
            "lists/banned.txt",
            "\u{feff}# comment\n最便宜\r\n\r\nguaranteed\n",
        ),
    ]);
    assert_eq!(problems, []);
    let hook = hook.unwrap();
    assert_eq!(
        (hook.point, hook.on_error, hook.order),
        (Point::PreSegment, OnError::Deny, 0)
    );
    assert!(matches!(hook.body, Body::Rules(rules) if rules.len() == 1));
}

/// A hook.toml, the line at fault and a part of what is said.
const FAULTS: &[(&str, usize, &str)] = &[
    ("point = \"pre_speech\"\n", 1, "pre_speech"),
    (
        "point = \"pre_tool\"\non_eror = \"deny\"\nscript = \"a\"\n",
        2,
        "on_eror",
    ),
    (
        "point = \"pre_tool\"\non_error = \"denny\"\nscript = \"a\"\n",
        2,
        "denny",
    ),
    (
        "point = \"pre_tool\"\nbudget_ms = 0\n[[rule]]\nkind = \"words\"\nwords = [\"x\"]\n",
        2,
        "budget_ms",
    ),
    (
        "point = \"pre_tool\"\nscript = \"hook.rhai\"\n",
        2,
        "hooks/guard/hook.rhai",
    ),
    (
        "point = \"pre_tool\"\nscript = \"../hook.rhai\"\n",
        2,
        "there is no",
    ),
    ("point = \"pre_tool\"\n", 1, "a [[rule]] or a script"),
    (
        "point = \"pre_tool\"\n\n[[rule]]\nkind = \"word\"\n",
        4,
        "kind is",
    ),
    (
        "point = \"pre_tool\"\n\n[[rule]]\nkind = \"regex\"\npattern = \"(\"\n",
        5,
        "unclosed group",
    ),
    (
        "point = \"pre_tool\"\n[[rule]]\nkind = \"regex\"\npattern = \"(a+)+\\\\1\"\n",
        4,
        "backreferences",
    ),
    (
        "point = \"pre_tool\"\n[[rule]]\nkind = \"regex\"\npattern = \"x*\"\n",
        4,
        "empty",
    ),
    (
        "point = \"pre_tool\"\n[[rule]]\nkind = \"regex\"\npattern = \"((a{1000}){1000}){1000}\"\n",
        4,
        "size",
    ),
    (
        "point = \"pre_tool\"\n[[rule]]\nkind = \"words\"\nlists = [\"none\"]\n",
        4,
        "lists/none.txt",
    ),
    (
        "point = \"pre_tool\"\n[[rule]]\nkind = \"words\"\nwords = [\"!!\"]\n",
        4,
        "no letter",
    ),
    (
        "point = \"pre_segment\"\n[[rule]]\nkind = \"price_guard\"\naction = \"substitute\"\ntext = \"x\"\n",
        4,
        "price_guard",
    ),
    (
        "point = \"pre_segment\"\n[[rule]]\nkind = \"words\"\nwords = [\"x\"]\naction = \"replace\"\ntext = \"...\"\n",
        6,
        "nothing to say",
    ),
    (
        "point = \"pre_tool\"\n[[rule]]\nkind = \"price_guard\"\n",
        3,
        "pre_segment",
    ),
];

#[test]
fn every_fault_has_its_line_and_names_its_field() {
    for (text, line, said) in FAULTS {
        let problem = one_problem(text);
        assert_eq!(problem.path, "hooks/guard/hook.toml");
        assert_eq!(problem.line, Some(*line), "{problem}");
        assert!(problem.reason.contains(said), "{problem}");
    }
}

#[test]
fn scripts_that_cannot_run_are_refused_at_load() {
    let toml = "point = \"pre_tool\"\nscript = \"hook.rhai\"\n";
    let nested = format!(
        "fn run(event) {{ {}1{} }}",
        "(".repeat(50_000),
        ")".repeat(50_000)
    );
    let deep = format!(
        "fn run(event) {{ {}1{} }}",
        "[".repeat(200),
        "]".repeat(200)
    );
    let cases = [
        ("fn run(event) {\n  let x = ;\n}", Some(2), ""),
        ("fn check(event) { 1 }", None, "no fn run(event)"),
        ("fn run() { 1 }", None, "takes 0 parameters"),
        (
            "\nlet limit = 5;\nfn run(event) { limit }",
            Some(2),
            "only functions",
        ),
        ("import \"os\" as os;\nfn run(event) { 1 }", Some(1), ""),
        ("fn run(event) { eval(\"1\") }", Some(1), "eval"),
        (&nested, None, ""),
        (&deep, None, ""),
    ];
    for (script, line, said) in cases {
        let (hook, problems) = load(&[
            ("hooks/guard/hook.toml", toml),
            ("hooks/guard/hook.rhai", script),
        ]);
        assert!(hook.is_none(), "{}", &script[..script.len().min(60)]);
        let [problem] = problems.as_slice() else {
            panic!("{problems:?}")
        };
        assert_eq!(problem.path, "hooks/guard/hook.rhai");
        assert!(line.is_none() || problem.line == line, "{problem}");
        assert!(problem.reason.contains(said), "{problem}");
    }
}

fn finds(word: &str, text: &str) -> bool {
    let mut words = Words::default();
    words.add(word).unwrap();
    !words.find(text).is_empty()
}

#[test]
fn words_are_found_whatever_their_case_width_and_spacing() {
    let found = [
        ("best", "the BEST one"),
        ("best", "the ｂｅｓｔ one"),
        ("best", "b e s t"),
        ("best", "b.e.s.t!"),
        ("best", "be\u{200b}st"),
        ("résumé", "RE\u{301}SUME\u{301}"),
        ("最便宜", "全网最 便 宜的"),
        ("最便宜", "最*便*宜"),
        ("国家级", "這是国家级"),
        ("VX", "加我vx聊"),
        ("加微信", "加 微　信"),
        ("money back", "Money   back!"),
        ("money back", "moneyback"),
        ("100%", "100 %"),
    ];
    for (word, text) in found {
        assert!(finds(word, text), "{word} in {text}");
    }
    let other = [
        ("best", "bestow"),
        ("best", "the crab est"),
        ("assure", "as sure as ever"),
        ("sale", "is a letter"),
        ("第一", "价格第。一流"),
        ("最便宜", "最好，不便宜"),
    ];
    for (word, text) in other {
        assert!(!finds(word, text), "{word} in {text}");
    }
}

#[test]
fn findings_are_where_they_stand_and_the_longest_wins() {
    let mut words = Words::default();
    for word in ["free", "free gift", "最"] {
        words.add(word).unwrap();
    }
    let text = "a ｆｒｅｅ  gift, 最好";
    let found: Vec<&str> = words
        .find(text)
        .into_iter()
        .map(|range| &text[range])
        .collect();
    assert_eq!(found, ["ｆｒｅｅ  gift", "最"]);
}
