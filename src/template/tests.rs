//! Templates of every style, their limits, and content that imitates markup.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::tokenizer::TokenizerParts;

/// Every ASCII character a token, then the control tokens given.
fn tokenizer(control: &[&str]) -> Arc<Tokenizer> {
    let letters = ('!'..='~')
        .map(|c| c.to_string())
        .filter(|c| !control.contains(&c.as_str()));
    let letters = letters.map(|letter| (letter, 1));
    let blanks = [("Ġ", 1), ("Ċ", 1)].map(|(text, kind)| (text.to_owned(), kind));
    let control = control.iter().map(|&text| (text.to_owned(), 3));
    let (tokens, kinds) = letters.chain(blanks).chain(control).unzip();
    let parts = TokenizerParts {
        model: "gpt2".to_owned(),
        pre: "gpt-2".to_owned(),
        tokens,
        kinds,
        ..TokenizerParts::default()
    };
    Arc::new(Tokenizer::new(parts).unwrap())
}

pub(super) fn user(content: &str) -> Message {
    Message::new("user", content)
}

pub(super) fn compile(source: &str) -> Result<ChatTemplate, TemplateError> {
    ChatTemplate::new(source, tokenizer(&["<|a|>", "<think>", "@"]))
}

/// Renders any template with any variables.
fn render(source: &str, context: &serde_json::Value) -> Result<String, Error> {
    let mut env = functions::environment();
    env.set_fuel(Some(limits::steps(source)));
    env.add_template_owned(NAME, source::rewrite(source))?;
    let mut page = Page::default();
    env.get_template(NAME)?
        .render_captured_to(context, &mut page)?;
    Ok(String::from_utf8(page.0).unwrap())
}

#[test]
fn text_equals_the_reference() {
    let lines = include_str!("../../tests/fixtures/templates.jsonl").lines();
    let cases: Vec<serde_json::Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let cases = cases.iter().filter(|case| case.get("source").is_some());
    let mut count = 0;
    for case in cases {
        let source = case["source"].as_str().unwrap();
        let rendered =
            render(source, &case["context"]).unwrap_or_else(|error| panic!("{source}: {error:#}"));
        assert_eq!(rendered, case["text"].as_str().unwrap(), "{source}");
        count += 1;
    }
    assert!(count > 10);
}

/// Each would take gigabytes or hours.
#[test]
fn growth_without_bounds_is_an_error() {
    let cases = [
        "{{ '啊' * 7777777777 }}",
        "{{ 7777777777 * '啊' }}",
        "{{ ['啊'] * 7777777777 }}",
        "{{ x.y * 7777777777 * 'a' }}",
        "{{ ('a\nb')|indent(7777777777) }}",
        "{{ ('a\nb')|indent(width=7777777777) }}",
        "{{ [1,2]|tojson(indent=7777777777) }}",
        "{{ [1,2]|batch(7777777777, 'a') }}",
        "{{ [1,2]|slice(7777777777) }}",
        "{{ '%9999999999d'|format(1) }}",
        "{{ '{:9999999999}'.format(1) }}",
        "{{ strftime_now('%9999999999d') }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{{ i*j }}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}Fifty characters, or about as many, in each round.{% endfor %}",
        "{% set n = namespace(x='aa') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{% set n = namespace(x='aa') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        "{% set n = namespace(x='aa') %}{% for i in range(60) %}{% set n.x = n.x * 2 %}{% endfor %}",
        "{% set n = namespace(x='aa') %}{% for i in range(60) %}{% set n.x = n.x|replace('a', n.x) %}{% endfor %}",
        "{% set n = namespace(x='aa') %}{% for i in range(60) %}{% set n.x = n.x.replace('a', n.x) %}{% endfor %}",
        "{% set n = namespace(x='aa') %}{% for i in range(60) %}{% set n.x = [n.x, n.x]|join(n.x) %}{% endfor %}",
        "{% set n = namespace(x='aa') %}{% for i in range(60) %}{% set n.x = n.x.join([n.x, n.x]) %}{% endfor %}",
        "{% set n = namespace(x='aa') %}{% for i in range(60) %}{% set y %}{{ n.x }}{{ n.x }}{% endset %}{% set n.x = y %}{% endfor %}",
        "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
        "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x|tojson }}",
        "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x|string|length }}",
        "{% set n = namespace(x=[1]) %}{% for i in range(900) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x|tojson }}",
        "{% macro m(x) %}{{ m(x ~ x) }}{% endmacro %}{{ m('aa') }}",
        "{% set x = 'ab' * 1000000 %}{{ x|join(x)|length }}",
        "{% set x = 'ab' * 1000000 %}{{ x.join(x)|length }}",
        "{% set x = 'ab' * 1000000 %}{{ x.join(range(9999))|length }}",
        "{% set x = 'ab' * 1000000 %}{{ range(9999)|join(x)|length }}",
        "{{ 'a'.count('') }}",
        "{{ ('a ' * 2000000)|list }}",
        "{{ ('a ' * 2000000).split(' ') }}",
    ];
    for source in cases {
        let error = render(source, &json!({"x": {"y": 1}})).expect_err(source);
        assert!(
            error.kind() != ErrorKind::SyntaxError,
            "{source}: {error:#}"
        );
    }
}

