//! The tokenizer on small vocabularies made for each test.

use super::*;

/// The 256 bytes, then the tokens given.
fn parts(more: &[(&str, i32)], merges: &[&str]) -> TokenizerParts {
    let bytes = (0..=u8::MAX).map(|byte| (alphabet::letter_of(byte).to_string(), 1));
    let more = more.iter().map(|&(text, kind)| (text.to_owned(), kind));
    let (tokens, kinds) = bytes.chain(more).unzip();
    TokenizerParts {
        model: "gpt2".to_owned(),
        pre: "gpt-2".to_owned(),
        tokens,
        kinds,
        merges: merges.iter().map(|&rule| rule.to_owned()).collect(),
        ..TokenizerParts::default()
    }
}

fn error(parts: TokenizerParts) -> String {
    Tokenizer::new(parts).unwrap_err().to_string()
}

#[test]
fn the_longest_added_token_is_found_and_kinds_have_their_text() {
    let more = [("<a>", 3), ("<a><b>", 4), ("ab", 1), ("Ġa", 1)];
    let tokenizer = Tokenizer::new(parts(&more, &["a b", "Ġ a"])).unwrap();
    assert_eq!(tokenizer.encode_markup("<a><b>ab<a>"), [257, 258, 256]);
    assert_eq!(tokenizer.added_tokens(), ["<a><b>", "<a>"]);
    let found: Vec<_> = tokenizer.find_added("é<a><a><b>").collect();
    assert_eq!(found, [(2..5, 256), (5..11, 257)]);
    assert_eq!(tokenizer.token_bytes(256), b"");
    assert_eq!(tokenizer.token_bytes(257), b"<a><b>");
    assert_eq!(tokenizer.token_bytes(259), b" a");
    assert_eq!(tokenizer.token_bytes(9999), b"");
    assert_eq!(tokenizer.decode(&[259, 256, 258, 0xE5]), " aab\u{FFFD}");
}

#[test]
fn merging_never_makes_an_added_token() {
    let more = [("<>", 4), ("ab", 3)];
    let tokenizer = Tokenizer::new(parts(&more, &["< >", "a b"])).unwrap();
    assert_eq!(tokenizer.encode("<>ab"), [60, 62, 97, 98]);
}

#[test]
fn a_byte_that_is_an_added_token_is_no_text() {
    let mut parts = parts(&[], &[]);
    parts.kinds[usize::from(b'@')] = 4;
    let tokenizer = Tokenizer::new(parts).unwrap();
    assert_eq!(tokenizer.encode("a@"), [97]);
    assert_eq!(tokenizer.encode_markup("a@"), [97, 64]);
}

#[test]
fn words_that_are_tokens_are_taken_whole_only_where_the_rule_says_so() {
    let mut parts = parts(&[("bc", 1), ("abc", 1), ("cab", 4)], &["b c"]);
    assert_eq!(
        Tokenizer::new(parts.clone()).unwrap().encode("abc"),
        [97, 256]
    );
    parts.pre = "llama-bpe".to_owned();
    let tokenizer = Tokenizer::new(parts).unwrap();
    assert_eq!(tokenizer.encode("abc"), [257]);
    assert_eq!(tokenizer.encode("cab"), [99, 97, 98]);
}

#[test]
fn bos_is_for_raw_prompts_where_the_model_wants_it() {
    let mut parts = parts(&[("<s>", 3), ("</s>", 3)], &[]);
    parts.bos = Some(256);
    assert_eq!(Tokenizer::new(parts.clone()).unwrap().bos(), None);
    parts.add_bos = true;
    let tokenizer = Tokenizer::new(parts).unwrap();
    assert_eq!(tokenizer.bos(), Some(256));
    assert_eq!(tokenizer.bos_spelling(), "<s>");
    assert_eq!(tokenizer.eos_spelling(), "");
    assert!(tokenizer.is_end(257) && !tokenizer.is_end(256));
}

#[test]
fn what_is_wrong_is_named() {
    let good = || parts(&[("ab", 1)], &["a b"]);
    let broken = |break_it: fn(&mut TokenizerParts)| {
        let mut parts = good();
        break_it(&mut parts);
        error(parts)
    };
    let cases: [(String, &str); 11] = [
        (
            broken(|p| p.model = "llama".into()),
            "tokenizer.ggml.model: `llama` is not supported",
        ),
        (
            broken(|p| p.pre = "tekken".into()),
            "tokenizer.ggml.pre: `tekken` is not supported",
        ),
        (
            broken(|p| p.tokens.clear()),
            "tokenizer.ggml.tokens: is missing or empty",
        ),
        (
            broken(|p| p.kinds.truncate(3)),
            "tokenizer.ggml.token_type: 3 entries for 257 tokens",
        ),
        (
            broken(|p| p.tokens[256] = "a".into()),
            "tokenizer.ggml.tokens: `a` is both token 97 and token 256",
        ),
        (
            broken(|p| p.tokens[256] = "a好".into()),
            "tokenizer.ggml.tokens: token 256 `a好` is not byte-level",
        ),
        (
            broken(|p| p.merges.push("a c".into())),
            "tokenizer.ggml.merges: rule 1 `a c`: `ac` is not a token",
        ),
        (
            broken(|p| p.merges.push("好 a".into())),
            "tokenizer.ggml.merges: rule 1 `好 a`: `好` is not a token",
        ),
        (
            broken(|p| p.merges.push("ab".into())),
            "tokenizer.ggml.merges: rule 1 `ab`: not two tokens",
        ),
        (
            broken(|p| p.eos = Some(257)),
            "tokenizer.ggml.eos_token_id: 257 is not below 257",
        ),
        (
            broken(|p| p.bos = Some(900)),
            "tokenizer.ggml.bos_token_id: 900 is not below 257",
        ),
    ];
    for (found, expected) in cases {
        assert!(found.starts_with(expected), "{found}");
    }
    assert!(Tokenizer::new(good()).is_ok());
}
