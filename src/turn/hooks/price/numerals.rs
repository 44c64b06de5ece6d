//! Numbers as they are written or spelt, read back: `1,299.00`, `一千二百九十九`, `1.2万`, `nineteen ninety-nine`.

use super::{Amount, ONE};

/// More is no price.
const MOST: Amount = 1_000_000_000_000 * ONE;

/// A number in a text of folded characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Number {
    /// What it may mean; "nineteen ninety-nine" is 19.99 or 1999.
    pub(super) readings: Vec<Amount>,
    /// The last place that was said: [`ONE`] for whole numbers, a hundredth of it for two decimals.
    pub(super) step: Amount,
    /// Where it ends.
    pub(super) end: usize,
    /// Whether it is a run of digits without marks or units.
    pub(super) plain: bool,
}

/// The number that begins at `at`, the longest.
pub(super) fn number(text: &[char], at: usize) -> Option<Number> {
    let first = *text.get(at)?;
    if first.is_ascii_digit() || chinese_digit(first).is_some() || chinese_unit(first).is_some() {
        return mixed(text, at);
    }
    let inside_word = at > 0 && text[at - 1].is_ascii_alphabetic();
    if first.is_ascii_alphabetic() && !inside_word {
        return english(text, at);
    }
    None
}

/// A value of a Chinese digit.
pub(super) fn chinese_digit(c: char) -> Option<Amount> {
    let digits = [
        "零〇",
        "一壹",
        "二两贰兩",
        "三叁",
        "四肆",
        "五伍",
        "六陆",
        "七柒",
        "八捌",
        "九玖",
    ];
    let value = digits.iter().position(|same| same.contains(c))?;
    i64::try_from(value).ok()
}

fn chinese_unit(c: char) -> Option<Amount> {
    Some(match c {
        '十' | '拾' => 10,
        '百' | '佰' => 100,
        '千' | '仟' => 1_000,
        '万' | '萬' => 10_000,
        '亿' | '億' => 100_000_000,
        _ => return None,
    })
}

/// Figures and Chinese numerals, also mixed: `1万2千`, `1.2万`, `三百五`.
fn mixed(text: &[char], at: usize) -> Option<Number> {
    let mut reader = Mixed {
        text,
        at,
        total: 0,
        section: 0,
        digits: 0,
        has_digits: false,
        last_unit: 0,
        step: ONE,
    };
    let plain_from = at;
    while reader.piece()? {}
    let end = reader.at;
    if end == plain_from {
        return None;
    }
    let readings = reader.readings()?;
    let plain = text[plain_from..end].iter().all(char::is_ascii_digit);
    Some(Number {
        readings,
        step: reader.step,
        end,
        plain,
    })
}

struct Mixed<'a> {
    text: &'a [char],
    at: usize,
    /// Closed by 万 or 亿.
    total: Amount,
    /// Since then.
    section: Amount,
    /// A number that no unit has followed yet.
    digits: Amount,
    has_digits: bool,
    last_unit: Amount,
    step: Amount,
}

