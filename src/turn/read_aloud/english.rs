//! How English says what is written in figures.

use std::sync::LazyLock;

use regex::Captures;

use super::digits::{en_digits, en_number, en_ordinal, en_value, en_year};
use super::scan::{Place, Rule, Rules, rule};

/// A number with thousands marks or decimals.
const N: &str = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?";
const TO: &str = r"\s*(?:[-~–—]|to)\s*";
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// Words after which four figures are a year.
const BEFORE_YEARS: &[&str] = &[
    "in", "since", "from", "by", "until", "year", "spring", "summer", "fall", "autumn", "winter",
    "early", "late",
];
/// Spelt units: one of it, many of it; longer spellings first.
const UNITS: &[(&str, &str, &str)] = &[
    ("km/h", "kilometer per hour", "kilometers per hour"),
    ("kcal", "kilocalorie", "kilocalories"),
    ("mph", "mile per hour", "miles per hour"),
    ("mah", "milliamp hour", "milliamp hours"),
    ("kwh", "kilowatt hour", "kilowatt hours"),
    ("mhz", "megahertz", "megahertz"),
    ("ghz", "gigahertz", "gigahertz"),
    ("lbs", "pound", "pounds"),
    ("min", "minute", "minutes"),
    ("lb", "pound", "pounds"),
    ("oz", "ounce", "ounces"),
    ("km", "kilometer", "kilometers"),
    ("cm", "centimeter", "centimeters"),
    ("mm", "millimeter", "millimeters"),
    ("kg", "kilogram", "kilograms"),
    ("mg", "milligram", "milligrams"),
    ("ml", "milliliter", "milliliters"),
    ("kw", "kilowatt", "kilowatts"),
    ("hz", "hertz", "hertz"),
    ("gb", "gigabyte", "gigabytes"),
    ("tb", "terabyte", "terabytes"),
    ("mb", "megabyte", "megabytes"),
    ("db", "decibel", "decibels"),
    ("ft", "foot", "feet"),
    ("m²", "square meter", "square meters"),
    ("m³", "cubic meter", "cubic meters"),
    ("°c", "degree Celsius", "degrees Celsius"),
    ("°f", "degree Fahrenheit", "degrees Fahrenheit"),
    ("℃", "degree Celsius", "degrees Celsius"),
    ("°", "degree", "degrees"),
    ("l", "liter", "liters"),
    ("g", "gram", "grams"),
    ("m", "meter", "meters"),
    ("w", "watt", "watts"),
    ("v", "volt", "volts"),
    ("h", "hour", "hours"),
];

pub(super) static RULES: Rules = Rules {
    rules: LazyLock::new(rules),
    spaced: true,
};

fn rules() -> Vec<Rule> {
    let currency = r"(US\$|[$¥€£])\s*";
    vec![
        rule(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})", |found, place| {
            date(&found[1], &found[2], &found[3], place)
        }),
        rule(r"(\d{1,2})/(\d{1,2})/(\d{4})", |found, place| {
            date(&found[3], &found[1], &found[2], place)
        }),
        rule(r"([01]?\d|2[0-4]):([0-5]\d)(?::([0-5]\d))?", time),
        rule(r"\+?(?:1[- .]?)?\(?\d{3}\)?[- .]\d{3}[- .]\d{4}", phone),
        rule(r"1-8\d\d-\d{3}-\d{4}|\d{3}-\d{4}", phone),
        rule(
            &format!(r"{currency}({N})\s*([kKMB])?{TO}(?:{currency})?({N})\s*([kKMB])?"),
            price_range,
        ),
        rule(
            &format!(r"{currency}({N})\s*([kKMB]|thousand|million|billion)?"),
            price,
        ),
        rule(&format!(r"({N})\s*%{TO}({N})\s*%"), |found, _| {
            Some(format!(
                "{} to {} percent",
                en_number(&found[1]),
                en_number(&found[2])
            ))
        }),
        rule(&format!(r"({N}){TO}({N})\s*%"), |found, _| {
            Some(format!(
                "{} to {} percent",
                en_number(&found[1]),
                en_number(&found[2])
            ))
        }),
        rule(&format!(r"({N})\s*%"), |found, _| {
            Some(format!("{} percent", en_number(&found[1])))
        }),
        rule(r"(\d+)(?:st|nd|rd|th)", |found, place| {
            (!place.precedes_letters()).then(|| en_ordinal(&found[1]))
        }),
        rule(r"(\d{2}|\d{4})s", decade),
        rule(r"24/7", |_, _| Some("twenty-four seven".to_owned())),
        rule(r"\d+(?:\.\d+){2,}", |found, _| {
            Some(
                found[0]
                    .split('.')
                    .map(en_number)
                    .collect::<Vec<_>>()
                    .join(" point "),
            )
        }),
        rule(r"\d{2,4}(?:-\d{2,6}){2,}", |found, _| {
            Some(en_digits(&found[0]))
        }),
        rule(&format!(r"({N}){TO}({N})(?:\s*(?i:({})))?", units()), range),
        rule(
            &format!(r"({N})\s*[x×*]\s*({N})(?:\s*(?i:({})))?", units()),
            times,
        ),
        rule(r"(\d{1,3})/(\d{1,3})", fraction),
        rule(&format!(r"[-−]({N})(?:\s*(?i:({})))?", units()), negative),
        rule(&format!(r"({N})\s*(?i:({}))", units()), measure),
        rule(r"#(\d+)", |found, _| {
            Some(format!("number {}", en_number(&found[1])))
        }),
        rule(r"((?:19|20)\d\d)", year),
        rule(&format!(r"({N})\+"), |found, _| {
            Some(format!("{} plus", en_number(&found[1])))
        }),
        rule(&format!("({N})"), number),
    ]
}

