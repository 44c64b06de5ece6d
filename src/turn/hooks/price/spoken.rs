//! Finds what a sentence says of prices and discounts.

use unicode_normalization::UnicodeNormalization as _;

use super::numerals::{Number, decimals, number};
use super::{Amount, ONE};

/// Something a sentence says about money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// An amount.
    Price {
        /// What it may mean.
        readings: Vec<Amount>,
        /// Its last place.
        step: Amount,
        /// As it was said.
        said: String,
    },
    /// A discount.
    Rate {
        /// What is paid of each [`ONE`].
        paid: Amount,
        /// As it was said.
        said: String,
    },
}

const BEFORE: &[&str] = &[
    "$",
    "¥",
    "€",
    "£",
    "rmb",
    "cny",
    "usd",
    "eur",
    "gbp",
    "人民币",
];
/// Words after which a bare number is a price.
const CUES: &[&str] = &[
    "到手价",
    "售价",
    "价格是",
    "价格为",
    "价格",
    "原价",
    "现价",
    "特价",
    "秒杀价",
    "券后价",
    "券后",
    "一口价",
    "价是",
    "只卖",
    "卖",
    "price is",
    "price of",
    "priced at",
    "costs",
    "sells for",
    "price:",
];
const AFTER: &[&str] = &[
    "人民币",
    "美元",
    "美金",
    "欧元",
    "英镑",
    "港币",
    "日元",
    "块钱",
    "元钱",
    "元",
    "圆",
    "rmb",
    "cny",
    "usd",
    "eur",
    "gbp",
    "yuan",
    "kuai",
    "dollars",
    "dollar",
    "bucks",
    "buck",
    "euros",
    "euro",
    "pounds sterling",
    "pounds",
    "quid",
    "$",
    "¥",
    "€",
    "£",
];
const CENTS: &[&str] = &["cents", "cent"];
/// What may follow 块 where it means money and not a piece of something.
const AFTER_KUAI: &str = "钱就包到的啊吧呢哦起左卖拿带，。！？；、,.!?; ";
/// What counts things: a number before it is no part of a price.
const COUNTERS: &str = "件个盒瓶包袋只双条套份支罐箱斤公克米升折次年月天号点人位款种组片张";

/// Every claim of `text`, in order.
pub(super) fn claims(text: &str) -> Vec<Claim> {
    let text: Vec<char> = text.nfkc().flat_map(char::to_lowercase).collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let claim = half(&text, at)
            .or_else(|| prefixed(&text, at))
            .or_else(|| counted(&text, at));
        match claim {
            Some((claim, end)) => {
                found.extend(claim);
                at = end.max(at + 1);
            }
            None => at += 1,
        }
    }
    found
}

/// What is found at a place: a claim or a number that claims nothing, and where it ends.
type Found = Option<(Option<Claim>, usize)>;

fn half(text: &[char], at: usize) -> Found {
    let word = ["半价", "half price", "half-price", "half off"]
        .iter()
        .find(|word| starts(text, at, word))?;
    let end = at + word.chars().count();
    Some((Some(rate(text, at, end, ONE / 2)), end))
}

/// `$19.9`, `¥ 1,299`, `到手价19.9`.
fn prefixed(text: &[char], at: usize) -> Found {
    let symbol = BEFORE
        .iter()
        .find(|word| starts(text, at, word) && word_begins(text, at, word));
    let cue = || {
        CUES.iter()
            .find(|word| starts(text, at, word) && word_begins(text, at, word))
    };
    let (word, is_cue) = symbol
        .map(|word| (word, false))
        .or_else(|| cue().map(|word| (word, true)))?;
    let mut from = skip_spaces(text, at + word.chars().count());
    if is_cue {
        let link = [
            "只要", "仅需", "只需", "是", "为", ":", "才", "only", "just",
        ]
        .iter()
        .find(|link| starts(text, from, link));
        from = skip_spaces(text, from + link.map_or(0, |link| link.chars().count()));
    }
    let number = decimals(text, number(text, from)?);
    if is_cue {
        let measured = text
            .get(number.end)
            .is_some_and(|c| COUNTERS.contains(*c) || *c == '%');
        let currency = after_currency(text, number.end).is_some()
            || kuai(text, number.end)
            || is_currency(text, from);
        if measured || currency {
            return None;
        }
    }
    let end = number.end;
    Some((Some(price(text, at, number)), end))
}

