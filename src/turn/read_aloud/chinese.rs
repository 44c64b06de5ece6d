//! How Mandarin says what is written in figures.

use std::sync::LazyLock;

use regex::Captures;

use super::digits::{zh_digits, zh_number, zh_phone};
use super::scan::{Place, Rule, Rules, rule};

/// A number with thousands marks or decimals.
const N: &str = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?";
/// Hour, minute and perhaps second.
const CLOCK: &str = r"([01]?\d|2[0-4]):([0-5]\d)(?::([0-5]\d))?";
const TO: &str = r"\s*[-~–—至到]\s*";
/// What counts things, so that 2 is 两.
const COUNTERS: &str =
    "个件盒瓶包袋只双条套份支罐箱斤克米升次年天小点位款种组片张元块万千分秒周倍人层杯台部本把家";
/// Spelt units and their words; longer spellings first.
const UNITS: &[(&str, &str)] = &[
    ("km/h", "公里每小时"),
    ("kcal", "千卡"),
    ("mah", "毫安时"),
    ("kwh", "千瓦时"),
    ("khz", "千赫"),
    ("mhz", "兆赫"),
    ("ghz", "吉赫"),
    ("cm²", "平方厘米"),
    ("km²", "平方公里"),
    ("min", "分钟"),
    ("km", "公里"),
    ("cm", "厘米"),
    ("mm", "毫米"),
    ("kg", "公斤"),
    ("mg", "毫克"),
    ("ml", "毫升"),
    ("kw", "千瓦"),
    ("hz", "赫兹"),
    ("db", "分贝"),
    ("m²", "平方米"),
    ("m³", "立方米"),
    ("°c", "摄氏度"),
    ("°f", "华氏度"),
    ("℃", "摄氏度"),
    ("°", "度"),
    ("l", "升"),
    ("g", "克"),
    ("m", "米"),
    ("w", "瓦"),
    ("v", "伏"),
    ("h", "小时"),
];

pub(super) static RULES: Rules = Rules {
    rules: LazyLock::new(rules),
    spaced: false,
};

fn rules() -> Vec<Rule> {
    let currency = r"(US\$|[$¥€£])\s*";
    vec![
        rule(r"(\d{4})[-/.年](\d{1,2})[-/.月](\d{1,2})(?:日|号)?", date),
        rule(r"(\d{2}|\d{4})年", year),
        rule(&format!(r"{CLOCK}{TO}{CLOCK}"), time_range),
        rule(CLOCK, |found, place| time(found, 1, place)),
        rule(r"\+?(?:86[- ]?)?1[3-9]\d[- ]?\d{4}[- ]?\d{4}", phone),
        rule(r"(?:400|800)[- ]?\d{3}[- ]?\d{4}|0\d{2,3}-\d{7,8}", phone),
        rule(
            &format!(r"{currency}({N})\s*([万千亿k])?{TO}(?:{currency})?({N})\s*([万千亿k])?"),
            price_range,
        ),
        rule(&format!(r"{currency}({N})\s*([万千亿k])?"), price),
        rule(&format!(r"({N})(元|块)(?:钱)?"), yuan),
        rule(&format!(r"({N})\s*%{TO}({N})\s*%"), |found, _| {
            Some(format!(
                "百分之{}到百分之{}",
                zh_number(&found[1]),
                zh_number(&found[2])
            ))
        }),
        rule(&format!(r"({N})\s*%"), |found, _| {
            Some(format!("百分之{}", zh_number(&found[1])))
        }),
        rule(&format!(r"({N})\s*‰"), |found, _| {
            Some(format!("千分之{}", zh_number(&found[1])))
        }),
        rule(
            r"(\d(?:\.\d)?|\d\d)(?:[-~到](\d(?:\.\d)?|\d\d))?折",
            discount,
        ),
        rule(r"\d+(?:\.\d+){2,}", |found, _| {
            Some(
                found[0]
                    .split('.')
                    .map(zh_number)
                    .collect::<Vec<_>>()
                    .join("点"),
            )
        }),
        rule(r"\d{2,4}(?:-\d{2,6}){2,}", |found, _| {
            Some(zh_phone(&found[0]))
        }),
        rule(&format!(r"({N}){TO}({N})(?:\s*(?i:({})))?", units()), range),
        rule(
            &format!(r"({N})\s*[x×*]\s*({N})(?:\s*(?i:({})))?", units()),
            times,
        ),
        rule(r"(\d{1,3})/(\d{1,3})", fraction),
        rule(&format!(r"[-−]({N})\s*(℃|°[cC]|度)?"), negative),
        rule(&format!(r"({N})\s*(?i:({}))", units()), measure),
        rule(&format!("({N})"), number),
        rule(r"[+×*]", operator),
    ]
}

