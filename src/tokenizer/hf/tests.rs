//! Files that are wrong, or ask for what is not implemented, each refused by its place; and what is read from others.

use serde_json::{Value, json};

use super::*;
use crate::tokenizer::{SpacePrefix, Tokenizer, alphabet};

/// A byte-level file: the 256 bytes, a merge and a special token.
fn byte_level() -> Value {
    let mut vocab: serde_json::Map<String, Value> = (0..=u8::MAX)
        .map(|byte| (alphabet::letter_of(byte).to_string(), byte.into()))
        .collect();
    vocab.insert("ab".to_owned(), 256.into());
    json!({
        "truncation": {"max_length": 8},
        "added_tokens": [token(257, "<|im_end|>", true)],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
        "post_processor": {"type": "ByteLevel"},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "", "vocab": vocab, "merges": ["a b"]},
    })
}

/// A file of pieces.
fn pieces() -> Value {
    json!({
        "added_tokens": [token(0, "<unk>", true), token(1, "<s>", true)],
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "add_prefix_space": true},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        },
        "decoder": {"type": "Metaspace", "replacement": "▁", "add_prefix_space": true},
        "model": {
            "type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": false,
            "vocab": {"<unk>": 0, "<s>": 1, "▁": 2, "a": 3, "b": 4, "▁a": 5, "<0x41>": 6},
            "merges": [["▁", "a"]],
        },
    })
}

fn token(id: u32, content: &str, special: bool) -> Value {
    json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": special})
}

fn build(file: &Value) -> Result<Tokenizer, TokenizerError> {
    Tokenizer::from_hf_json(file.to_string().as_bytes())
}

/// The error of a file in which the value at a pointer is another.
fn refusal(mut file: Value, pointer: &str, value: Value) -> String {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match file.pointer_mut(parent).unwrap() {
        Value::Array(items) => items[name.parse::<usize>().unwrap()] = value,
        parent => parent[name] = value,
    }
    build(&file).expect_err(pointer).to_string()
}

/// Each case is a pointer, the value there, and how the error begins.
fn check(file: fn() -> Value, cases: &[(&str, Value, &str)]) {
    for (pointer, value, expected) in cases {
        let found = refusal(file(), pointer, value.clone());
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn what_is_not_supported_in_a_byte_level_model_is_named_by_its_place() {
    let cases = [
        (
            "/model/type",
            json!("Unigram"),
            "model.type: `Unigram` is not supported, only `BPE`",
        ),
        ("/model", json!(null), "model.type: `` is not supported"),
        (
            "/model/dropout",
            json!(0.1),
            "model.dropout: `0.1` is not supported, only `0.0`",
        ),
        (
            "/model/end_of_word_suffix",
            json!("</w>"),
            "model.end_of_word_suffix: is not supported",
        ),
        (
            "/model/byte_fallback",
            json!(true),
            "model.byte_fallback: is not supported",
        ),
        ("/model/vocab", json!([]), "model.vocab: is not an object"),
        (
            "/model/vocab/ab",
            json!("x"),
            "model.vocab.ab: is not a token id",
        ),
        (
            "/model/vocab/ab",
            json!(4_000_000_000_u32),
            "model.vocab: the id 4000000000 is far beyond 257 tokens",
        ),
        ("/model/vocab/ab", json!(7), "model.vocab: `ab` and"),
        (
            "/model/vocab/好",
            json!(300),
            "model.vocab: token 300 `好` is not byte-level",
        ),
        (
            "/model/merges/0",
            json!("ab"),
            "model.merges: rule 0 `ab`: not two tokens",
        ),
        (
            "/model/merges/0",
            json!(["a", "b", "c"]),
            "model.merges[0]: is not two tokens",
        ),
        (
            "/model/merges/0",
            json!(["a b", "c"]),
            "model.merges[0]: tokens with spaces",
        ),
        (
            "/model/merges/0",
            json!("a c"),
            "model.merges: rule 0 `a c`: `ac` is not a token",
        ),
    ];
    check(byte_level, &cases);
    let broken = Tokenizer::from_hf_json(b"{\"a\": ")
        .unwrap_err()
        .to_string();
    assert!(broken.starts_with("tokenizer.json: EOF"), "{broken}");
    assert_eq!(
        build(&byte_level()).unwrap().encode("ab<|im_end|>")[..2],
        [256, 60]
    );
}

#[test]
fn what_is_not_supported_around_a_byte_level_model_is_named_by_its_place() {
    let split = |regex: &str| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false});
    let after = json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false});
    let sequence = |first: Value| json!({"type": "Sequence", "pretokenizers": [first, after]});
    let cases = [
        (
            "/normalizer",
            json!({"type": "NFKC"}),
            "normalizer: `NFKC` is not supported here",
        ),
        (
            "/normalizer",
            json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}),
            "normalizer.normalizers[1]: `Lowercase`",
        ),
        (
            "/pre_tokenizer/add_prefix_space",
            json!(true),
            "pre_tokenizer.add_prefix_space: `true` is not supported, only `false`",
        ),
        (
            "/pre_tokenizer/use_regex",
            json!(false),
            "pre_tokenizer.use_regex: false",
        ),
        (
            "/pre_tokenizer",
            sequence(split("x+")),
            "pre_tokenizer.pretokenizers[0].pattern.Regex: is not supported",
        ),
        (
            "/pre_tokenizer",
            sequence(json!({"type": "Whitespace"})),
            "pre_tokenizer.pretokenizers[0]: `Whitespace`",
        ),
        (
            "/decoder",
            json!({"type": "WordPiece"}),
            "decoder: `WordPiece`",
        ),
        (
            "/post_processor",
            json!({"type": "BertProcessing"}),
            "post_processor: `BertProcessing`",
        ),
        (
            "/added_tokens/0/lstrip",
            json!(true),
            "added_tokens[0].lstrip: `true` is not supported, only `false`",
        ),
        (
            "/added_tokens/0/content",
            json!(null),
            "added_tokens[0].content: is not a string",
        ),
        (
            "/added_tokens/0/content",
            json!("ab"),
            "added_tokens[0].id: 257 is not 256",
        ),
        (
            "/added_tokens/0/id",
            json!(3),
            "added_tokens[0]: `<|im_end|>` and",
        ),
    ];
    check(byte_level, &cases);
}

