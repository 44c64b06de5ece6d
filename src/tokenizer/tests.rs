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
    let cases: [(String, &str); 13] = [
        (
            broken(|p| p.model = "t5".into()),
            "tokenizer.ggml.model: `t5` is not supported, only `gpt2` (byte-level BPE) and `llama` (SentencePiece)",
        ),
        (
            broken(|p| p.pre = "tekken".into()),
            "tokenizer.ggml.pre: `tekken` is not supported, only `smollm`, `gpt-2`, `default`, `llama-bpe` and `qwen2`",
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
            broken(|p| p.ends = vec![1, 257]),
            "tokenizer.ggml.eot_token_id: 257 is not below 257",
        ),
        (
            broken(|p| (p.origin, p.tokens[256]) = (Origin::HfJson, "a".into())),
            "model.vocab: `a` is both token 97 and token 256",
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

/// Pieces made for each test: the unknown, the bytes, then those given; the first of them is the best.
fn piece_parts(more: &[(&str, i32)]) -> TokenizerParts {
    let bytes = (0..=u8::MAX).map(|byte| (format!("<0x{byte:02X}>"), 6));
    let more = more.iter().map(|&(text, kind)| (text.to_owned(), kind));
    let unknown = std::iter::once(("<unk>".to_owned(), 2));
    let (tokens, kinds): (Vec<String>, _) = unknown.chain(bytes).chain(more).unzip();
    TokenizerParts {
        model: "llama".to_owned(),
        scores: (0_u16..)
            .take(tokens.len())
            .map(|id| -f32::from(id))
            .collect(),
        tokens,
        kinds,
        unknown: Some(0),
        spaces: Spaces {
            prefix: SpacePrefix::Segments,
            strip: true,
            ..Spaces::default()
        },
        ..TokenizerParts::default()
    }
}

fn texts(tokenizer: &Tokenizer, tokens: &[TokenId]) -> Vec<String> {
    let text =
        |&token: &TokenId| String::from_utf8_lossy(tokenizer.token_bytes(token)).into_owned();
    tokens.iter().map(text).collect()
}

#[test]
fn the_better_piece_is_made_first_and_of_equals_the_leftmost() {
    let mut parts = piece_parts(&[("bc", 1), ("ab", 1), ("a", 1), ("b", 1), ("c", 1)]);
    parts.spaces = Spaces::default();
    let better = Tokenizer::new(parts.clone()).unwrap();
    assert_eq!(texts(&better, &better.encode("abc")), ["a", "bc"]);
    parts.scores.fill(0.0);
    let equal = Tokenizer::new(parts).unwrap();
    assert_eq!(texts(&equal, &equal.encode("abc")), ["ab", "c"]);
}

#[test]
fn characters_without_a_piece_are_bytes_or_unknown() {
    let mut parts = piece_parts(&[("a", 1), ("\u{2581}", 1)]);
    let tokenizer = Tokenizer::new(parts.clone()).unwrap();
    let tokens = tokenizer.encode("a好");
    assert_eq!(tokens[2..], [1 + 0xE5, 1 + 0xA5, 1 + 0xBD]);
    assert_eq!(tokenizer.decode(&tokens), "a好");
    assert_eq!(tokenizer.encoded_len("a好"), 4);
    parts.kinds[1 + 0xA5] = 5;
    parts.tokens[1 + 0xA5] = "gone".to_owned();
    // One for all that follow each other, found by its kind where the file does not name it.
    parts.unknown = None;
    let tokenizer = Tokenizer::new(parts).unwrap();
    let (a, space) = (257, 258);
    assert_eq!(tokenizer.encode("a好好a好"), [space, a, 0, a, 0]);
    assert_eq!(tokenizer.encoded_len("a好"), 1);
}

#[test]
fn one_space_is_put_in_front_of_each_stretch_and_taken_off_the_whole() {
    let more = [("a", 1), ("\u{2581}", 1), ("\u{2581}a", 1), ("<s>", 3)];
    let mut parts = piece_parts(&more);
    let shown = |parts: &TokenizerParts, text: &str| {
        let tokenizer = Tokenizer::new(parts.clone()).unwrap();
        let tokens = tokenizer.encode_markup(text);
        (
            texts(&tokenizer, &tokens).join("|"),
            tokenizer.decode(&tokens),
        )
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(shown(&parts, "a<s>a"), pair(" a|| a", "a a"));
    assert_eq!(shown(&parts, " a"), pair(" | a", " a"));
    assert_eq!(shown(&parts, "<s>a"), pair("| a", "a"));
    assert_eq!(shown(&parts, ""), pair("", ""));
    parts.spaces.prefix = SpacePrefix::Start;
    assert_eq!(shown(&parts, "a<s>a"), pair(" a||a", "aa"));
    assert_eq!(shown(&parts, "<s>a"), pair("|a", "a"));
    parts.spaces.single_prefix = true;
    assert_eq!(shown(&parts, " a"), pair(" a", "a"));
    parts.spaces.squeeze = true;
    assert_eq!(shown(&parts, "  a   a "), pair(" a| a", "a a"));
    parts.spaces = Spaces::default();
    assert_eq!(shown(&parts, "a<s> a"), pair("a|| a", "a a"));
}

#[test]
fn user_defined_pieces_are_whole_in_content_unless_they_look_like_markup() {
    let more = [
        ("\n", 1),
        ("a", 1),
        ("\n\n", 4),
        ("\u{2581}\u{2581}", 4),
        ("<t>", 4),
        ("</s>", 3),
        ("\u{2581}", 1),
    ];
    let mut parts = piece_parts(&more);
    parts.spaces = Spaces::default();
    let tokenizer = Tokenizer::new(parts).unwrap();
    assert_eq!(tokenizer.encode("a\n\n\n  a"), [258, 259, 257, 260, 258]);
    assert_eq!(
        tokenizer.encode_markup("a\n\n\n  a"),
        [258, 259, 257, 260, 258]
    );
    assert!(tokenizer.encode("<t></s>").iter().all(|&token| token < 257));
    assert_eq!(tokenizer.encode_markup("<t></s>"), [261, 262]);
    assert_eq!(tokenizer.decode(&[261, 262]), "<t>");
    assert!(tokenizer.is_end(262));
}

#[test]
fn what_is_wrong_with_pieces_is_named() {
    let broken = |break_it: fn(&mut TokenizerParts)| {
        let mut parts = piece_parts(&[("a", 1)]);
        break_it(&mut parts);
        error(parts)
    };
    let cases = [
        (
            broken(|p| p.pre = "llama-bpe".into()),
            "tokenizer.ggml.pre: `llama-bpe` is not supported with the model `llama`",
        ),
        (
            broken(|p| p.scores.truncate(3)),
            "tokenizer.ggml.scores: 3 entries for 258 tokens",
        ),
        (
            broken(|p| p.scores[9] = f32::NAN),
            "tokenizer.ggml.scores: token 9 has NaN",
        ),
        (
            broken(|p| p.tokens[7] = "<0x6>".into()),
            "tokenizer.ggml.tokens: token 7 `<0x6>` is no byte like `<0x0A>`",
        ),
        (
            broken(|p| p.unknown = Some(999)),
            "tokenizer.ggml.unknown_token_id: 999 is not below 258",
        ),
    ];
    for (found, expected) in cases {
        assert!(found.starts_with(expected), "{found}");
    }
}

/// Pairs looked at while a text is encoded.
fn steps(tokenizer: &Tokenizer, text: &str) -> usize {
    let (mut merger, mut tokens) = (Merger::default(), Vec::new());
    tokenizer.encode_into(text, Place::Start, &mut merger, &mut tokens);
    assert!(tokenizer.decode(&tokens) == text, "the text comes back");
    merger.steps
}

/// A word that is looked through again for each merge would take the square of its length.
#[test]
fn a_word_without_a_break_costs_a_few_looks_a_symbol() {
    let doubled =
        |unit: &str| -> Vec<String> { (0..14).map(|power| unit.repeat(1 << power)).collect() };
    let pieces: Vec<String> = [doubled("q"), doubled("好"), doubled("\u{2581}")].concat();
    let pieces: Vec<(&str, i32)> = pieces.iter().map(|piece| (piece.as_str(), 1)).collect();
    let of_pieces = Tokenizer::new(piece_parts(&pieces)).unwrap();
    let words = doubled("q");
    let rules: Vec<String> = words[1..]
        .iter()
        .map(|word| format!("{0} {0}", &word[word.len() / 2..]))
        .collect();
    let words: Vec<(&str, i32)> = words[1..].iter().map(|word| (word.as_str(), 1)).collect();
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let of_bytes = Tokenizer::new(parts(&words, &rules)).unwrap();
    for (tokenizer, unit) in [
        (&of_pieces, "q"),
        (&of_pieces, "好"),
        (&of_pieces, "z"),
        (&of_bytes, "q"),
        (&of_bytes, "好"),
    ] {
        let text = unit.repeat(60_000);
        let looks = steps(tokenizer, &text);
        assert!(looks <= 4 * text.len(), "{looks} for {unit:?}");
    }
    // Short words are looked through again, but they are short.
    let text = "q".repeat(30) + " ";
    let text = text.repeat(2_000);
    assert!(steps(&of_bytes, &text) <= 33 * text.len());
}
