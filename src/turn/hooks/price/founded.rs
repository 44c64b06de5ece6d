//! What may be said: the amounts and discounts of facts and tool results, and what can be computed of them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::numerals::number;
use super::spoken::{Claim, claims};
use super::{Amount, ONE};

/// Values that are looked at; more is no answer of an honest tool.
const MOST_VALUES: usize = 5_000;
/// Amounts of which sums are made.
const MOST_MONEY: usize = 40;
/// Pieces of one product that a bundle may have.
const MOST_PIECES: Amount = 10;

/// Parts of keys whose numbers are money.
const MONEY_KEYS: &[&str] = &[
    "price", "cost", "amount", "fee", "deposit", "coupon", "pay", "total", "msrp", "shipping",
    "saving", "价", "券", "元", "减", "费",
];
/// Parts of keys whose numbers never are.
const OTHER_KEYS: &[&str] = &[
    "stock",
    "quantity",
    "count",
    "inventory",
    "year",
    "weight",
    "height",
    "width",
    "length",
    "rating",
    "phone",
    "sold",
    "sku",
    "库存",
    "数量",
    "销量",
    "重量",
    "电话",
];
/// Parts of keys whose numbers are discounts.
const RATE_KEYS: &[&str] = &["discount", "percent", "rate", "折", "off"];

#[derive(Default)]
pub(super) struct Founded {
    /// May be said as they are.
    literal: BTreeSet<Amount>,
    /// May be summed and discounted.
    money: BTreeSet<Amount>,
    /// What is paid of each [`ONE`].
    rates: BTreeSet<Amount>,
}

impl Founded {
    pub(super) fn of<'a>(values: impl Iterator<Item = &'a Value>) -> Self {
        let mut founded = Self::default();
        let mut left = MOST_VALUES;
        for value in values {
            founded.walk("", value, &mut left);
        }
        if founded.money.is_empty() {
            founded.money = founded.literal.clone();
        }
        founded
    }

    /// Whether a spoken amount, exact to `step`, is among them or can be computed.
    pub(super) fn bears(&self, said: Amount, step: Amount) -> bool {
        if self.literal.contains(&said) || self.money.contains(&said) {
            return true;
        }
        let money: Vec<Amount> = self
            .money
            .iter()
            .copied()
            .filter(|amount| *amount > 0)
            .take(MOST_MONEY)
            .collect();
        let discounted: Vec<Amount> = money
            .iter()
            .flat_map(|amount| self.rates.iter().map(move |paid| share(*amount, *paid)))
            .collect();
        // A discount may be rounded to what is said.
        let near = |exact: Amount| (exact - said).abs() < step;
        let parts: Vec<Amount> = money.iter().chain(&discounted).copied().collect();
        if discounted.iter().any(|amount| near(*amount)) {
            return true;
        }
        let exact = |amount: Amount| amount == said;
        let fits = |amount: Amount| {
            if discounted.is_empty() {
                exact(amount)
            } else {
                near(amount)
            }
        };
        let sums = |a: &Amount| parts.iter().any(|b| fits(a + b) || fits(a - b));
        let multiple = |a: &Amount| (2..=MOST_PIECES).any(|pieces| fits(a * pieces));
        let three = || {
            money
                .iter()
                .any(|a| money.iter().any(|b| money.contains(&(said - a - b))))
        };
        parts.iter().any(sums) || parts.iter().any(multiple) || three()
    }

    /// Whether a spoken discount is among them, or is the ratio of two amounts.
    pub(super) fn bears_rate(&self, paid: Amount) -> bool {
        if self.rates.contains(&paid) {
            return true;
        }
        // To one percent, as discounts are said.
        let ratio = |low: &Amount, high: &Amount| (low * ONE / high - paid).abs() < ONE / 100;
        let money: Vec<Amount> = self
            .money
            .iter()
            .copied()
            .filter(|amount| *amount > 0)
            .take(MOST_MONEY)
            .collect();
        money
            .iter()
            .any(|high| money.iter().any(|low| low < high && ratio(low, high)))
    }

    fn walk(&mut self, key: &str, value: &Value, left: &mut usize) {
        if *left == 0 {
            return;
        }
        *left -= 1;
        match value {
            Value::Object(fields) => fields.iter().for_each(|(key, value)| {
                self.text(key, key);
                self.walk(key, value, left);
            }),
            Value::Array(items) => items.iter().for_each(|item| self.walk(key, item, left)),
            Value::String(text) => self.text(key, text),
            Value::Number(written) => {
                let written: Vec<char> = written.to_string().chars().collect();
                if let Some(number) =
                    number(&written, 0).filter(|number| number.end == written.len())
                {
                    self.number(key, number.readings[0]);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn number(&mut self, key: &str, amount: Amount) {
        let key = key.to_lowercase();
        let among = |parts: &[&str]| parts.iter().any(|part| key.contains(part));
        if among(RATE_KEYS) {
            self.rate(amount);
        }
        if among(MONEY_KEYS) {
            self.money.insert(amount);
        }
        if !among(OTHER_KEYS) {
            self.literal.insert(amount);
        }
    }

    /// 0.8, 8, 80 or 20 of a discount field: paid or taken off, nobody says which.
    fn rate(&mut self, amount: Amount) {
        let mut add = |paid: Amount| {
            if (1..ONE).contains(&paid) {
                self.rates.insert(paid);
                self.rates.insert(ONE - paid);
            }
        };
        match amount {
            value if value < ONE => add(value),
            value if value < 10 * ONE => {
                add(value / 10);
                add(value / 100);
            }
            value => add(value / 100),
        }
    }

    fn text(&mut self, key: &str, text: &str) {
        for claim in claims(text) {
            match claim {
                Claim::Price { readings, .. } => self.money.extend(readings),
                Claim::Rate { paid, .. } => {
                    self.rates.insert(paid);
                }
            }
        }
        let chars: Vec<char> = text.chars().collect();
        if let Some(number) = number(&chars, 0).filter(|number| number.end == chars.len()) {
            self.number(key, number.readings[0]);
        }
    }
}

fn share(amount: Amount, paid: Amount) -> Amount {
    let exact = i128::from(amount) * i128::from(paid) / i128::from(ONE);
    Amount::try_from(exact).unwrap_or(Amount::MAX)
}