#[test]
fn what_is_not_supported_in_a_file_of_pieces_is_named_by_its_place() {
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let cases = [
        (
            "/pre_tokenizer",
            json!(null),
            "pre_tokenizer: neither ByteLevel nor Metaspace",
        ),
        (
            "/pre_tokenizer/replacement",
            json!("_"),
            "pre_tokenizer.replacement: `\"_\"` is not supported",
        ),
        (
            "/pre_tokenizer/prepend_scheme",
            json!("last"),
            "pre_tokenizer.prepend_scheme: `last`",
        ),
        (
            "/normalizer",
            json!({"type": "Precompiled"}),
            "normalizer: `Precompiled`",
        ),
        (
            "/normalizer",
            replace,
            "pre_tokenizer: `Metaspace` is not supported here",
        ),
        ("/decoder", json!(null), "decoder: nothing turns"),
        (
            "/decoder",
            json!({"type": "Strip", "content": " ", "start": 2, "stop": 0}),
            "decoder.start: `2` is not supported, only `1`",
        ),
        (
            "/pre_tokenizer/prepend_scheme",
            json!("never"),
            "decoder: strips a space",
        ),
        (
            "/model/ignore_merges",
            json!(true),
            "model.ignore_merges: is not supported",
        ),
        (
            "/model/fuse_unk",
            json!(false),
            "model.fuse_unk: `false` is not supported, only `true`",
        ),
        (
            "/model/unk_token",
            json!("<no>"),
            "model.unk_token: `<no>` is not a token",
        ),
        (
            "/post_processor/single",
            json!([{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "<s>"}}]),
            "post_processor.single[1]: only one token in front",
        ),
        (
            "/post_processor/single/0/SpecialToken/id",
            json!("<b>"),
            "post_processor.single[0].SpecialToken.id: `<b>` is not a token",
        ),
    ];
    check(pieces, &cases);
}

#[test]
fn spaces_are_read_from_the_stages() {
    let parts = TokenizerParts::from_hf_json(pieces().to_string().as_bytes()).unwrap();
    // Older files do not name the scheme, and split where they do not say.
    assert_eq!(parts.spaces.prefix, SpacePrefix::Segments);
    assert!(parts.spaces.single_prefix && parts.spaces.split && parts.spaces.strip);
    assert_eq!(
        (parts.bos, parts.add_bos, parts.unknown),
        (Some(1), true, Some(0))
    );
    let tokenizer = Tokenizer::new(parts).unwrap();
    assert_eq!(tokenizer.encode("a a好好b"), [5, 5, 0, 4]);
    // Without fallback this is a piece like any other.
    assert_eq!(tokenizer.token_bytes(6), b"<0x41>");
}

