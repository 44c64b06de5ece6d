//! Small vocabularies under the rules of published models, as files state them, against the reference tokenizers' ids.

use std::collections::BTreeMap;

use compere::tokenizer::{SpacePrefix, Spaces, TokenId, Tokenizer, TokenizerParts};
use proptest::prelude::*;

/// `fixtures/vocabularies/references.json`; `fixtures/make_vocabularies.py` says where it is from.
#[derive(serde::Deserialize)]
struct References {
    plain: Vec<String>,
    random: Vec<String>,
    pieces: BTreeMap<String, Reference>,
    json: BTreeMap<String, Reference>,
}

#[derive(serde::Deserialize)]
struct Reference {
    /// Ids of each plain text, two digits an id.
    plain: Vec<String>,
    /// A hash over the ids of each random text.
    random: Vec<String>,
    /// Texts with control tokens, and their ids.
    #[serde(default)]
    markup: Vec<(String, String)>,
}

/// What a GGUF file says of a SentencePiece model.
#[derive(serde::Deserialize)]
struct PieceModel {
    tokens: Vec<String>,
    scores: Vec<f32>,
    kinds: Vec<i32>,
    unknown: TokenId,
    bos: TokenId,
    eos: TokenId,
    add_space_prefix: bool,
    remove_extra_whitespaces: bool,
}

fn fixture(name: &str) -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    let path = format!("{root}/tests/fixtures/vocabularies/{name}");
    std::fs::read_to_string(path).expect("the fixture is there")
}

fn references() -> References {
    serde_json::from_str(&fixture("references.json")).expect("the fixture is of this shape")
}

fn json(name: &str) -> Tokenizer {
    let file = fixture(&format!("{name}.json"));
    Tokenizer::from_hf_json(file.as_bytes()).expect("the file is supported")
}

fn pieces(name: &str) -> Tokenizer {
    let model: PieceModel = serde_json::from_str(&fixture(&format!("{name}.pieces.json")))
        .expect("the fixture is of this shape");
    let prefix = if model.add_space_prefix {
        SpacePrefix::Segments
    } else {
        SpacePrefix::Never
    };
    let parts = TokenizerParts {
        model: "llama".to_owned(),
        tokens: model.tokens,
        scores: model.scores,
        kinds: model.kinds,
        unknown: Some(model.unknown),
        bos: Some(model.bos),
        eos: Some(model.eos),
        spaces: Spaces {
            prefix,
            squeeze: model.remove_extra_whitespaces,
            strip: model.add_space_prefix,
            ..Spaces::default()
        },
        ..TokenizerParts::default()
    };
    Tokenizer::new(parts).expect("the vocabulary is whole")
}

/// Every vocabulary that loses nothing of a text.
fn lossless() -> Vec<(&'static str, Tokenizer)> {
    let mut all = vec![
        ("llama2 pieces", pieces("llama2")),
        ("gemma pieces", pieces("gemma")),
    ];
    for name in [
        "qwen2", "llama3", "smollm", "gpt2", "llama2", "mistral", "gemma",
    ] {
        all.push((name, json(name)));
    }
    all
}

fn ids(digits: &str) -> Vec<TokenId> {
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |c: u8| {
        let digits = (0..).zip(ALPHABET.bytes());
        let found = digits.into_iter().find(|(_, known)| *known == c);
        found.expect("one of the 64").0
    };
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| digit(pair[0]) << 6 | digit(pair[1]))
        .collect()
}

fn hash(ids: &[TokenId]) -> String {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for byte in ids.iter().flat_map(|id| id.to_le_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
    }
    format!("{hash:016x}")
}

fn check(name: &str, tokenizer: &Tokenizer, references: &References, reference: &Reference) {
    for (text, expected) in references.plain.iter().zip(&reference.plain) {
        assert_eq!(tokenizer.encode(text), ids(expected), "{name}: {text:?}");
    }
    for (text, expected) in references.random.iter().zip(&reference.random) {
        let found = tokenizer.encode(text);
        assert_eq!(&hash(&found), expected, "{name}: {text:?} gives {found:?}");
    }
    for (text, expected) in &reference.markup {
        assert_eq!(
            tokenizer.encode_markup(text),
            ids(expected),
            "{name}: {text:?}"
        );
    }
    assert!(reference.plain.len() > 35 && reference.random.len() == 500);
}

