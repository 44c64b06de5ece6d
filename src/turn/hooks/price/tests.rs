//! Which prices may be said.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::unfounded;

fn facts() -> Value {
    json!({
        "name": "trail jacket", "price": "¥199", "list_price": 249, "stock": 77,
        "promotion": "Buy two for 20% off, 满300减30元", "shipping": 12.5, "sizes": [36, 37],
    })
}

fn check(text: &str, facts: &Value) -> Option<String> {
    unfounded(text, facts, &[])
}

#[test]
fn prices_of_the_facts_may_be_said_in_figures_and_in_words() {
    let founded = [
        "It's ¥199 today.",
        "只要199元！",
        "一百九十九元",
        "一百九十九块钱",
        "one hundred ninety-nine yuan",
        "one hundred and ninety nine yuan",
        "原价249，现价199",
        "二百四十九",
        "二四九元",
        "满三百减三十元",
        "shipping is $12.50",
        "twelve dollars and fifty cents",
        "十二块五",
        "十二块五毛",
        "12元5角",
        "￥１９９",
        "199.00元",
        "RMB 199",
        "199 RMB",
        "two hundred forty nine dollars",
        "no price here",
        "We have 5 colours",
        "两块手表",
        "3块毛巾",
        "it weighs 300g",
        "第一名",
        "百分之百纯棉",
        "100% cotton",
    ];
    for text in founded {
        assert_eq!(check(text, &facts()), None, "{text}");
    }
}

#[test]
fn sums_differences_multiples_and_discounts_are_recomputed() {
    let founded = [
        "two of them are 398 yuan",
        "两件398元",
        "together with the list price that is ¥448",
        "you save 50 yuan",
        "立省五十元",
        "with shipping ¥211.5",
        "20% off makes it ¥159.2",
        "打八折",
        "八折就是159元",
        "8折后159.2元",
        "80折",
        "two at 20 percent off: 318.4 yuan",
        "减三十元后169元",
        "that is 20% off",
    ];
    for text in founded {
        assert_eq!(check(text, &facts()), None, "{text}");
    }
}

#[test]
fn invented_prices_and_discounts_are_found() {
    let invented = [
        ("only $99 today", "$99"),
        ("只要99元", "99元"),
        ("九十九块钱", "九十九块钱"),
        ("九十九块九", "九十九块九"),
        ("ninety-nine dollars", "ninety-nine dollars"),
        (
            "nineteen ninety-nine dollars",
            "nineteen ninety-nine dollars",
        ),
        ("到手价19.9", "到手价19.9"),
        ("￥９９", "¥99"),
        ("打五折", "五折"),
        ("五五折", "五五折"),
        ("半价！", "半价"),
        ("half price", "half price"),
        ("50% off", "50%"),
        ("fifty percent off", "fifty percent"),
        ("it costs 77", "costs 77"),
        ("满200减77元", "77元"),
        ("1万2千元", "1万2千元"),
        ("三百五十块", "三百五十块"),
        ("99 cents", "99 cents"),
        ("五毛钱", "五毛"),
        ("seventy-seven bucks", "seventy-seven bucks"),
        ("一百九十八元", "一百九十八元"),
        ("198.99 yuan", "198.99 yuan"),
    ];
    for (text, said) in invented {
        assert_eq!(check(text, &facts()).as_deref(), Some(said), "{text}");
    }
}

#[test]
fn tool_results_bear_prices_out_too() {
    let results = [json!({"items": [{"sku": "A1", "price": 88}]})];
    assert_eq!(unfounded("it is $88", &Value::Null, &results), None);
    assert!(unfounded("it is $89", &Value::Null, &results).is_some());
    assert!(unfounded("it is $88", &Value::Null, &[]).is_some());
}

#[test]
fn numbers_that_are_no_money_bear_nothing_out() {
    assert!(check("it is $77", &facts()).is_some(), "77 is the stock");
}

proptest! {
    /// What the facts say is never blocked, and a cent more or less is.
    #[test]
    fn exactly_the_facts_price_is_borne_out(cents in 101i64..10_000_000) {
        let say = |cents: i64| format!("${}.{:02}", cents / 100, cents % 100);
        let facts = json!({"price": say(cents)});
        prop_assert_eq!(check(&format!("It is {}.", say(cents)), &facts), None);
        let dearer = format!("It is {}.", say(cents + 1));
        prop_assert!(check(&dearer, &facts).is_some(), "{}", dearer);
    }

    #[test]
    fn no_text_is_too_odd(text in "[0-9.,$¥%元块毛角分折万千百十一二三零点a-z ]{0,40}") {
        let _ = check(&text, &facts());
    }
}