#[test]
fn numbers_that_a_file_leaves_out_are_no_tokens() {
    let mut file = byte_level();
    file["added_tokens"][0]["id"] = json!(300);
    let tokenizer = build(&file).unwrap();
    assert_eq!(tokenizer.vocab_size(), 301);
    assert_eq!(tokenizer.encode_markup("<|im_end|>"), [300]);
    assert_eq!(tokenizer.token_bytes(299), b"");
}

#[test]
fn the_config_names_special_tokens_and_templates() {
    let mut parts = TokenizerParts::from_hf_json(byte_level().to_string().as_bytes()).unwrap();
    let config = json!({
        "bos_token": null, "add_bos_token": false, "eos_token": {"content": "<|im_end|>", "lstrip": false}, "model_max_length": 9,
        "chat_template": [{"name": "rag", "template": "R"}, {"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}],
    });
    let config = HfConfig::parse(config.to_string().as_bytes()).unwrap();
    config.apply(&mut parts).unwrap();
    assert_eq!(
        (parts.bos, parts.eos, parts.add_bos),
        (None, Some(257), false)
    );
    assert_eq!(
        (
            config.chat_template.as_deref(),
            config.tool_template.as_deref()
        ),
        (Some("D"), Some("T"))
    );
    let plain = HfConfig::parse(br#"{"chat_template": "{{ x }}", "eos_token": "ab"}"#).unwrap();
    assert_eq!(plain.chat_template.as_deref(), Some("{{ x }}"));
    plain.apply(&mut parts).unwrap();
    assert_eq!(parts.eos, Some(256));
}

#[test]
fn what_is_wrong_in_the_config_is_named() {
    let cases = [
        (
            json!({"eos_token": 7}),
            "eos_token: is neither a string nor an object",
        ),
        (
            json!({"bos_token": {"id": 7}}),
            "bos_token.content: is not a string",
        ),
        (
            json!({"add_bos_token": 1}),
            "add_bos_token: is not true or false",
        ),
        (
            json!({"chat_template": 1}),
            "chat_template: is neither a string nor a list",
        ),
        (
            json!({"chat_template": [{"name": "default"}]}),
            "chat_template[0].template: is not a string",
        ),
    ];
    for (config, expected) in cases {
        let found = HfConfig::parse(config.to_string().as_bytes())
            .unwrap_err()
            .to_string();
        assert!(found.starts_with(expected), "{found}");
    }
    let config = HfConfig::parse(br#"{"eos_token": "<none>"}"#).unwrap();
    let error = config.apply(&mut TokenizerParts::default()).unwrap_err();
    assert_eq!(error.to_string(), "eos_token: `<none>` is not a token");
}

/// Every place of a value.
fn places(value: &Value, path: String, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                places(
                    value,
                    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")),
                    found,
                );
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                places(value, format!("{path}/{index}"), found);
            }
        }
        _ => {}
    }
    found.push(path);
}

/// Whatever stands anywhere, the file is read or refused.
#[test]
fn no_file_makes_it_panic() {
    let values = [
        json!(null),
        json!(true),
        json!(7),
        json!(-1),
        json!(1e99),
        json!(""),
        json!("▁"),
        json!([]),
        json!([[]]),
        json!({}),
        json!({"type": "Sequence"}),
    ];
    let mut small = byte_level();
    let vocab = small["model"]["vocab"].as_object_mut().unwrap();
    vocab.retain(|token, _| ["a", "b", "ab"].contains(&token.as_str()));
    for file in [small, pieces()] {
        let mut found = Vec::new();
        places(&file, String::new(), &mut found);
        for (place, value) in found
            .iter()
            .flat_map(|place| values.iter().map(move |value| (place, value)))
        {
            let mut broken = file.clone();
            *broken.pointer_mut(place).unwrap() = value.clone();
            if let Ok(tokenizer) = build(&broken) {
                let tokens = tokenizer.encode_markup("ab a<|im_end|>好<s>");
                let _ = tokenizer.decode(&tokens);
            }
        }
        assert!(found.len() > 30);
    }
}
