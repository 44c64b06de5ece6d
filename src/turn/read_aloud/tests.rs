//! What is said for figures: tables, and what holds for every text.

use proptest::prelude::*;

use super::{Language, normalise};

fn chinese(text: &str) -> String {
    normalise(text, Language::Chinese)
}

fn english(text: &str) -> String {
    normalise(text, Language::English)
}

/// As written and as said.
const CHINESE: &[(&str, &str)] = &[
    (
        "这款到手价19.9元，第二件半价只要9.95元！",
        "这款到手价十九点九元，第二件半价只要九点九五元！",
    ),
    ("满3.5折再减￥1,299.00。", "满三五折再减一千二百九十九元。"),
    ("¥99", "九十九元"),
    ("￥９９", "九十九元"),
    ("$20", "二十美元"),
    ("¥99-199", "九十九到一百九十九元"),
    ("¥99~¥199", "九十九到一百九十九元"),
    ("199元", "一百九十九元"),
    ("199.00元", "一百九十九元"),
    ("2元", "两元"),
    ("19块9", "十九块九"),
    ("¥1.2万", "一点二万元"),
    ("¥99元", "九十九元"),
    ("8折", "八折"),
    ("85折", "八五折"),
    ("8.5折", "八五折"),
    ("7-8折", "七到八折"),
    ("20%", "百分之二十"),
    ("10%-20%", "百分之十到百分之二十"),
    ("99.9%", "百分之九十九点九"),
    ("５％", "百分之五"),
    ("3-5天发货", "三到五天发货"),
    ("36~42码", "三十六到四十二码"),
    ("3到5天", "三到五天"),
    ("1-2个", "一到两个"),
    ("2026-12-01", "二零二六年十二月一日"),
    ("2026年12月1日", "二零二六年十二月一日"),
    ("12月1日", "十二月一日"),
    ("2月2日", "二月二日"),
    ("2026年", "二零二六年"),
    ("10年", "十年"),
    ("2年", "两年"),
    ("5月20号", "五月二十号"),
    ("20:00", "二十点"),
    ("8:30", "八点三十分"),
    ("20:05开播", "二十点零五分开播"),
    ("2:00", "两点"),
    ("12:30:15", "十二点三十分十五秒"),
    ("20:00-22:00", "二十点到二十二点"),
    ("2点", "两点"),
    ("13800138000", "幺三八零零幺三八零零零"),
    ("138-0013-8000", "幺三八零零幺三八零零零"),
    ("400-800-8888", "四零零八零零八八八八"),
    ("010-12345678", "零幺零幺二三四五六七八"),
    ("88VIP", "八八VIP"),
    ("iPhone15", "iPhone十五"),
    ("iPhone 15", "iPhone 十五"),
    ("RTX4090", "RTX四零九零"),
    ("WH-1000XM5", "WH-一零零零XM五"),
    ("5G", "五G"),
    ("A4纸", "A四纸"),
    ("500g", "五百克"),
    ("500G", "五百G"),
    ("2.5kg", "二点五公斤"),
    ("30x40cm", "三十乘四十厘米"),
    ("100ml", "一百毫升"),
    ("-5℃", "零下五摄氏度"),
    ("25℃", "二十五摄氏度"),
    ("5000mAh", "五千毫安时"),
    ("3-5kg", "三到五公斤"),
    ("10㎡", "十平方米"),
    ("3.14", "三点一四"),
    ("1,299", "一千二百九十九"),
    ("10000", "一万"),
    ("12345", "一万两千三百四十五"),
    ("100050", "十万零五十"),
    ("20000", "两万"),
    ("101", "一百零一"),
    ("1001", "一千零一"),
    ("110", "一百一十"),
    ("0", "零"),
    ("007", "零零七"),
    ("123456789", "一二三四五六七八九"),
    ("2件", "两件"),
    ("12件", "十二件"),
    ("22件", "二十二件"),
    ("1/2", "二分之一"),
    ("3+1", "三加一"),
    ("第2", "第二"),
    ("第2件", "第二件"),
    ("3½杯", "三 二分之一杯"),
    ("①②", "一 二"),
    ("10000000", "一千万"),
    ("1.2.3", "一点二点三"),
    ("-3", "负三"),
    ("①", "一"),
    ("没有数字", "没有数字"),
];

#[test]
fn chinese_table() {
    for (text, said) in CHINESE {
        assert_eq!(chinese(text), *said, "{text}");
    }
}

