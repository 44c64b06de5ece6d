//! Number words: whole numbers, decimals and runs of digits, in both languages. Figures come as text, so no size is
//! too large and no zero is lost.

const ZH: [&str; 10] = ["零", "一", "二", "三", "四", "五", "六", "七", "八", "九"];
const EN: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 10] = [
    "", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
];
/// Longer whole numbers are read digit by digit.
const MOST_DIGITS: usize = 12;

fn values(figures: &str) -> impl Iterator<Item = usize> {
    figures
        .chars()
        .filter_map(|c| c.to_digit(10))
        .map(|digit| digit as usize)
}

/// 一九九: digit by digit.
pub(super) fn zh_digits(figures: &str) -> String {
    values(figures).map(|digit| ZH[digit]).collect()
}

/// As phone numbers are said: 幺 for 1.
pub(super) fn zh_phone(figures: &str) -> String {
    values(figures)
        .map(|digit| if digit == 1 { "幺" } else { ZH[digit] })
        .collect()
}

/// A whole number or decimal, with or without thousands marks: 一千二百九十九点五.
pub(super) fn zh_number(figures: &str) -> String {
    let figures = figures.replace(',', "");
    let (whole, decimals) = figures.split_once('.').unwrap_or((&figures, ""));
    let mut said = zh_whole(whole);
    if !decimals.is_empty() {
        said.push('点');
        said.push_str(&zh_digits(decimals));
    }
    said
}

fn zh_whole(figures: &str) -> String {
    let trimmed = figures.trim_start_matches('0');
    if trimmed.is_empty() {
        return ZH[0].to_owned();
    }
    if trimmed.len() > MOST_DIGITS || trimmed.len() < figures.len() {
        return zh_digits(figures);
    }
    let value: u64 = trimmed.parse().unwrap_or_default();
    let mut said = zh_value(value);
    if let Some(rest) = said.strip_prefix("一十") {
        said = format!("十{rest}");
    }
    said
}

fn zh_value(value: u64) -> String {
    for (unit, word) in [(100_000_000, "亿"), (10_000, "万")] {
        if value >= unit {
            let head = zh_value(value / unit);
            let head = if head == "二" {
                "两".to_owned()
            } else {
                head
            };
            return zh_joined(&format!("{head}{word}"), value % unit, unit);
        }
    }
    for (unit, word) in [(1_000, "千"), (100, "百"), (10, "十")] {
        if value >= unit {
            let digit = usize::try_from(value / unit).unwrap_or_default();
            let digit = if unit == 1_000 && digit == 2 {
                "两"
            } else {
                ZH[digit]
            };
            return zh_joined(&format!("{digit}{word}"), value % unit, unit);
        }
    }
    ZH[usize::try_from(value).unwrap_or_default()].to_owned()
}

/// 零 stands for the places that are skipped.
fn zh_joined(head: &str, rest: u64, unit: u64) -> String {
    match rest {
        0 => head.to_owned(),
        _ if rest < unit / 10 => format!("{head}零{}", zh_value(rest)),
        _ => format!("{head}{}", zh_value(rest)),
    }
}

/// `eight eight`.
pub(super) fn en_digits(figures: &str) -> String {
    values(figures)
        .map(|digit| EN[digit])
        .collect::<Vec<_>>()
        .join(" ")
}

/// A whole number or decimal, with or without thousands marks.
pub(super) fn en_number(figures: &str) -> String {
    let figures = figures.replace(',', "");
    let (whole, decimals) = figures.split_once('.').unwrap_or((&figures, ""));
    let whole = en_whole(whole);
    if decimals.is_empty() {
        return whole;
    }
    format!("{whole} point {}", en_digits(decimals))
}

fn en_whole(figures: &str) -> String {
    let trimmed = figures.trim_start_matches('0');
    if trimmed.is_empty() {
        return if figures.len() > 1 {
            en_digits(figures)
        } else {
            EN[0].to_owned()
        };
    }
    if trimmed.len() > MOST_DIGITS || trimmed.len() < figures.len() {
        return en_digits(figures);
    }
    en_value(trimmed.parse().unwrap_or_default())
}

pub(super) fn en_value(value: u64) -> String {
    for (unit, word) in [
        (1_000_000_000, "billion"),
        (1_000_000, "million"),
        (1_000, "thousand"),
        (100, "hundred"),
    ] {
        if value >= unit {
            let head = format!("{} {word}", en_value(value / unit));
            return match value % unit {
                0 => head,
                rest => format!("{head} {}", en_value(rest)),
            };
        }
    }
    let value = usize::try_from(value).unwrap_or_default();
    match value {
        0..20 => EN[value].to_owned(),
        _ if value.is_multiple_of(10) => TENS[value / 10].to_owned(),
        _ => format!("{}-{}", TENS[value / 10], EN[value % 10]),
    }
}

/// `nineteen ninety-nine`, `two thousand five`, `twenty oh five` never: years of four figures.
pub(super) fn en_year(figures: &str) -> String {
    let value: u64 = figures.parse().unwrap_or_default();
    let (first, last) = (value / 100, value % 100);
    match (first, last) {
        (20, 0..10) | (10..=99, 0) if first.is_multiple_of(10) => en_value(value),
        (_, 0) => format!("{} hundred", en_value(first)),
        (_, 1..10) => format!("{} oh {}", en_value(first), en_value(last)),
        _ => format!("{} {}", en_value(first), en_value(last)),
    }
}

/// `twenty-first` of `twenty-one`.
pub(super) fn en_ordinal(figures: &str) -> String {
    let words = en_number(figures);
    let at = words.rfind([' ', '-']).map_or(0, |at| at + 1);
    let (head, last) = words.split_at(at);
    let last = match last {
        "one" => "first".to_owned(),
        "two" => "second".to_owned(),
        "three" => "third".to_owned(),
        "five" => "fifth".to_owned(),
        "eight" => "eighth".to_owned(),
        "nine" => "ninth".to_owned(),
        "twelve" => "twelfth".to_owned(),
        _ => match last.strip_suffix('y') {
            Some(stem) => format!("{stem}ieth"),
            None => format!("{last}th"),
        },
    };
    format!("{head}{last}")
}