#[test]
fn pieces_equal_the_reference() {
    let references = references();
    for (name, reference) in &references.pieces {
        check(name, &pieces(name), &references, reference);
    }
    assert_eq!(references.pieces.len(), 3);
}

#[test]
fn json_files_equal_the_reference() {
    let references = references();
    for (name, reference) in &references.json {
        check(name, &json(name), &references, reference);
        assert_eq!(reference.markup.len(), 4);
    }
    assert_eq!(references.json.len(), 7);
}

/// What comes back of a text, apart from what the vocabulary's rule changes.
fn meant(name: &str, text: &str) -> String {
    // In pieces this stands for a space.
    let text = if matches!(name, "qwen2" | "llama3" | "smollm" | "gpt2") {
        text.to_owned()
    } else {
        text.replace('\u{2581}', " ")
    };
    match (name, text.strip_prefix(' ')) {
        // A space in front is not told from the one that encoding puts there.
        ("mistral", Some(rest)) => rest.to_owned(),
        _ => text,
    }
}

/// Ordinary text in many scripts, white space, and spellings of special tokens; nothing that is not in form C.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-zA-Z0-9 ]{0,8}",
        "[一-龥ぁ-ゖ가-힣а-яא-ת]{0,4}",
        "[ \\t\\r\\n\u{3000}\u{2581}]{0,4}",
        "[😀-🙏\u{200d}\u{fe0f}]{0,3}",
        prop::sample::select(vec![
            "<s>",
            "</s>",
            "<|im_end|>",
            "<think>",
            "\n\n\n",
            "  ",
            "<table>",
            "<0x41>",
            "<unk>",
            "优惠价"
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

/// Texts that come back, and tokens in any order.
#[test]
fn text_comes_back_and_streams_as_it_is_decoded() {
    let all = lossless();
    let config = ProptestConfig::with_cases(64);
    proptest!(config, |(text in texts(), tokens in prop::collection::vec(0_u32..1300, 0..24))| {
        for (name, tokenizer) in &all {
            let encoded = tokenizer.encode(&text);
            prop_assert_eq!(tokenizer.decode(&encoded), meant(name, &text), "{}", name);
            for tokens in [&encoded, &tokens] {
                let whole = tokenizer.decode(tokens);
                let (mut decoder, mut streamed) = (tokenizer.decoder(), String::new());
                for &token in tokens {
                    decoder.push(token, &mut streamed);
                    prop_assert!(whole.starts_with(&streamed), "{}: {:?} of {:?}", name, streamed, whole);
                }
                decoder.finish(&mut streamed);
                // Only a character that the end cuts is dropped.
                let cut = whole.strip_suffix('\u{FFFD}').unwrap_or(&whole);
                prop_assert!(streamed == whole || streamed == cut, "{}: {:?} of {:?}", name, streamed, whole);
            }
        }
    });
}

#[test]
fn content_holds_no_token_of_the_markup() {
    for (name, tokenizer) in lossless() {
        for spelling in tokenizer.added_tokens() {
            let blank = spelling.trim().is_empty() || spelling == "优惠价";
            let tokens = tokenizer.encode(&format!("a{spelling}b {spelling}"));
            let added = |token: &TokenId| {
                Some(*token) == tokenizer.encode_markup(spelling).first().copied()
            };
            assert_eq!(tokens.iter().any(added), blank, "{name}: {spelling:?}");
            assert_eq!(
                tokenizer.encode_markup(spelling).len(),
                1,
                "{name}: {spelling:?}"
            );
        }
    }
}

#[test]
fn runs_without_a_break_are_encoded_whole() {
    for (name, tokenizer) in lossless() {
        for (piece, count) in [("好", 60_000), ("q", 60_000), (" x", 20_000)] {
            let text = piece.repeat(count);
            let tokens = tokenizer.encode(&text);
            let whole = tokenizer.decode(&tokens) == meant(name, &text);
            assert!(whole, "{name}: {count} times {piece:?}");
        }
    }
}

#[test]
fn a_json_file_says_what_begins_a_text() {
    assert_eq!(json("llama3").bos(), Some(1200));
    assert_eq!(json("llama2").bos_spelling(), "<s>");
    assert_eq!(json("qwen2").bos(), None);
    assert!(json("llama2").is_end(2) && json("qwen2").is_end(1202));
}