fn units() -> String {
    UNITS
        .iter()
        .map(|(unit, ..)| *unit)
        .collect::<Vec<_>>()
        .join("|")
}

fn unit(spelt: &str, figures: &str) -> &'static str {
    let lower = spelt.to_lowercase();
    let one = figures == "1";
    UNITS
        .iter()
        .find(|(unit, ..)| *unit == lower)
        .map_or("", |(_, single, many)| if one { single } else { many })
}

fn date(year: &str, month: &str, day: &str, place: &Place<'_>) -> Option<String> {
    let month: usize = month.parse().ok()?;
    let valid_day = day.parse::<u32>().is_ok_and(|day| (1..=31).contains(&day));
    let name = MONTHS.get(month.checked_sub(1)?)?;
    let longer = place.next().is_some_and(|c| c.is_ascii_digit());
    (valid_day && !longer).then(|| {
        format!(
            "{name} {}, {}",
            en_ordinal(day.trim_start_matches('0')),
            en_year(year)
        )
    })
}

fn time(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    if place.next().is_some_and(|c| c.is_ascii_digit()) {
        return None;
    }
    let hour = &found[1];
    let hour = en_number(if hour.len() > 1 {
        hour.trim_start_matches('0')
    } else {
        hour
    });
    let half = place.after.trim_start().to_ascii_lowercase();
    let half = ["am", "pm", "a.m", "p.m"]
        .iter()
        .any(|word| half.starts_with(word));
    let minutes = match (&found[2], half) {
        ("00", true) => String::new(),
        ("00", false) => " o'clock".to_owned(),
        (minutes, _) if minutes.starts_with('0') => format!(" oh {}", en_number(&minutes[1..])),
        (minutes, _) => format!(" {}", en_number(minutes)),
    };
    let seconds = found.get(3).map_or(String::new(), |seconds| {
        let figures = seconds.as_str();
        let figures = if figures == "00" {
            "0"
        } else {
            figures.trim_start_matches('0')
        };
        format!(" and {} seconds", en_number(figures))
    });
    Some(format!("{hour}{minutes}{seconds}"))
}

fn phone(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    let coded = place.next().is_some_and(|c| c.is_ascii_digit()) || place.follows_letters();
    let groups = found[0]
        .split(|c: char| !c.is_ascii_digit())
        .filter(|group| !group.is_empty());
    (!coded).then(|| groups.map(en_digits).collect::<Vec<_>>().join(", "))
}

fn currency(sign: &str) -> (&'static str, &'static str, &'static str) {
    match sign {
        "¥" => ("yuan", "yuan", "fen"),
        "€" => ("euro", "euros", "cents"),
        "£" => ("pound", "pounds", "pence"),
        _ => ("dollar", "dollars", "cents"),
    }
}

fn scale(found: Option<regex::Match<'_>>) -> &str {
    match found.map(|scale| scale.as_str()) {
        Some("k" | "K") => " thousand",
        Some("M" | "million") => " million",
        Some("B" | "billion") => " billion",
        Some(_) => " thousand",
        None => "",
    }
}

fn price(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    let letter = found.get(3).is_some_and(|scale| scale.as_str().len() == 1);
    if letter && place.precedes_letters() {
        return None;
    }
    let (one, many, small) = currency(&found[1]);
    let figures = &found[2];
    if found.get(3).is_some() {
        return Some(format!(
            "{}{} {many}",
            en_number(figures),
            scale(found.get(3))
        ));
    }
    let (whole, cents) = figures.split_once('.').unwrap_or((figures, ""));
    if cents.len() > 2 {
        return Some(format!("{} {many}", en_number(figures)));
    }
    let unit = if whole == "1" { one } else { many };
    let cents: u64 = format!("{cents:0<2}").parse().unwrap_or_default();
    let small = match (small, cents) {
        ("cents", 1) => "cent",
        ("pence", 1) => "penny",
        _ => small,
    };
    Some(match (whole, cents) {
        (_, 0) => format!("{} {unit}", en_number(whole)),
        ("0", _) => format!("{} {small}", en_value(cents)),
        _ => format!(
            "{} {unit} and {} {small}",
            en_number(whole),
            en_value(cents)
        ),
    })
}