impl Mixed<'_> {
    /// Takes one run of digits or one unit. `None` when it is too large.
    fn piece(&mut self) -> Option<bool> {
        let Some(c) = self.text.get(self.at).copied() else {
            return Some(false);
        };
        if let Some(unit) = chinese_unit(c) {
            return self.unit(unit);
        }
        if self.has_digits {
            return Some(false);
        }
        if c.is_ascii_digit() {
            let (value, step, end) = figures(self.text, self.at)?;
            (self.digits, self.step, self.at) = (value, step, end);
            self.has_digits = true;
            return Some(true);
        }
        if chinese_digit(c).is_none() {
            return Some(false);
        }
        let (value, step, end) = digit_words(self.text, self.at)?;
        (self.digits, self.step, self.at) = (value, step, end);
        self.has_digits = true;
        Some(true)
    }

    fn unit(&mut self, unit: Amount) -> Option<bool> {
        if unit >= 10_000 {
            let section = self.section + self.digits;
            if section == 0 && self.total == 0 {
                return Some(false);
            }
            self.total = self.total.max(0).checked_add(section.checked_mul(unit)?)?;
            self.section = 0;
        } else {
            if !self.has_digits && unit > 10 {
                return Some(false);
            }
            let times = if self.has_digits { self.digits } else { ONE };
            self.section = self.section.checked_add(times.checked_mul(unit)?)?;
        }
        (self.digits, self.has_digits, self.last_unit) = (0, false, unit);
        self.at += 1;
        (self.total <= MOST).then_some(true)
    }

    /// `三百五` is 350: a digit after a unit, without its own, is of the next.
    fn readings(&self) -> Option<Vec<Amount>> {
        let whole = self.total.checked_add(self.section)?;
        let plain = whole.checked_add(self.digits)?;
        let before = self.at.checked_sub(2).map(|before| self.text[before]);
        let short = self.has_digits
            && self.last_unit >= 100
            && self.digits < 10 * ONE
            && before.is_none_or(|c| c != '零');
        if short {
            return Some(vec![
                whole.checked_add(self.digits.checked_mul(self.last_unit / 10)?)?,
            ]);
        }
        (plain <= MOST).then(|| vec![plain])
    }
}

/// `1,299.00`: value, step and end. A comma counts only before three digits.
fn figures(text: &[char], at: usize) -> Option<(Amount, Amount, usize)> {
    let digit = |at: usize| text.get(at).and_then(|c| c.to_digit(10)).map(Amount::from);
    let mut value: Amount = 0;
    let mut end = at;
    while let Some(next) = digit(end) {
        value = value.checked_mul(10)?.checked_add(next)?;
        end += 1;
        let grouped = text.get(end) == Some(&',')
            && (1..=3).all(|ahead| digit(end + ahead).is_some())
            && digit(end + 4).is_none();
        if grouped {
            end += 1;
        }
    }
    value = value.checked_mul(ONE).filter(|value| *value <= MOST)?;
    let mut step = ONE;
    if text.get(end) == Some(&'.') && digit(end + 1).is_some() {
        end += 1;
        while let Some(next) = digit(end) {
            step /= 10;
            value += next * step;
            end += 1;
        }
        step = step.max(1);
    }
    Some((value, step, end))
}

/// `十九点九` after its units, `一九九` digit by digit, `五`.
fn digit_words(text: &[char], at: usize) -> Option<(Amount, Amount, usize)> {
    let mut end = at;
    let mut value: Amount = 0;
    while let Some(next) = text.get(end).copied().and_then(chinese_digit) {
        value = value.checked_mul(10)?.checked_add(next)?;
        end += 1;
    }
    value = value.checked_mul(ONE).filter(|value| *value <= MOST)?;
    Some((value, ONE, end))
}

/// `点九` or `point nine` after a whole number.
pub(super) fn decimals(text: &[char], number: Number) -> Number {
    if text.get(number.end) != Some(&'点') || number.step != ONE {
        return number;
    }
    let mut end = number.end + 1;
    let (mut fraction, mut step) = (0, ONE);
    let digit = |at: usize| {
        text.get(at)
            .and_then(|c| chinese_digit(*c).or(c.to_digit(10).map(Amount::from)))
    };
    while let Some(next) = digit(end).filter(|_| step > 1) {
        step /= 10;
        fraction += next * step;
        end += 1;
    }
    if step == ONE {
        return number;
    }
    let readings = number
        .readings
        .iter()
        .map(|whole| whole + fraction)
        .collect();
    Number {
        readings,
        step,
        end,
        plain: false,
    }
}

