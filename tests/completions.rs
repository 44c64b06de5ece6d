//! OpenAI's text completions, and what both routes share: several choices, likelihoods, raw prompts.

use serde_json::{Value, json};

use crate::support::client::Event;
use crate::support::paged::{PagedServer, load};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";
/// What makes the scripted model answer, where it is read as markup.
const OPENING: &str = "<|im_start|>assistant\n";

fn with(mut body: Value, members: Value) -> Value {
    if let (Value::Object(body), Value::Object(members)) = (&mut body, members) {
        body.extend(members);
    }
    body
}

fn chat(members: Value) -> Value {
    with(
        json!({"messages": [{"role": "user", "content": "hi"}]}),
        members,
    )
}

/// One object, which must be there.
#[track_caller]
fn whole(paged: &PagedServer, path: &str, body: &Value) -> Value {
    let response = paged.server.post(path, body);
    assert_eq!(response.status(), 200, "{body} {}", response.body);
    response.json()
}

fn streamed(paged: &PagedServer, path: &str, body: &Value) -> Vec<Event> {
    let body = with(
        body.clone(),
        json!({"stream": true, "stream_options": {"include_usage": true}}),
    );
    paged.server.stream(path, body).collect()
}

/// What a stream's chunks add up to, in the shape of one object's choices, and its token counts.
fn gathered(events: &[Event], choices: usize) -> (Vec<Value>, Value) {
    let (done, chunks) = events.split_last().expect("a stream has events");
    assert_eq!(done.data, "[DONE]");
    let (counts, chunks) = chunks.split_last().expect("counts come last");
    let mut all = vec![json!({"text": "", "logprobs": null, "finish_reason": null}); choices];
    for chunk in chunks {
        let chunk = chunk.json();
        assert_eq!(chunk["choices"].as_array().map(Vec::len), Some(1));
        let choice = &chunk["choices"][0];
        let one = &mut all[choice["index"].as_u64().expect("an index") as usize];
        assert_eq!(one["finish_reason"], Value::Null, "a chunk after the last");
        let text = choice["text"]
            .as_str()
            .or(choice["delta"]["content"].as_str());
        one["text"] = json!(format!(
            "{}{}",
            one["text"].as_str().expect("text"),
            text.unwrap_or_default()
        ));
        one["finish_reason"] = choice["finish_reason"].clone();
        if let Value::Object(lists) = &choice["logprobs"] {
            if one["logprobs"].is_null() {
                one["logprobs"] = json!({});
            }
            for (name, list) in lists {
                let so_far = one["logprobs"].as_object_mut().expect("lists");
                match (so_far.entry(name.as_str()).or_insert(json!([])), list) {
                    (Value::Array(so_far), Value::Array(list)) => {
                        so_far.extend(list.iter().cloned())
                    }
                    (place, other) => *place = other.clone(),
                }
            }
        }
    }
    (all, counts.json()["usage"].clone())
}

/// Every number anywhere in a value.
fn numbers(value: &Value, found: &mut Vec<f64>) {
    match value {
        Value::Number(number) => found.extend(number.as_f64()),
        Value::Array(items) => items.iter().for_each(|item| numbers(item, found)),
        Value::Object(members) => members.values().for_each(|item| numbers(item, found)),
        _ => {}
    }
}

/// Fault: fields changed what one way of answering said and not the other; likelihoods were not finite.
#[test]
fn a_stream_adds_up_to_one_object_whatever_is_asked() {
    let paged = PagedServer::hashing();
    let mut cases = Vec::new();
    for n in [1, 3] {
        let asked = json!({"n": n, "max_tokens": 30, "seed": 5, "ignore_eos": true});
        for more in [
            json!({}),
            json!({"logprobs": true, "top_logprobs": 5, "top_p": 0.05}),
            json!({"logprobs": true, "temperature": 0, "stop": ["a", "e"], "min_tokens": 3}),
            json!({"logit_bias": {"65": 100, "66": 99.5}, "stop_token_ids": [65]}),
        ] {
            cases.push((CHAT, n, chat(with(asked.clone(), more))));
        }
        for more in [
            json!({"prompt": "héllo"}),
            json!({"prompt": "héllo", "echo": true}),
            json!({"prompt": "<|im_start|>héllo", "logprobs": 4}),
            json!({"prompt": "<|im_start|>héllo", "logprobs": 0, "echo": true}),
            json!({"prompt": [104, 256, 105], "logprobs": 20, "echo": true, "max_tokens": 0}),
        ] {
            cases.push((TEXT, n, with(asked.clone(), more)));
        }
        let two = json!({"prompt": ["héllo", "there"], "logprobs": 2, "echo": true});
        cases.push((TEXT, 2 * n, with(asked, two)));
    }
    for (path, choices, body) in cases {
        let object = whole(&paged, path, &body);
        let (gathered, usage) = gathered(&streamed(&paged, path, &body), choices);
        assert_eq!(
            object["choices"].as_array().unwrap().len(),
            choices,
            "{body}"
        );
        for (index, (one, chunks)) in object["choices"]
            .as_array()
            .unwrap()
            .iter()
            .zip(gathered)
            .enumerate()
        {
            assert_eq!(one["index"], index);
            let text = one["text"].as_str().or(one["message"]["content"].as_str());
            assert_eq!(text, chunks["text"].as_str(), "{body}");
            assert_eq!(one["logprobs"], chunks["logprobs"], "{body}");
            assert_eq!(one["finish_reason"], chunks["finish_reason"], "{body}");
            let mut likelihoods = Vec::new();
            numbers(&one["logprobs"], &mut likelihoods);
            assert!(likelihoods.iter().all(|number| number.is_finite()));
        }
        for name in ["prompt_tokens", "completion_tokens", "total_tokens"] {
            assert_eq!(object["usage"][name], usage[name], "{body}");
        }
    }
    paged.assert_all_freed();
}