/// A number and what follows it.
fn counted(text: &[char], at: usize) -> Found {
    if starts(text, at, "百分之") {
        let number = number(text, at + 3)?;
        let end = number.end;
        let off =
            starts(text, end, "优惠") || starts(text, end, "的优惠") || starts(text, end, "折扣");
        let paid = ONE - number.readings[0] / 100;
        return Some((off.then(|| rate(text, at, end, paid)), end));
    }
    let number = decimals(text, number(text, at)?);
    let end = number.end;
    if let Some(claim) = discount(text, at, &number) {
        return Some(claim);
    }
    if let Some(after) = after_currency(text, end) {
        let (number, end) = with_change(text, number, after, false);
        return Some((Some(price_to(text, at, number, end)), end));
    }
    if kuai(text, end) {
        let (number, end) = with_change(text, number, end + 1, true);
        return Some((Some(price_to(text, at, number, end)), end));
    }
    let from = skip_spaces(text, end);
    if let Some(word) = CENTS.iter().find(|word| starts(text, from, word)) {
        let end = from + word.len();
        return Some((Some(price_to(text, at, scaled(number, 100), end)), end));
    }
    if (starts(text, end, "毛") || starts(text, end, "角"))
        && (starts(text, end + 1, "钱") || ends_here(text, end + 1))
    {
        return Some((
            Some(price_to(text, at, scaled(number, 10), end + 1)),
            end + 1,
        ));
    }
    Some((None, end))
}

/// `8折`, `八五折`, `20% off`, `twenty percent off`.
fn discount(text: &[char], at: usize, number: &Number) -> Found {
    let (end, value) = (number.end, number.readings[0]);
    if starts(text, end, "折") && !starts(text, end, "折叠") {
        let paid = if value < 10 * ONE {
            value / 10
        } else {
            value / 100
        };
        return Some((Some(rate(text, at, end + 1, paid)), end + 1));
    }
    let from = skip_spaces(text, end);
    let word = ["%", "percent", "per cent"]
        .iter()
        .find(|word| starts(text, from, word))?;
    let end = from + word.chars().count();
    let mut next = skip_spaces(text, end);
    if starts(text, next, "的") {
        next += 1;
    }
    let off = ["off", "discount", "优惠", "折扣", "less", "cheaper"]
        .iter()
        .any(|word| starts(text, next, word));
    Some((off.then(|| rate(text, at, end, ONE - value / 100)), end))
}

/// `19块9毛5`, `19元9角`, `nineteen dollars and ninety nine cents`: the small change behind the main unit.
fn with_change(text: &[char], main: Number, after: usize, kuai: bool) -> (Number, usize) {
    let mut from = skip_spaces(text, after);
    let joined = starts(text, from, "and ");
    if joined {
        from += 4;
    }
    let zero = starts(text, from, "零");
    let Some(change) = number(text, from) else {
        return (main, after);
    };
    let next = skip_spaces(text, change.end);
    let value = change.readings[0];
    let (part, end) = if let Some(word) = CENTS.iter().find(|word| starts(text, next, word)) {
        (value / 100, next + word.len())
    } else if starts(text, change.end, "毛") || starts(text, change.end, "角") {
        return fen(text, add(main, value / 10, ONE / 10), change.end + 1);
    } else if starts(text, change.end, "分") {
        (value / 100, change.end + 1)
    } else if kuai && !counts(text, change.end) && !joined {
        let tenths = value < 10 * ONE && !zero;
        (if tenths { value / 10 } else { value / 100 }, change.end)
    } else {
        return (main, after);
    };
    if part >= ONE {
        return (main, after);
    }
    (add(main, part, ONE / 100), end)
}