const SMALL: &[&str] = &[
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
const TENS: &[&str] = &[
    "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
];

enum Word {
    /// Below a hundred.
    Small(Amount),
    Hundred,
    Scale(Amount),
    And,
    Point,
}

fn word(text: &str) -> Option<Word> {
    let index = |words: &[&str]| {
        words
            .iter()
            .position(|word| *word == text)
            .and_then(|at| Amount::try_from(at).ok())
    };
    if let Some(value) = index(SMALL) {
        return Some(Word::Small(value));
    }
    if let Some(value) = index(TENS) {
        return Some(Word::Small((value + 2) * 10));
    }
    Some(match text {
        "oh" => Word::Small(0),
        "a" => Word::Small(1),
        "hundred" => Word::Hundred,
        "thousand" => Word::Scale(1_000),
        "million" => Word::Scale(1_000_000),
        "and" => Word::And,
        "point" => Word::Point,
        _ => return None,
    })
}

/// English number words, joined by spaces or hyphens.
fn english(text: &[char], at: usize) -> Option<Number> {
    let mut words = Vec::new();
    let mut end = at;
    let mut next = at;
    while let Some((word, after)) = next_word(text, next) {
        let counts = matches!(word, Word::Small(_) | Word::Hundred | Word::Scale(_));
        words.push(word);
        if counts {
            end = after;
        }
        next = after + usize::from(text.get(after).is_some_and(|c| matches!(c, ' ' | '-')));
        if next == after {
            break;
        }
    }
    while matches!(words.last(), Some(Word::And | Word::Point)) {
        words.pop();
    }
    let article = matches!(words.first(), Some(Word::And | Word::Point))
        || (words.len() == 1 && text[at] == 'a');
    if words.is_empty() || article {
        return None;
    }
    let (readings, step) = value_of(&words)?;
    Some(Number {
        readings,
        step,
        end,
        plain: false,
    })
}

fn next_word(text: &[char], at: usize) -> Option<(Word, usize)> {
    let length = text[at..]
        .iter()
        .take_while(|c| c.is_ascii_alphabetic())
        .count();
    let spelt: String = text[at..at + length].iter().collect();
    word(&spelt).map(|word| (word, at + length))
}

fn value_of(words: &[Word]) -> Option<(Vec<Amount>, Amount)> {
    let point = words.iter().position(|word| matches!(word, Word::Point));
    let (whole, after) = words.split_at(point.unwrap_or(words.len()));
    let groups = groups(whole)?;
    if let [_, decimals @ ..] = after {
        let (mut fraction, mut step) = (0, ONE);
        for word in decimals {
            let Word::Small(value @ 0..=9) = word else {
                return None;
            };
            step = (step / 10).max(1);
            fraction += value * step;
        }
        return match groups.as_slice() {
            [whole] => Some((vec![whole * ONE + fraction], step)),
            _ => None,
        };
    }
    match groups.as_slice() {
        [one] => Some((vec![one * ONE], ONE)),
        // "nineteen ninety-nine"; "one ninety-nine" is 1.99 or 199.
        [first, second] if *second < 100 => Some((
            vec![
                first * ONE + second * ONE / 100,
                (first * 100 + second) * ONE,
            ],
            ONE / 100,
        )),
        _ => None,
    }
}

/// Numbers that stand side by side without a word that joins them.
fn groups(words: &[Word]) -> Option<Vec<Amount>> {
    let mut found = Vec::new();
    let (mut total, mut section): (Amount, Amount) = (0, 0);
    let mut open = false;
    let mut joined = true;
    for word in words {
        match word {
            Word::Small(value) => {
                let fits = (section % 100 == 0 && (section == 0 || joined || section >= 100))
                    || (section % 100 >= 20 && section % 10 == 0 && *value < 10 && *value > 0);
                if open && !fits {
                    found.push(total + section);
                    (total, section) = (0, 0);
                }
                section += value;
                open = true;
                joined = false;
            }
            Word::Hundred => section = section.max(1) * 100,
            Word::Scale(scale) => {
                total = total.checked_add(section.max(1).checked_mul(*scale)?)?;
                section = 0;
                joined = true;
            }
            Word::And => joined = true,
            Word::Point => return None,
        }
    }
    found.push(total.checked_add(section)?);
    found
        .iter()
        .all(|value| *value <= MOST / ONE)
        .then_some(found)
}
