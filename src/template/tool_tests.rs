//! Tools, calls and results as templates see them.

use serde_json::json;

use super::tests::{compile, text_of, user};
use super::*;

/// A template that iterates the arguments of a call, and one that writes them as JSON.
#[test]
fn arguments_sent_as_text_are_a_mapping_in_the_template() {
    let call = ToolCall::new(None, "get", r#"{"sku": "A1", "n": {"z": [1, "<|a|>"]}}"#).unwrap();
    let message = Message {
        tool_calls: vec![call],
        ..Message::new("assistant", "")
    };
    let cases = [
        (
            "{% for k, v in call.arguments|items %}{{ k }}={{ v }};{% endfor %}",
            "sku=A1;n={'z': [1, '<|a|>']};",
        ),
        (
            "{{ call.name }} {{ call.arguments|tojson }}",
            r#"get {"sku": "A1", "n": {"z": [1, "<|a|>"]}}"#,
        ),
        (
            "{{ call.arguments|tojson(ensure_ascii=true) }}",
            r#"{"sku": "A1", "n": {"z": [1, "<|a|>"]}}"#,
        ),
    ];
    for (body, expected) in cases {
        let source = format!(
            "{{% for m in messages %}}{{% for c in m.tool_calls %}}{{% set call = c.function %}}{body}{{% endfor %}}{{% endfor %}}"
        );
        let template = compile(&source).unwrap();
        assert_eq!(
            text_of(&template, std::slice::from_ref(&message)),
            (expected.to_owned(), 0)
        );
    }
}

#[test]
fn members_that_a_message_lacks_are_not_there() {
    let source = "{% for m in messages %}{{ 'tool_calls' in m }} {{ 'name' in m }} {{ m.tool_call_id is defined }} {{ tools is none }} {{ x is defined }}{% endfor %}";
    let template = compile(source).unwrap();
    assert_eq!(
        text_of(&template, &[user("a")]).0,
        "False False False True False"
    );
    let message = Message {
        tool_calls: vec![ToolCall::new(Some("7".to_owned()), "f", " ").unwrap()],
        tool_call_id: Some("7".to_owned()),
        name: Some("f".to_owned()),
        ..Message::default()
    };
    let variables = json!({"x": "<|a|>", "messages": 1});
    let prompt = template.render_conversation(&Conversation {
        messages: &[message],
        tools: &[json!({"type": "function"})],
        variables: variables.as_object(),
    });
    let text = template.tokenizer().decode(&prompt.unwrap().tokens);
    assert_eq!(text, "True True True False True");
}

#[test]
fn arguments_that_are_no_object_are_refused() {
    let refused = |arguments: &str| ToolCall::new(None, "f", arguments).unwrap_err().to_string();
    assert_eq!(refused("[1]"), "arguments must be a JSON object");
    assert!(refused("{\"a\": }").starts_with("arguments are not valid JSON: expected value"));
}

#[test]
fn conversations_with_tools_have_a_template_of_their_own_where_there_is_one() {
    let template = compile("plain")
        .unwrap()
        .with_tool_use("{{ tools[0].function.name }}")
        .unwrap();
    let render = |tools: &[serde_json::Value]| {
        let messages = [user("a")];
        let conversation = Conversation {
            messages: &messages,
            tools,
            variables: None,
        };
        template
            .tokenizer()
            .decode(&template.render_conversation(&conversation).unwrap().tokens)
    };
    assert_eq!(render(&[]), "plain");
    assert_eq!(
        render(&[json!({"type": "function", "function": {"name": "<|a|>"}})]),
        "<|a|>"
    );
    let broken = compile("plain")
        .unwrap()
        .with_tool_use("a\n{{ x|nothing }}")
        .unwrap_err();
    assert_eq!(
        broken.to_string(),
        "chat template, line 2: filter nothing is unknown"
    );
}
