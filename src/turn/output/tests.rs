//! Reasoning, calls and text taken apart, whatever the chunks.

use proptest::prelude::*;

use super::{Format, Output, OutputError, OutputEvent};

const TOOLS: [&str; 2] = ["get_price", "say"];

fn output(format: Format) -> Output {
    Output::new(format, false, TOOLS.map(str::to_owned))
}

/// Neighbours of one kind joined, as any reader would.
fn joined(events: Vec<OutputEvent>) -> Vec<OutputEvent> {
    let mut out: Vec<OutputEvent> = Vec::new();
    for event in events {
        match (out.last_mut(), event) {
            (Some(OutputEvent::Text(last)), OutputEvent::Text(new))
            | (Some(OutputEvent::Reasoning(last)), OutputEvent::Reasoning(new)) => {
                last.push_str(&new)
            }
            (
                Some(OutputEvent::Arguments { index, delta }),
                OutputEvent::Arguments {
                    index: next,
                    delta: new,
                },
            ) if *index == next => delta.push_str(&new),
            (_, event) => out.push(event),
        }
    }
    out
}

fn read(format: Format, text: &str) -> Vec<OutputEvent> {
    let mut output = output(format);
    let mut events = output.push(text);
    events.extend(output.finish());
    joined(events)
}

fn text(events: &[OutputEvent]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        OutputEvent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn calls(events: &[OutputEvent]) -> Vec<(String, String)> {
    let mut calls: Vec<(String, String)> = Vec::new();
    let mut ended = 0;
    for event in events {
        match event {
            OutputEvent::CallBegin { index, name } => {
                assert_eq!(*index, calls.len(), "indices count from 0");
                calls.push((name.clone(), String::new()));
            }
            OutputEvent::Arguments { index, delta } => calls[*index].1.push_str(delta),
            OutputEvent::CallEnd { index } => {
                assert_eq!(*index, ended);
                ended += 1;
            }
            _ => {}
        }
    }
    assert_eq!(
        ended,
        calls.len(),
        "each call that began has ended: {events:?}"
    );
    calls
}

fn error(events: &[OutputEvent]) -> Option<&OutputError> {
    let last = events.last();
    assert!(
        events
            .iter()
            .rev()
            .skip(1)
            .all(|event| !matches!(event, OutputEvent::Error(_))),
        "nothing follows an error"
    );
    match last {
        Some(OutputEvent::Error(error)) => Some(error),
        _ => None,
    }
}

#[test]
fn each_format_has_its_calls() {
    let cases = [
        (
            Format::Hermes,
            "Let me look.\n<tool_call>\n{\"name\": \"get_price\", \"arguments\": {\"sku\": \"A1\"}}\n</tool_call>",
            "Let me look.\n",
        ),
        (
            Format::Hermes,
            "<tool_call>{\"name\":\"get_price\",\"arguments\":{\"sku\": \"A1\"}}</tool_call>\n\nDone.",
            "Done.",
        ),
        (
            Format::Hermes,
            "<tool_call>{\"arguments\":{\"sku\": \"A1\"}, \"name\":\"get_price\"}",
            "",
        ),
        (
            Format::Hermes,
            "<tool_call>{\"name\":\"get_price\",\"arguments\":\"{\\\"sku\\\": \\\"A1\\\"}\"}</tool_call>",
            "",
        ),
        (
            Format::Llama3,
            "<|python_tag|>{\"name\": \"get_price\", \"parameters\": {\"sku\": \"A1\"}}<|eom_id|>",
            "",
        ),
        (
            Format::Llama3,
            "{\"type\": \"function\", \"name\": \"get_price\", \"parameters\": {\"sku\": \"A1\"}}",
            "",
        ),
        (
            Format::Mistral,
            "[TOOL_CALLS] [{\"name\": \"get_price\", \"arguments\": {\"sku\": \"A1\"}}]</s>",
            "",
        ),
        (
            Format::Mistral,
            "[TOOL_CALLS][{\"name\": \"get_price\", \"arguments\": {\"sku\": \"A1\"}}]",
            "",
        ),
    ];
    for (format, written, said) in cases {
        let events = read(format, written);
        assert_eq!(
            calls(&events),
            [("get_price".to_owned(), "{\"sku\": \"A1\"}".to_owned())],
            "{written}: {events:?}"
        );
        assert_eq!(text(&events), said, "{written}");
        assert_eq!(error(&events), None, "{written}");
    }
}

#[test]
fn several_calls_keep_their_order_and_their_own_arguments() {
    let cases = [
        (
            Format::Hermes,
            "<tool_call>{\"name\":\"get_price\",\"arguments\":{\"a\":1}}</tool_call>\n<tool_call>{\"name\":\"say\",\"arguments\":{\"b\":[{}]}}</tool_call>",
        ),
        (
            Format::Hermes,
            "<tool_call>{\"name\":\"get_price\",\"arguments\":{\"a\":1}}\n{\"name\":\"say\",\"arguments\":{\"b\":[{}]}}</tool_call>",
        ),
        (
            Format::Llama3,
            "{\"name\":\"get_price\",\"parameters\":{\"a\":1}}; {\"name\":\"say\",\"parameters\":{\"b\":[{}]}}",
        ),
        (
            Format::Mistral,
            "[TOOL_CALLS] [{\"name\":\"get_price\",\"arguments\":{\"a\":1}}, {\"name\":\"say\",\"arguments\":{\"b\":[{}]}}]",
        ),
    ];
    for (format, written) in cases {
        let wanted = [("get_price", "{\"a\":1}"), ("say", "{\"b\":[{}]}")]
            .map(|(name, arguments)| (name.to_owned(), arguments.to_owned()));
        assert_eq!(calls(&read(format, written)), wanted, "{written}");
    }
}

#[test]
fn the_end_mark_inside_an_argument_ends_nothing() {
    let arguments = "{\"text\": \"before </tool_call> after \\\" } ] <think> \\\\\"}";
    let events = read(
        Format::Hermes,
        &format!("<tool_call>{{\"name\": \"say\", \"arguments\": {arguments}}}</tool_call>"),
    );
    assert_eq!(calls(&events), [("say".to_owned(), arguments.to_owned())]);
    assert_eq!(text(&events), "");
}

#[test]
fn long_arguments_stream_while_they_are_written() {
    let mut output = output(Format::Hermes);
    output.push("<tool_call>{\"name\": \"say\", \"arguments\": {\"text\": \"");
    let events = output.push("some of it");
    assert_eq!(
        events,
        [OutputEvent::Arguments {
            index: 0,
            delta: "some of it".to_owned()
        }]
    );
}

#[test]
fn no_byte_of_reasoning_is_text() {
    let written = "<think>\nThe floor price is 5. <tool_call>{\"name\":\"say\"}</tool_call>\n</think>\n\nIt costs 9.";
    for format in [
        Format::Hermes,
        Format::Llama3,
        Format::Mistral,
        Format::None,
    ] {
        let events = read(format, written);
        assert_eq!(text(&events), "It costs 9.");
        assert_eq!(calls(&events), []);
        assert!(matches!(&events[0], OutputEvent::Reasoning(text) if text.contains("floor price")));
    }
    let mut opened = Output::new(Format::Hermes, true, []);
    let mut events = opened.push("secret</think>said");
    events.extend(opened.finish());
    assert_eq!(text(&events), "said");
}

#[test]
fn reasoning_that_never_closes_or_never_opened_is_an_error() {
    assert_eq!(
        error(&read(Format::Hermes, "<think>so the price is 5")),
        Some(&OutputError::UnclosedReasoning)
    );
    assert_eq!(
        error(&read(Format::Hermes, "<think>so</thin")),
        Some(&OutputError::UnclosedReasoning)
    );
    let events = read(Format::Hermes, "so</think>It is 9.");
    assert_eq!(error(&events), Some(&OutputError::UnopenedReasoning));
    assert_eq!(text(&events), "so", "nothing after an error");
}

#[test]
fn half_a_call_is_an_error_with_what_was_there() {
    let half = [
        (
            Format::Hermes,
            "Well <tool_call>{\"name\": \"say\", \"argu",
            "{\"name\": \"say\", \"argu",
        ),
        (Format::Hermes, "<tool_call>\n", ""),
        (Format::Hermes, "Well <tool_ca", "<tool_ca"),
        (Format::Llama3, "<|python_tag|>{\"name\"", "{\"name\""),
        (
            Format::Llama3,
            "{\"name\": \"say\", \"parameters\": {\"text\"",
            "{\"name\": \"say\", \"parameters\": {\"text\"",
        ),
        (Format::Mistral, "[TOOL_CALLS] [{\"na", "{\"na"),
        (Format::Mistral, "[TOOL_CALLS] [", ""),
    ];
    for (format, written, there) in half {
        let events = read(format, written);
        assert_eq!(
            error(&events),
            Some(&OutputError::HalfCall {
                text: there.to_owned()
            }),
            "{written}"
        );
    }
}

#[test]
fn what_is_no_call_where_one_should_be_is_malformed() {
    let bad = [
        (Format::Hermes, "<tool_call>get_price(A1)</tool_call>"),
        (Format::Hermes, "<tool_call></tool_call>"),
        (Format::Hermes, "<tool_call>{\"arguments\": {}}</tool_call>"),
        (
            Format::Hermes,
            "<tool_call>{\"name\": 5, \"arguments\": {}}</tool_call>",
        ),
        (
            Format::Hermes,
            "<tool_call>{\"name\": \"say\", \"arguments\": [1]}</tool_call>",
        ),
        (
            Format::Hermes,
            "<tool_call>{\"name\": \"say\", \"arguments\": {}, \"arguments\": {\"a\": 1}}</tool_call>",
        ),
        (
            Format::Hermes,
            "<tool_call>{\"name\": \"say\", \"arguments\": {a: 1}}</tool_call>",
        ),
        (
            Format::Hermes,
            "<tool_call>{\"name\": \"say\"} and text</tool_call>",
        ),
        (Format::Mistral, "[TOOL_CALLS] {\"name\": \"say\"}"),
        (
            Format::Mistral,
            "[TOOL_CALLS] [{\"name\": \"say\"}] and text",
        ),
        (
            Format::Llama3,
            "<|python_tag|>brave_search.call(query=\"x\")",
        ),
    ];
    for (format, written) in bad {
        let events = read(format, written);
        assert!(
            matches!(error(&events), Some(OutputError::MalformedCall { .. })),
            "{written}: {events:?}"
        );
        assert_eq!(text(&events), "", "{written}");
    }
    let deep = format!(
        "<tool_call>{{\"name\": \"say\", \"arguments\": {}",
        "{\"a\":".repeat(10_000)
    );
    assert!(matches!(
        error(&read(Format::Hermes, &deep)),
        Some(OutputError::MalformedCall { .. })
    ));
}

#[test]
fn json_outside_its_marks_is_text() {
    let call = "{\"name\":\"get_price\",\"arguments\":{\"sku\":\"A1\"}}";
    let fenced = format!("```json\n{call}\n```");
    let cases = [
        (Format::Hermes, call.to_owned()),
        (Format::Hermes, fenced.clone()),
        (Format::Mistral, call.to_owned()),
        (Format::None, call.to_owned()),
        (Format::Llama3, format!("Sure: {call}")),
        (Format::Llama3, fenced),
        (Format::Llama3, format!("{call} is what you typed")),
        (
            Format::Llama3,
            "{\"name\":\"set_price\",\"arguments\":{\"price\":1}}".to_owned(),
        ),
        (Format::Llama3, "{not json".to_owned()),
        (Format::Hermes, "a < b, <b>, [TOOL_CALLS] [".to_owned()),
        (Format::Hermes, "1 <".to_owned()),
    ];
    for (format, written) in cases {
        let events = read(format, &written);
        assert_eq!(calls(&events), [], "{written}");
        assert_eq!(text(&events), written);
    }
}

#[test]
fn the_format_is_read_off_the_template() {
    assert_eq!(Format::of_template("{{ '<tool_call>' }}"), Format::Hermes);
    assert_eq!(Format::of_template("[TOOL_CALLS]"), Format::Mistral);
    assert_eq!(Format::of_template("<|python_tag|>"), Format::Llama3);
    assert_eq!(Format::of_template("{{ messages }}"), Format::None);
}

fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("<think>"),
        Just("</think>"),
        Just("<tool_call>"),
        Just("</tool_call>"),
        Just("[TOOL_CALLS]"),
        Just("<|python_tag|>"),
        Just("<|eom_id|>"),
        Just("{\"name\": \"say\", \"arguments\": {\"text\": \"a </tool_call> b\"}}"),
        Just("{\"name\": \"get_price\", \"parameters\": {}}"),
        Just("{"),
        Just("}"),
        Just("["),
        Just("]"),
        Just("\""),
        Just("\\"),
        Just(" "),
        Just("\n"),
        Just("hello"),
        Just("你好"),
        Just("<"),
        Just("</t"),
        Just(";"),
        Just(","),
    ];
    proptest::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_events(written in pieces(), cuts in proptest::collection::vec(1usize..7, 0..60), thinking: bool) {
        for format in [Format::Hermes, Format::Llama3, Format::Mistral, Format::None] {
            let run = |chunks: Vec<String>| {
                let mut output = Output::new(format, thinking, TOOLS.map(str::to_owned));
                let mut events: Vec<OutputEvent> = chunks.iter().flat_map(|chunk| output.push(chunk)).collect();
                events.extend(output.finish());
                joined(events)
            };
            let chars: Vec<char> = written.chars().collect();
            let mut chunks = Vec::new();
            let mut rest = chars.as_slice();
            for cut in &cuts {
                let (chunk, left) = rest.split_at((*cut).min(rest.len()));
                chunks.push(chunk.iter().collect());
                rest = left;
            }
            chunks.push(rest.iter().collect());
            let whole = run(vec![written.clone()]);
            prop_assert_eq!(&run(chunks), &whole);
            // No mark of reasoning is ever said, and each call that ended has JSON arguments.
            prop_assert!(!text(&whole).contains("<think>") && !text(&whole).contains("</think>"));
            if error(&whole).is_none() {
                for (_, arguments) in calls(&whole) {
                    prop_assert!(serde_json::from_str::<serde_json::Value>(&arguments).is_ok());
                }
            }
        }
    }
}