/// As written and as said.
const ENGLISH: &[(&str, &str)] = &[
    ("$19.99", "nineteen dollars and ninety-nine cents"),
    ("$20", "twenty dollars"),
    ("$1", "one dollar"),
    ("$0.99", "ninety-nine cents"),
    ("$1.01", "one dollar and one cent"),
    ("$1,299.00", "one thousand two hundred ninety-nine dollars"),
    ("$10-$20", "ten to twenty dollars"),
    ("$10 - 20", "ten to twenty dollars"),
    ("¥199", "one hundred ninety-nine yuan"),
    ("$1.5M", "one point five million dollars"),
    ("$20k", "twenty thousand dollars"),
    ("£5.50", "five pounds and fifty pence"),
    ("US$30", "thirty dollars"),
    ("$19.5", "nineteen dollars and fifty cents"),
    ("20% off", "twenty percent off"),
    ("10-20% off", "ten to twenty percent off"),
    ("99.9%", "ninety-nine point nine percent"),
    ("3-5 days", "three to five days"),
    ("sizes 36–42", "sizes thirty-six to forty-two"),
    ("3-5kg", "three to five kilograms"),
    ("2026-12-01", "December first, twenty twenty-six"),
    ("12/25/2026", "December twenty-fifth, twenty twenty-six"),
    ("in 2026", "in twenty twenty-six"),
    ("2026 units", "two thousand twenty-six units"),
    ("May 2005", "May two thousand five"),
    (
        "December 25, 2026",
        "December twenty-five, twenty twenty-six",
    ),
    ("8:30 pm", "eight thirty pm"),
    ("8:00", "eight o'clock"),
    ("8:00pm", "eight pm"),
    ("20:05", "twenty oh five"),
    (
        "555-123-4567",
        "five five five, one two three, four five six seven",
    ),
    (
        "(call 555-1234)",
        "(call five five five, one two three four)",
    ),
    ("88VIP", "eight eight VIP"),
    ("A15", "A fifteen"),
    ("RTX4090", "RTX four zero nine zero"),
    ("iPhone 15", "iPhone fifteen"),
    ("5G", "five G"),
    ("500g", "five hundred grams"),
    ("1 kg", "one kilogram"),
    ("30x40 cm", "thirty by forty centimeters"),
    ("-5°C", "minus five degrees Celsius"),
    ("25°C", "twenty-five degrees Celsius"),
    ("5000mAh", "five thousand milliamp hours"),
    ("16GB", "sixteen gigabytes"),
    ("3.5", "three point five"),
    ("1,299", "one thousand two hundred ninety-nine"),
    ("0", "zero"),
    ("007", "zero zero seven"),
    ("1000000", "one million"),
    ("12345678", "one two three four five six seven eight"),
    ("1st", "first"),
    ("22nd", "twenty-second"),
    ("30th", "thirtieth"),
    ("1/2", "one half"),
    ("24/7", "twenty-four seven"),
    ("50+ colours", "fifty plus colours"),
    ("#1", "number one"),
    ("the 90s", "the nineties"),
    ("１２", "twelve"),
    ("v1.2.3", "v one point two point three"),
    ("no numbers", "no numbers"),
];

#[test]
fn english_table() {
    for (text, said) in ENGLISH {
        assert_eq!(english(text), *said, "{text}");
    }
}

#[test]
fn the_language_follows_the_text_and_the_request() {
    let table = [
        (None, "你好 5", Language::Chinese),
        (None, "hello 5", Language::English),
        (Some("en"), "你好", Language::Chinese),
        (Some("zh-CN"), "iPhone 15", Language::Chinese),
        (Some("de"), "5 Stück", Language::Other),
        (Some("ja"), "5個", Language::Other),
    ];
    for (code, text, language) in table {
        assert_eq!(Language::of(code, text), language, "{code:?} {text}");
    }
}

fn has_digit(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_digit() || matches!(c, '０'..='９'))
}

proptest! {
    #[test]
    fn no_digit_is_left_nothing_gets_lost_and_saying_it_twice_changes_nothing(
        text in "([0-9０-９]{1,5}|[-.,:/%$¥+x*~ #℃元块折年月日号]|[a-zA-Z]{1,3}|[天个件的是]|①|½|²){0,14}",
    ) {
        for language in [Language::English, Language::Chinese] {
            let once = normalise(&text, language);
            prop_assert!(!has_digit(&once), "{} -> {}", text, once);
            prop_assert_eq!(&normalise(&once, language), &once);
            let speakable = |text: &str| text.chars().any(char::is_alphanumeric);
            prop_assert_eq!(speakable(&text), speakable(&once), "{} -> {}", text, once);
        }
    }

    #[test]
    fn any_text_can_be_read(text in "\\PC{0,60}") {
        for language in [Language::English, Language::Chinese] {
            let once = normalise(&text, language);
            prop_assert!(!has_digit(&once), "{} -> {}", text, once);
            prop_assert_eq!(normalise(&once, language), once);
        }
    }
}