fn units() -> String {
    UNITS
        .iter()
        .map(|(unit, _)| *unit)
        .collect::<Vec<_>>()
        .join("|")
}

fn unit(spelt: &str) -> &'static str {
    let lower = spelt.to_lowercase();
    UNITS
        .iter()
        .find(|(unit, _)| *unit == lower)
        .map_or("", |(_, word)| *word)
}

fn date(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    let (month, day): (u32, u32) = (found[2].parse().ok()?, found[3].parse().ok()?);
    let valid = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !valid || place.next().is_some_and(|c| c.is_ascii_digit()) {
        return None;
    }
    let end = if found[0].ends_with('号') {
        "号"
    } else {
        "日"
    };
    Some(format!(
        "{}年{}月{}{end}",
        zh_digits(&found[1]),
        plain(&found[2]),
        plain(&found[3])
    ))
}

/// A month or a day, whose leading zero is not said.
fn plain(figures: &str) -> String {
    zh_number(figures.trim_start_matches('0'))
}

/// 2026年 is a year, 10年 is a time.
fn year(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    let month = place
        .after
        .trim_start()
        .starts_with(|c: char| c.is_ascii_digit());
    let figures = &found[1];
    let is_year =
        (figures.len() == 4 && figures.starts_with(['1', '2'])) || (figures.len() == 2 && month);
    is_year.then(|| format!("{}年", zh_digits(figures)))
}

/// The time whose hour is the group `at`.
fn time(found: &Captures<'_>, at: usize, place: &Place<'_>) -> Option<String> {
    if place.next().is_some_and(|c| c.is_ascii_digit()) {
        return None;
    }
    let hour = match &found[at] {
        "2" | "02" => "两".to_owned(),
        hour => plain(hour),
    };
    let two = |figures: &str| match figures.strip_prefix('0') {
        Some("0") => "零".to_owned(),
        Some(last) => format!("零{}", zh_number(last)),
        None => zh_number(figures),
    };
    let (minute, second) = (&found[at + 1], found.get(at + 2));
    let mut said = format!("{hour}点");
    if minute != "00" || second.is_some() {
        said.push_str(&two(minute));
        said.push('分');
    }
    if let Some(second) = second {
        said.push_str(&two(second.as_str()));
        said.push('秒');
    }
    Some(said)
}

fn time_range(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    Some(format!(
        "{}到{}",
        time(found, 1, place)?,
        time(found, 4, place)?
    ))
}

fn phone(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    let longer = place.next().is_some_and(|c| c.is_ascii_digit());
    (!longer && !place.follows_letters()).then(|| zh_phone(&found[0]))
}

fn currency(sign: &str) -> &'static str {
    match sign {
        "¥" => "元",
        "€" => "欧元",
        "£" => "英镑",
        _ => "美元",
    }
}

/// An amount: no zeros behind the point that nobody says.
fn amount(figures: &str) -> String {
    let short = match figures.split_once('.') {
        Some((whole, decimals)) if decimals.bytes().all(|b| b == b'0') => whole,
        _ => figures,
    };
    let said = zh_number(short);
    if said == "二" {
        "两".to_owned()
    } else {
        said
    }
}

fn scale(found: Option<regex::Match<'_>>) -> &str {
    match found.map(|scale| scale.as_str()) {
        Some("k") => "千",
        Some(scale) => scale,
        None => "",
    }
}

fn price(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    // A letter behind the scale was no scale.
    if found.get(3).is_some_and(|scale| scale.as_str() == "k") && place.precedes_letters() {
        return None;
    }
    let word = currency(&found[1]);
    let said = place.after.starts_with(word);
    Some(format!(
        "{}{}{}",
        amount(&found[2]),
        scale(found.get(3)),
        if said { "" } else { word }
    ))
}