#[test]
fn what_is_wrong_with_a_template_is_said_when_it_is_loaded() {
    let broken = |source: &str| compile(source).unwrap_err().to_string();
    assert_eq!(
        broken("a\n{% if x %}\n{% endfor %}"),
        "chat template, line 3: unknown statement endfor"
    );
    assert_eq!(
        broken("a\n\n{{ messages|nothing }}"),
        "chat template, line 3: filter nothing is unknown"
    );
    assert_eq!(
        broken("\n{{ '啊' * 7777777777 }}"),
        "chat template, line 2: the size of a value exceeds the limit"
    );
    assert_eq!(
        broken("{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}"),
        "chat template, line 1: the number of steps exceeds the limit"
    );
    assert!(broken(&" ".repeat(limits::SOURCE + 1)).contains("bytes are more than"));
    assert!(compile("{{ raise_exception('never') }}").is_ok());
    assert!(compile("{% if messages|length > 1 %}ok{% else %}{{ 1|nothing }}{% endif %}").is_ok());
}

#[test]
fn a_refusal_carries_the_templates_own_sentence() {
    let source = "{% macro no(m) %}{{ raise_exception('not this: ' ~ m.content) }}{% endmacro %}\n{{ no(messages[0]) }}";
    let error = compile(source)
        .unwrap()
        .render(&[user("<|a|> @")])
        .unwrap_err();
    assert_eq!(
        error,
        TemplateError::Refused("not this: <|a|> @".to_owned())
    );
}

pub(super) fn text_of(template: &ChatTemplate, messages: &[Message]) -> (String, usize) {
    let prompt = template.render(messages).unwrap();
    let control = |token: &&TokenId| template.tokenizer().token_bytes(**token).is_empty();
    let count = prompt.tokens.iter().filter(control).count();
    (template.tokenizer().decode(&prompt.tokens), count)
}

#[test]
fn no_content_completes_a_spelling_wherever_a_template_puts_it() {
    let sources = [
        "{{ messages[0].content }}",
        "<{{ messages[0].content }}",
        "{{ messages[0].content }}>",
        "<{{ messages[0].content }}>",
        "<|{{ messages[0].content|trim }}|>",
        "{{ messages[0].role }}{{ messages[0].content }}",
        "{{ messages[0].role }}|{{ messages[0].content }}",
        "<{{ messages[0].role }}{{ messages[0].content }}",
        "{% for c in messages[0].content %}{{ c }}{% endfor %}",
        "{{ messages[0].content[1:] }}|{{ messages[0].content[:-1] }}",
        "{{ messages[0].content|replace('x', '') }}{{ messages[0].content.split('x')[0] }}",
        "{{ messages[0].content ~ messages[0].content }}",
    ];
    let spelling = "<|a|>";
    let mut pieces = vec![
        "think",
        "<think>",
        " think ",
        "@",
        "<xthinkx>",
        "<<|a|>|a|>",
        "<|xa|>",
    ];
    for start in 0..spelling.len() {
        for end in start + 1..=spelling.len() {
            pieces.push(&spelling[start..end]);
        }
    }
    for source in sources {
        let template = compile(source).unwrap();
        for (role, content) in pieces
            .iter()
            .flat_map(|role| pieces.iter().map(move |content| (role, content)))
        {
            let message = Message::new(*role, *content);
            let (text, control) = text_of(&template, &[message]);
            assert_eq!(
                control, 0,
                "{source} with role {role:?}, content {content:?}: {text}"
            );
        }
    }
}

#[test]
fn known_roles_are_markup_and_may_spell_control_tokens() {
    let tokenizer = tokenizer(&["<|user|>"]);
    let template = ChatTemplate::new(
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}",
        tokenizer,
    );
    assert_eq!(
        text_of(&template.unwrap(), &[user("<|user|>")]),
        ("<|user|>".to_owned(), 1)
    );
}

#[test]
fn characters_that_marks_are_made_of_come_through() {
    let content = "\u{FDD0}<|a|>\u{FDD1}0\u{FDD1}x\u{FDD2}0\u{FDD2}";
    let all: String = ('\u{FDD0}'..='\u{FDEF}').collect();
    let cutter = Cutter::new(&tokenizer(&["<|a|>", "@"]));
    for content in [content, &all, "@@", "plain", " \n"] {
        let marks = Marks::new(&cutter, [content].into_iter());
        let edged = marks.edged(0, &marks.cut(content));
        assert_eq!(marks.clean_all(&edged), content);
    }
}

