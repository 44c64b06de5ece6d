//! Whatever the text and its chunking: nothing lost, nothing empty, no number cut.

use proptest::prelude::*;

use super::super::test_text::text;
use super::*;

fn cut(text: &str) -> Vec<String> {
    let mut segmenter = Segmenter::new(1000);
    let mut clauses = segmenter.push(text);
    clauses.extend(segmenter.finish());
    clauses.into_iter().map(|clause| clause.text).collect()
}

#[test]
fn sentences_end_where_speech_pauses() {
    for (answer, clauses) in [
        (
            "Yes, it is. It keeps rain out! Want one?",
            &["Yes, it is. ", "It keeps rain out! ", "Want one?"][..],
        ),
        (
            "你好。这款防水吗？防水！",
            &["你好。", "这款防水吗？", "防水！"],
        ),
        (
            "Line one\nLine two\n\n\nB\n",
            &["Line one\n", "Line two\n\n\n", "B\n"],
        ),
        (
            "他说：“你好。再见。”然后走了。",
            &["他说：“你好。再见。”", "然后走了。"],
        ),
        (
            "It is light (about 300 g. or so) and warm. Good.",
            &["It is light (about 300 g. or so) and warm. ", "Good."],
        ),
        (
            "She said \"Stop. Now.\" Then left.",
            &["She said \"Stop. Now.\" ", "Then left."],
        ),
        ("嗯……好的", &["嗯……好的"]),
        ("看看……好的", &["看看……", "好的"]),
        (
            "Features:\n1. Light and warm\n2. Dry. Very dry\n",
            &[
                "Features:\n",
                "1. Light and warm\n",
                "2. Dry. ",
                "Very dry\n",
            ],
        ),
    ] {
        assert_eq!(cut(answer), clauses, "{answer}");
    }
}

#[test]
fn numbers_prices_abbreviations_and_urls_are_whole() {
    for (answer, clauses) in [
        (
            "这款到手价19.9元，第二件半价只要9.95元！满3.5折再减￥1,299.00。",
            &[
                "这款到手价19.9元，",
                "第二件半价只要9.95元！",
                "满3.5折再减￥1,299.00。",
            ][..],
        ),
        (
            "It costs $1,299.00 or 3.5 percent. Ok?",
            &["It costs $1,299.00 or 3.5 percent. ", "Ok?"],
        ),
        (
            "Ask Mr. Smith, Dr. Wu or the U.S. shop, e.g. today. Fine.",
            &[
                "Ask Mr. Smith, Dr. Wu or the U.S. shop, ",
                "e.g. today. ",
                "Fine.",
            ],
        ),
        (
            "It is No. 1. No. It isn't.",
            &["It is No. 1. ", "No. ", "It isn't."],
        ),
        (
            "See https://a.b/c?d=e!f. Bye now.",
            &["See https://a.b/c?d=e!f. ", "Bye now."],
        ),
        (
            "Go to shop.com/?q=1 please. Thanks.",
            &["Go to shop.com/?q=1 please. ", "Thanks."],
        ),
    ] {
        assert_eq!(cut(answer), clauses, "{answer}");
    }
}

#[test]
fn only_the_first_clause_may_end_at_a_comma() {
    assert_eq!(
        cut("这款冲锋衣是防水的，放心，买吧，好。"),
        ["这款冲锋衣是防水的，", "放心，买吧，好。"]
    );
    assert_eq!(cut("好的，亲。"), ["好的，亲。"]);
}

#[test]
fn repeated_marks_never_make_an_empty_clause() {
    for silent in [
        "……",
        "？！？！",
        "。",
        "👏👏👏",
        "   ",
        "\u{200b}\u{200b}",
        "",
        "\n\n",
        "!",
    ] {
        assert_eq!(cut(silent), [""; 0], "{silent:?}");
        assert_eq!(cut(&silent.repeat(200)), [""; 0], "{silent:?}");
    }
    let wow = format!("哇{}", "！".repeat(200));
    assert_eq!(cut(&wow), [wow.as_str()]);
    let thanks = format!("谢谢{}再见", "！".repeat(200));
    assert_eq!(cut(&thanks).concat(), thanks);
    assert_eq!(cut("太好了！👏👏👏"), ["太好了！👏👏👏"]);
    assert_eq!(cut("Done now. https://a.b"), ["Done now. https://a.b"]);
}

#[test]
fn short_fragments_join_the_next() {
    assert_eq!(cut("哇！真的很好看。好。"), ["哇！真的很好看。", "好。"]);
}

#[test]
fn long_clauses_are_cut_at_words() {
    let words = "warm ".repeat(60);
    let clauses = cut(&words);
    assert!(clauses.len() > 1);
    for clause in &clauses {
        assert!(
            text_width(clause) <= HARD_WIDTH && clause.ends_with("warm "),
            "{clause:?}"
        );
    }
    let wide = "暖".repeat(150);
    assert!(cut(&wide).iter().all(|clause| clause.chars().count() <= 60));
}