fn price_range(found: &Captures<'_>, _: &Place<'_>) -> Option<String> {
    let (_, many, _) = currency(&found[1]);
    let (low, high) = (whole_amount(&found[2]), whole_amount(&found[5]));
    Some(format!(
        "{low}{} to {high}{} {many}",
        scale(found.get(3)),
        scale(found.get(6))
    ))
}

/// Without zeros behind the point that nobody says.
fn whole_amount(figures: &str) -> String {
    match figures.split_once('.') {
        Some((whole, decimals)) if decimals.bytes().all(|b| b == b'0') => en_number(whole),
        _ => en_number(figures),
    }
}

fn decade(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    let ten = found[1].ends_with('0') && found[1].len().is_multiple_of(2);
    if !ten || place.precedes_letters() || place.follows_letters() {
        return None;
    }
    let said = if found[1].len() == 4 {
        en_year(&found[1])
    } else {
        en_number(&found[1])
    };
    Some(match said.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{said}s"),
    })
}

fn range(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    let part_of_code =
        place.follows_letters() || place.next() == Some('-') || place.previous() == Some('-');
    if part_of_code || found[1].len() > 1 && found[1].starts_with('0') {
        return None;
    }
    let years = |figures: &str| {
        figures.len() == 4 && (figures.starts_with("19") || figures.starts_with("20"))
    };
    if years(&found[1]) && years(&found[2]) {
        return Some(format!("{} to {}", en_year(&found[1]), en_year(&found[2])));
    }
    let (low, high) = (en_number(&found[1]), en_number(&found[2]));
    Some(format!(
        "{low} to {high}{}",
        unit_after(found, 3, &found[2], place)
    ))
}

/// 5G, 4K, 2M are no weights or lengths.
fn is_name(spelt: &str) -> bool {
    matches!(spelt, "G" | "K" | "M" | "H")
}

fn times(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    if place.follows_letters() {
        return None;
    }
    let (wide, high) = (en_number(&found[1]), en_number(&found[2]));
    Some(format!(
        "{wide} by {high}{}",
        unit_after(found, 3, &found[2], place)
    ))
}

/// The unit of the group `at`, said where it is one.
fn unit_after(found: &Captures<'_>, at: usize, figures: &str, place: &Place<'_>) -> String {
    let spelt = found.get(at).map_or("", |unit| unit.as_str());
    if spelt.is_empty() || is_name(spelt) || (place.precedes_letters() && spelt.is_ascii()) {
        return spelt.to_owned();
    }
    format!(" {}", unit(spelt, figures))
}

fn fraction(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    let coded = place.follows_letters()
        || place.previous() == Some('/')
        || matches!(place.next(), Some('/' | '0'..='9'));
    let (above, below) = (&found[1], &found[2]);
    let words = match (above, below) {
        _ if coded || below == "0" => return None,
        ("1", "2") => "one half".to_owned(),
        ("1", "4") => "one quarter".to_owned(),
        ("3", "4") => "three quarters".to_owned(),
        ("1", "3") => "one third".to_owned(),
        ("2", "3") => "two thirds".to_owned(),
        _ => format!("{} over {}", en_number(above), en_number(below)),
    };
    Some(words)
}

fn negative(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    let marks = |c: char| c.is_alphanumeric() || matches!(c, '-' | '%' | ')');
    if place.previous().is_some_and(marks) {
        return None;
    }
    let number = en_number(&found[1]);
    Some(format!(
        "minus {number}{}",
        unit_after(found, 2, &found[1], place)
    ))
}

fn measure(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    let spelt = &found[2];
    if is_name(spelt) || place.follows_letters() || (place.precedes_letters() && spelt.is_ascii()) {
        return None;
    }
    Some(format!(
        "{} {}",
        en_number(&found[1]),
        unit(spelt, &found[1])
    ))
}

/// A year where the words before it say so.
fn year(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    let mut rest = place.after.chars();
    let goes_on = match rest.next() {
        Some('.' | ',') => rest.next().is_some_and(|c| c.is_ascii_digit()),
        next => next.is_some_and(|c| c.is_ascii_alphanumeric()),
    };
    let mut words = place.before.trim_end_matches([' ', ',']).rsplit(' ');
    let last = words.next().unwrap_or_default().to_lowercase();
    let day = last.len() <= 4 && last.starts_with(|c: char| c.is_ascii_digit());
    let word = if day {
        words.next().unwrap_or_default().to_lowercase()
    } else {
        last
    };
    let month = MONTHS.iter().any(|month| month.to_lowercase() == word);
    let said = month || (!day && BEFORE_YEARS.contains(&word.as_str()));
    (said && !goes_on).then(|| en_year(&found[1]))
}

fn number(found: &Captures<'_>, place: &Place<'_>) -> Option<String> {
    let figures = &found[1];
    let whole = !figures.contains(['.', ',']);
    let long = whole && figures.len() >= 8 && !figures.ends_with("0000");
    let code =
        whole && (place.precedes_letters() || (place.follows_letters() && figures.len() > 2));
    Some(if long || code {
        en_digits(figures)
    } else {
        en_number(figures)
    })
}