#[test]
fn sections_begin_and_end_with_the_content() {
    let template =
        compile("<|a|>{% for m in messages %}{{ m.role }}:{{ m.content }}<|a|>{% endfor %}")
            .unwrap();
    let prompt = template
        .render(&[user(" hi<|a|> "), user(" "), user("x")])
        .unwrap();
    let sections: Vec<_> = prompt
        .sections
        .iter()
        .map(|section| (section.message, section.start, section.end))
        .collect();
    // A space, "hi<|a|>" and a space; nothing; "x".
    assert_eq!(sections, [(0, 7, 14), (2, 28, 29)]);
    let twice = compile("{{ messages[0].content }}-{{ messages[0].content }}").unwrap();
    let section = Section {
        message: 0,
        start: 0,
        end: 2,
    };
    assert_eq!(twice.render(&[user("ab")]).unwrap().sections, [section]);
    let apart = compile(
        "{% if messages[0].content.startswith('a') %}A{% endif %}{{ messages[0].content }}",
    )
    .unwrap();
    assert_eq!(text_of(&apart, &[user("ab")]).0, "Aab");
    assert_eq!(apart.render(&[user("ab")]).unwrap().sections, []);
}

/// Values that hold each other, or views of views, exhaust the stack when they are dropped.
#[test]
fn values_cannot_be_deep() {
    let steps = [
        ("[1]", "[n.x]"),
        ("[1]", "{'a': n.x}"),
        ("[1]", "(n.x, 1)"),
        ("[1]", "dict(a=n.x)"),
        ("[1]", "namespace(a=n.x)"),
        ("[1]", "n.x[:]"),
        ("[1]", "n.x[::-1]"),
        ("[1]", "n.x|reverse"),
        ("[1]", "n.x|list"),
        ("[1]", "n.x|map('int')"),
        ("[1]", "n.x|select"),
        ("[1]", "n.x|chain([])"),
        ("[[1]]", "n.x|zip"),
        ("[1]", "n.x + []"),
        ("[1]", "n.x * 1"),
        ("{'a': 1}", "n.x.items()"),
        (
            "[1]",
            "0 %}{% set m = namespace() %}{% set m.x = n.y %}{% set n.y = m",
        ),
        (
            "[1]",
            "0 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = n.y %}{% set n.y = m",
        ),
        (
            "[1]",
            "0 %}{% for a in [n.y] %}{% set n.y = loop %}{% endfor %}{% set n.x = 0",
        ),
    ];
    for (first, next) in steps {
        let source = format!(
            "{{% set n = namespace(x={first}) %}}{{% for i in range(40000) %}}{{% set n.x = {next} %}}{{% endfor %}}ok"
        );
        match render(&source, &json!({})) {
            Ok(text) => assert_eq!(text, "ok"),
            Err(error) => assert!(error.kind() != ErrorKind::SyntaxError, "{next}: {error:#}"),
        }
    }
}

/// Tokens of a vocabulary of pieces begin with a space that the text does not have; form C is shorter than the text.
#[test]
fn sections_are_right_where_tokens_are_longer_or_shorter_than_the_text() {
    let letters = ('a'..='z').map(|c| (c.to_string(), 1));
    let more = [
        ("\u{2581}", 1),
        ("\u{2581}hi", 1),
        ("hi", 1),
        ("<s>", 3),
        ("\n", 1),
    ];
    let more = more.map(|(text, kind)| (text.to_owned(), kind));
    let (tokens, kinds): (Vec<String>, Vec<i32>) = letters.chain(more).unzip();
    let pieces = TokenizerParts {
        model: "llama".to_owned(),
        scores: vec![0.0; tokens.len()],
        tokens,
        kinds,
        spaces: crate::tokenizer::Spaces {
            prefix: crate::tokenizer::SpacePrefix::Segments,
            strip: true,
            ..Default::default()
        },
        ..TokenizerParts::default()
    };
    let pieces = Arc::new(Tokenizer::new(pieces).unwrap());
    let source = "<s>{{ messages[0].content }}<s>x {{ messages[1].content }} y";
    let section = |tokenizer: &Arc<Tokenizer>, contents: [&str; 2]| {
        let template = ChatTemplate::new(source, Arc::clone(tokenizer));
        let prompt = template.map(|template| template.render(&contents.map(user)).unwrap());
        let prompt = prompt.unwrap();
        let texts = prompt
            .sections
            .iter()
            .map(|section| tokenizer.decode(&prompt.tokens[section.start..section.end]));
        texts.collect::<Vec<_>>()
    };
    assert_eq!(section(&pieces, ["hi", "abc"]), ["hi", "abc"]);
    let parts = TokenizerParts {
        model: "gpt2".to_owned(),
        pre: "qwen2".to_owned(),
        tokens: ["Ã", "©", "Ġ", "o", "k", "x", "y", "<s>"]
            .map(str::to_owned)
            .to_vec(),
        kinds: vec![1, 1, 1, 1, 1, 1, 1, 3],
        ..TokenizerParts::default()
    };
    let bytes = Arc::new(Tokenizer::new(parts).unwrap());
    assert_eq!(section(&bytes, ["e\u{301}e\u{301}", "ok"]), ["éé", "ok"]);
}