fn price_range(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    let word = currency(&found[1]);
    let said = place.after.starts_with(word);
    let (low, high) = (amount(&found[2]), amount(&found[5]));
    let (low_scale, high_scale) = (scale(found.get(3)), scale(found.get(6)));
    Some(format!(
        "{low}{low_scale}到{high}{high_scale}{}",
        if said { "" } else { word }
    ))
}

/// 19.9元, 19块9.
fn yuan(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    let counted = &found[2] == "块" && place.follows_letters();
    (!counted).then(|| format!("{}{}", amount(&found[1]), &found[0][found[1].len()..]))
}

/// 8.5折 and 85折 are said alike.
fn discount(found: &Captures<'_>, _: &Place<'_>) -> Option<String> {
    let say = |figures: &str| zh_digits(&figures.replace('.', ""));
    match found.get(2) {
        Some(high) => Some(format!("{}到{}折", say(&found[1]), say(high.as_str()))),
        None => Some(format!("{}折", say(&found[1]))),
    }
}

fn range(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    let part_of_code =
        place.follows_letters() || place.next() == Some('-') || place.previous() == Some('-');
    if part_of_code || found[1].len() > 1 && found[1].starts_with('0') {
        return None;
    }
    let (low, high) = (zh_number(&found[1]), counted(&found[2], place.after));
    Some(format!("{low}到{high}{}", unit_after(found, place)))
}

/// 5G, 4K, 2M are no weights or lengths.
fn is_name(spelt: &str) -> bool {
    matches!(spelt, "G" | "K" | "M" | "H")
}

fn times(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    if place.follows_letters() {
        return None;
    }
    let (wide, high) = (zh_number(&found[1]), zh_number(&found[2]));
    Some(format!("{wide}乘{high}{}", unit_after(found, place)))
}

/// The unit of the third group, said where it is one.
fn unit_after<'a>(found: &'a Captures<'_>, place: &Place<'_>) -> &'a str {
    let spelt = found.get(3).map_or("", |unit| unit.as_str());
    let name = is_name(spelt) || (place.precedes_letters() && spelt.is_ascii());
    if name { spelt } else { unit(spelt) }
}

fn fraction(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    let coded = place.follows_letters()
        || place.previous() == Some('/')
        || matches!(place.next(), Some('/' | '0'..='9'));
    (!coded && &found[2] != "0")
        .then(|| format!("{}分之{}", zh_number(&found[2]), zh_number(&found[1])))
}

fn negative(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    let joined = place
        .previous()
        .is_some_and(|c| c.is_alphanumeric() || c == '-' || c == '%');
    if joined {
        // 3-5 was a range; what is left is a mark between codes.
        return None;
    }
    let number = zh_number(&found[1]);
    Some(match found.get(2).map(|unit| unit.as_str()) {
        Some("度") => format!("零下{number}度"),
        Some(_) => format!("零下{number}摄氏度"),
        None => format!("负{number}"),
    })
}

fn measure(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    let spelt = &found[2];
    if is_name(spelt) || place.follows_letters() || (place.precedes_letters() && spelt.is_ascii()) {
        return None;
    }
    Some(format!("{}{}", amount(&found[1]), unit(spelt)))
}

fn number(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    let figures = &found[1];
    let whole = !figures.contains(['.', ',']);
    let long = whole && figures.len() >= 8 && !figures.ends_with("0000");
    let sized = place.after.starts_with(['G', 'K', 'M', 'T'])
        && !place.after[1..].starts_with(|c: char| c.is_ascii_alphanumeric());
    let run_on = place.precedes_letters() && !sized;
    let code = run_on || (place.follows_letters() && figures.len() > 2);
    if long || (whole && code) {
        return Some(zh_digits(figures));
    }
    if place.previous() == Some('第') {
        return Some(zh_number(figures));
    }
    Some(counted(figures, place.after))
}

/// 2 is 两 before what counts.
fn counted(figures: &str, after: &str) -> String {
    let counter = after.trim_start().starts_with(|c| COUNTERS.contains(c));
    if figures == "2" && counter && !after.starts_with("月") {
        return "两".to_owned();
    }
    zh_number(figures)
}

fn operator(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    let between = place.previous().is_some_and(|c| c.is_ascii_digit());
    between.then(|| {
        if &found[0] == "+" {
            "加".to_owned()
        } else {
            "乘".to_owned()
        }
    })
}