#[test]
fn a_length_limit_never_leaves_half_a_word() {
    let clauses = |text: &str, max_chars| {
        let mut segmenter = Segmenter::new(max_chars);
        let mut clauses = segmenter.push(text);
        clauses.extend(segmenter.finish());
        clauses
            .into_iter()
            .map(|clause| clause.text)
            .collect::<Vec<_>>()
    };
    assert_eq!(clauses("Waterproof jackets", 5), ["Waterproof jackets"]);
    assert_eq!(
        clauses("Waterproof jackets", 13),
        ["Waterproof ", "jackets"]
    );
    assert_eq!(
        clauses("It is 1,299,000.00 now", 9),
        ["It is ", "1,299,000.00 now"]
    );
}

#[test]
fn a_quiet_model_is_flushed_at_the_last_clause() {
    let mut segmenter = Segmenter::new(1000);
    assert_eq!(segmenter.push("It is light, and warm al"), []);
    let flushed = segmenter.flush_quiet();
    assert_eq!(flushed.len(), 1);
    assert_eq!(flushed[0].text, "It is light, ");
    assert_eq!(segmenter.flush_quiet(), []);
    segmenter.push("so 3.");
    assert_eq!(segmenter.flush_quiet(), [], "the number may go on");
    segmenter.push("5 kg.");
    assert_eq!(segmenter.flush_quiet()[0].text, "and warm also 3.5 kg.");
}

#[test]
fn a_cut_answer_ends_with_a_whole_clause() {
    let cut_short = |text: &str| {
        let mut segmenter = Segmenter::new(1000);
        let mut clauses = segmenter.push(text);
        clauses.extend(segmenter.cut_short());
        clauses
            .into_iter()
            .map(|clause| clause.text)
            .collect::<Vec<_>>()
    };
    assert_eq!(cut_short("It is warm. It al"), ["It is warm. "]);
    assert_eq!(
        cut_short("It is warm. It is dry."),
        ["It is warm. ", "It is dry."]
    );
    assert_eq!(cut_short("It is warm, but al"), ["It is warm, "]);
    assert_eq!(cut_short("It is war"), [""; 0]);
}

#[test]
fn the_pause_follows_the_mark() {
    let pauses = |text: &str| {
        let mut segmenter = Segmenter::new(1000);
        let mut clauses = segmenter.push(text);
        clauses.extend(segmenter.finish());
        clauses
            .into_iter()
            .map(|clause| clause.pause_ms)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        pauses("这款冲锋衣是防水的，放心。“好的！”看看……再说"),
        [120, 300, 300, 400, 0]
    );
}

/// Whether a cut between these two would be heard inside a number or price.
fn splits_number(left: &str, right: &str) -> bool {
    let (Some(last), Some(first)) = (left.chars().next_back(), right.chars().next()) else {
        return false;
    };
    let mut before = left.chars().rev();
    before.next();
    let digit = |c: char| c.is_ascii_digit();
    (digit(last) && (digit(first) || first == '元' || first == '%'))
        || (matches!(last, '.' | ',') && digit(first) && before.next().is_some_and(digit))
        || (digit(last) && matches!(first, '.' | ',') && right[1..].starts_with(digit))
        || (matches!(last, '$' | '￥') && digit(first))
}

fn segments(text: &str, chunks: &[usize], max_chars: usize) -> Vec<Clause> {
    let mut segmenter = Segmenter::new(max_chars);
    let mut out = Vec::new();
    let chars: Vec<char> = text.chars().collect();
    let mut rest = &chars[..];
    let mut sizes = chunks.iter().cycle();
    while !rest.is_empty() {
        let size = (*sizes.next().unwrap_or(&1)).clamp(1, rest.len());
        let (chunk, later) = rest.split_at(size);
        out.extend(segmenter.push(&String::from_iter(chunk)));
        rest = later;
    }
    out.extend(segmenter.finish());
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_text_in_any_chunks_gives_the_same_speakable_clauses(
        text in text(),
        chunks in proptest::collection::vec(1..12_usize, 1..8),
        max_chars in prop_oneof![Just(1000_usize), 20..200_usize],
    ) {
        let whole = segments(&text, &[usize::MAX], max_chars);
        prop_assert_eq!(&whole, &segments(&text, &chunks, max_chars), "chunking matters");
        if spoken_chars(&text, true) == 0 {
            prop_assert!(whole.is_empty());
            return Ok(());
        }
        let joined: String = whole.iter().map(|clause| clause.text.as_str()).collect();
        prop_assert_eq!(&joined, &text);
        for clause in &whole {
            prop_assert!(!clause.tts_text.trim().is_empty(), "{clause:?}");
        }
        for pair in whole.windows(2) {
            prop_assert!(!splits_number(&pair[0].text, &pair[1].text), "{pair:?}");
        }
    }

    #[test]
    fn a_cut_or_flushed_answer_is_a_beginning_of_the_text(text in text(), at in 0..80_usize) {
        let cut = text.char_indices().map(|(at, _)| at).nth(at).unwrap_or(text.len());
        let mut segmenter = Segmenter::new(1000);
        let mut clauses = segmenter.push(&text[..cut]);
        clauses.extend(segmenter.flush_quiet());
        clauses.extend(segmenter.push(&text[cut..]));
        clauses.extend(segmenter.cut_short());
        let joined: String = clauses.iter().map(|clause| clause.text.as_str()).collect();
        prop_assert!(text.starts_with(&joined));
        prop_assert!(clauses.iter().all(|clause| !clause.tts_text.is_empty()));
    }
}