#[test]
fn control_tokens_are_read_in_a_raw_prompt_and_nowhere_else() {
    let paged = PagedServer::saying("Yes.");
    let answer = whole(&paged, TEXT, &json!({"prompt": OPENING}));
    assert_eq!(answer["object"], "text_completion");
    assert!(answer["id"].as_str().unwrap().starts_with("cmpl-"));
    let choice = &answer["choices"][0];
    assert_eq!(choice["text"], "Yes.");
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(answer["usage"]["prompt_tokens"], 1 + "assistant\n".len());
    let (control, text) = OPENING.split_at(12);
    assert_eq!(control, "<|im_start|>");
    let ids: Vec<u32> = [256]
        .into_iter()
        .chain(text.bytes().map(u32::from))
        .collect();
    for prompt in [json!(ids), json!([ids]), json!([OPENING])] {
        assert_eq!(
            whole(&paged, TEXT, &json!({"prompt": prompt}))["choices"][0]["text"],
            "Yes."
        );
    }
    let many = whole(
        &paged,
        TEXT,
        &json!({"prompt": [ids, "no cue", OPENING], "n": 2}),
    );
    let texts: Vec<_> = many["choices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|choice| &choice["text"])
        .collect();
    assert_eq!(texts, ["Yes.", "Yes.", "", "", "Yes.", "Yes."]);
    assert_eq!(many["usage"]["prompt_tokens"], 11 + 6 + 11);
    assert_eq!(many["usage"]["completion_tokens"], 5 + 5 + 1 + 1 + 5 + 5);
}

#[test]
fn an_echoed_prompt_is_scored_from_its_second_token_on() {
    let paged = PagedServer::saying("Yes.");
    let body = json!({"prompt": OPENING, "echo": true, "logprobs": 2, "max_tokens": 2});
    let answer = whole(&paged, TEXT, &body);
    let choice = &answer["choices"][0];
    assert_eq!(choice["text"], format!("{OPENING}Ye"));
    let scores = &choice["logprobs"];
    let list = |name: &str| scores[name].as_array().unwrap().clone();
    let spelled: String = list("tokens")
        .iter()
        .map(|token| token.as_str().unwrap().to_owned())
        .collect();
    assert_eq!(spelled, format!("{OPENING}Ye"));
    assert_eq!(list("text_offset")[..3], [json!(0), json!(12), json!(13)]);
    let likely = list("token_logprobs");
    assert_eq!(likely.len(), 11 + 2);
    assert_eq!(
        (&likely[0], &list("top_logprobs")[0]),
        (&Value::Null, &Value::Null)
    );
    assert!(likely[1..].iter().all(Value::is_number));
    assert!(
        likely[11].as_f64().unwrap() > -1e-6,
        "the scripted token is certain"
    );
    let top = &list("top_logprobs")[11];
    assert_eq!(top.as_object().unwrap().len(), 2);
    assert!(top["Y"].is_number());

    let scoring = with(body, json!({"max_tokens": 0}));
    let answer = whole(&paged, TEXT, &scoring);
    let choice = &answer["choices"][0];
    assert_eq!(
        (choice["text"].as_str(), choice["finish_reason"].as_str()),
        (Some(OPENING), Some("length"))
    );
    assert_eq!(choice["logprobs"]["token_logprobs"], json!(likely[..11]));
    assert_eq!(answer["usage"]["completion_tokens"], 0);
}

#[test]
fn chat_likelihoods_spell_the_answer_and_its_bytes() {
    let paged = PagedServer::saying("Yés.");
    let body = chat(json!({"logprobs": true, "top_logprobs": 3, "temperature": 0}));
    let answer = whole(&paged, CHAT, &body);
    let content = answer["choices"][0]["logprobs"]["content"]
        .as_array()
        .unwrap()
        .clone();
    let bytes: Vec<u8> = content
        .iter()
        .flat_map(|entry| entry["bytes"].as_array().unwrap())
        .map(|byte| u8::try_from(byte.as_u64().unwrap()).unwrap())
        .collect();
    assert_eq!(String::from_utf8(bytes).unwrap(), "Yés.");
    assert_eq!(content[1]["token"], "bytes:\\xc3");
    for entry in &content {
        assert_eq!(entry["top_logprobs"].as_array().unwrap().len(), 3);
        assert_eq!(entry["top_logprobs"][0]["token"], entry["token"]);
    }
    let plain = whole(&paged, CHAT, &chat(json!({})));
    assert_eq!(plain["choices"][0]["logprobs"], Value::Null);
}

#[test]
fn seeds_tell_choices_apart_and_repeat_them() {
    let paged = PagedServer::hashing();
    let say = |n: u64, seed: u64| -> Vec<Value> {
        let body =
            json!({"prompt": "once", "n": n, "seed": seed, "max_tokens": 12, "ignore_eos": true});
        let answer = whole(&paged, TEXT, &body);
        let choices = answer["choices"].as_array().unwrap();
        choices
            .iter()
            .map(|choice| choice["text"].clone())
            .collect()
    };
    let three = say(3, 1);
    assert!(three[0] != three[1] && three[1] != three[2] && three[0] != three[2]);
    assert_eq!(say(3, 1), three);
    assert_eq!(say(1, 1), three[..1]);
    assert_ne!(say(3, 2), three);
}

#[test]
fn choices_interleave_in_a_stream() {
    let paged = PagedServer::saying(&"on and on, ".repeat(20));
    let events = streamed(&paged, CHAT, &chat(json!({"n": 2, "max_tokens": 40})));
    let order: Vec<u64> = events
        .iter()
        .filter(|event| event.data != "[DONE]")
        .filter_map(|event| event.json()["choices"][0]["index"].as_u64())
        .collect();
    let changes = order.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(changes > 10, "{order:?}");
}

/// Fault: what named a token outside the vocabulary crashed the engine.
#[test]
fn what_the_engine_cannot_honour_is_named_and_hurts_nobody() {
    let paged = PagedServer::saying("Yes.");
    for (path, members, param, words) in [
        (
            CHAT,
            json!({"logit_bias": {"99999999": 5}}),
            "logit_bias",
            "99999999",
        ),
        (
            CHAT,
            json!({"stop_token_ids": [258]}),
            "stop_token_ids",
            "258",
        ),
        (
            CHAT,
            json!({"min_tokens": 6, "max_tokens": 5}),
            "min_tokens",
            "max_tokens",
        ),
        (CHAT, json!({"n": 1_000_000}), "n", "8"),
        (TEXT, json!({"prompt": [5, 258]}), "prompt", "258"),
        (TEXT, json!({"prompt": ""}), "prompt", "empty"),
        (TEXT, json!({"prompt": ["x", []]}), "prompt", "empty"),
        (
            TEXT,
            json!({"prompt": "x", "logit_bias": {"258": 5}}),
            "logit_bias",
            "258",
        ),
    ] {
        let body = if path == CHAT { chat(members) } else { members };
        let error = paged
            .server
            .post(path, &body)
            .error(400, "invalid_parameter");
        assert_eq!(error["param"], param);
        assert!(
            error["message"].as_str().unwrap().contains(words),
            "{error}"
        );
        let fine = whole(&paged, TEXT, &json!({"prompt": OPENING}));
        assert_eq!(fine["choices"][0]["text"], "Yes.");
    }
    for (body, param) in [
        (json!({"prompt": "x".repeat(9000)}), "prompt"),
        (json!({"prompt": "x", "max_tokens": 9000}), "max_tokens"),
    ] {
        let error = paged
            .server
            .post(TEXT, &body)
            .error(400, "context_length_exceeded");
        assert_eq!(error["param"], param);
    }
}

#[test]
fn who_leaves_a_stream_of_several_choices_stops_all_of_them() {
    let paged = PagedServer::saying(&"on and on, ".repeat(200));
    paged.control.close();
    let body = json!({"prompt": [OPENING, OPENING], "n": 3, "stream": true});
    let mut events = paged.server.stream(TEXT, body);
    paged.step_until("some tokens", |stats| load(&stats.generation_tokens) > 20);
    assert!(events.next().is_some());
    drop(events);
    paged.step_until("everything is freed", |stats| {
        load(&stats.requests_running) + load(&stats.kv_blocks_used) == 0
    });
    paged.assert_all_freed();
    assert_eq!(paged.server.metric("avatar_chat_accepted_total"), 1.0);
    assert_eq!(
        paged
            .server
            .metric("avatar_chat_total{outcome=\"cancelled\"}"),
        1.0
    );
}