/// `5分` behind the tenths, or a bare digit.
fn fen(text: &[char], main: Number, after: usize) -> (Number, usize) {
    let Some(change) = number(text, after) else {
        return (main, after);
    };
    let value = change.readings[0];
    let unit = starts(text, change.end, "分");
    if value >= 10 * ONE || (!unit && counts(text, change.end)) {
        return (main, after);
    }
    (
        add(main, value / 100, ONE / 100),
        change.end + usize::from(unit),
    )
}

fn add(number: Number, part: Amount, step: Amount) -> Number {
    let readings = number.readings.iter().map(|value| value + part).collect();
    Number {
        readings,
        step,
        ..number
    }
}

fn scaled(number: Number, by: Amount) -> Number {
    let readings = number.readings.iter().map(|value| value / by).collect();
    Number {
        readings,
        step: (number.step / by).max(1),
        ..number
    }
}

fn counts(text: &[char], at: usize) -> bool {
    text.get(at).is_some_and(|c| COUNTERS.contains(*c))
}

/// Whether 块 at `at` means money.
fn kuai(text: &[char], at: usize) -> bool {
    let next = text.get(at + 1).copied();
    let number = || number(text, at + 1).is_some();
    starts(text, at, "块") && (next.is_none_or(|c| AFTER_KUAI.contains(c)) || number())
}

fn ends_here(text: &[char], at: usize) -> bool {
    text.get(at).is_none_or(|c| !c.is_alphanumeric())
}

fn is_currency(text: &[char], at: usize) -> bool {
    BEFORE.iter().any(|word| starts(text, at, word))
}

/// Where the currency behind a number ends.
fn after_currency(text: &[char], at: usize) -> Option<usize> {
    let from = skip_spaces(text, at + usize::from(text.get(at) == Some(&'-')));
    let word = AFTER.iter().find(|word| starts(text, from, word))?;
    let end = from + word.chars().count();
    let latin = word.ends_with(|c: char| c.is_ascii_alphabetic());
    let inside = latin && text.get(end).is_some_and(char::is_ascii_alphabetic);
    // "3 $5 coupons": the sign belongs to the number behind it.
    let sign =
        matches!(*word, "$" | "¥" | "€" | "£") && text.get(end).is_some_and(char::is_ascii_digit);
    // 元 also begins words.
    let other = *word == "元"
        && ["元旦", "元宵", "元素"]
            .iter()
            .any(|other| starts(text, from, other));
    (!inside && !sign && !other).then_some(end)
}

/// A Latin word begins here and not inside another.
fn word_begins(text: &[char], at: usize, word: &str) -> bool {
    let latin = word.starts_with(|c: char| c.is_ascii_alphabetic());
    !latin || at == 0 || !text[at - 1].is_ascii_alphabetic()
}

fn starts(text: &[char], at: usize, word: &str) -> bool {
    text.len() >= at
        && word
            .chars()
            .enumerate()
            .all(|(index, c)| text.get(at + index) == Some(&c))
}

fn skip_spaces(text: &[char], at: usize) -> usize {
    at + text.iter().skip(at).take_while(|c| **c == ' ').count()
}

fn said(text: &[char], from: usize, to: usize) -> String {
    text[from..to.min(text.len())].iter().collect()
}

fn price(text: &[char], from: usize, number: Number) -> Claim {
    let end = number.end;
    price_to(text, from, number, end)
}

fn price_to(text: &[char], from: usize, number: Number, to: usize) -> Claim {
    Claim::Price {
        readings: number.readings,
        step: number.step,
        said: said(text, from, to),
    }
}

fn rate(text: &[char], from: usize, to: usize, paid: Amount) -> Claim {
    Claim::Rate {
        paid,
        said: said(text, from, to),
    }
}
