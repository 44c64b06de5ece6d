//! Values as Python spells them, since templates are written for it.

use std::fmt::Write;

use minijinja::Value;
use minijinja::value::ValueKind;

/// What `{{ value }}` writes. Undefined values are nothing.
pub(super) fn text(value: &Value) -> String {
    match (value.as_str(), value.kind()) {
        (Some(text), _) => text.to_owned(),
        (None, ValueKind::Undefined) => String::new(),
        _ => {
            let mut text = String::new();
            write_value(&mut text, value);
            text
        }
    }
}

fn write_value(text: &mut String, value: &Value) {
    match value.kind() {
        ValueKind::None => text.push_str("None"),
        ValueKind::Bool if value.is_true() => text.push_str("True"),
        ValueKind::Bool => text.push_str("False"),
        ValueKind::Number => text.push_str(&number(value)),
        ValueKind::String => write_quoted(text, value.as_str().unwrap_or_default()),
        ValueKind::Seq | ValueKind::Iterable => {
            write_items(text, value, ['[', ']'], |text, item| {
                write_value(text, item)
            });
        }
        ValueKind::Map => write_items(text, value, ['{', '}'], |text, key| {
            write_value(text, key);
            text.push_str(": ");
            write_value(text, &value.get_item(key).unwrap_or_default());
        }),
        _ => text.push_str(&value.to_string()),
    }
}

fn write_items(
    text: &mut String,
    value: &Value,
    brackets: [char; 2],
    write: impl Fn(&mut String, &Value),
) {
    text.push(brackets[0]);
    for (index, item) in value.try_iter().into_iter().flatten().enumerate() {
        if index > 0 {
            text.push_str(", ");
        }
        write(text, &item);
    }
    text.push(brackets[1]);
}

/// In single quotes, unless it holds some and no double ones.
fn write_quoted(text: &mut String, quoted: &str) {
    let quote = if quoted.contains('\'') && !quoted.contains('"') {
        '"'
    } else {
        '\''
    };
    text.push(quote);
    for c in quoted.chars() {
        match c {
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\\' => text.push_str("\\\\"),
            _ if c == quote => text.extend(['\\', c]),
            '\0'..='\u{1f}' | '\u{7f}' => {
                write!(text, "\\x{:02x}", u32::from(c))
                    .expect("a string takes all that is written");
            }
            _ => text.push(c),
        }
    }
    text.push(quote);
}

/// Integers as they are, others in the shortest form that reads back the same.
pub(super) fn number(value: &Value) -> String {
    match f64::try_from(value.clone()) {
        Ok(float) if !value.is_integer() && float.is_finite() => {
            let text = format!("{float:?}");
            let Some((digits, exponent)) = text.split_once('e') else {
                return text;
            };
            match exponent.strip_prefix('-') {
                Some(exponent) => format!("{digits}e-{exponent:0>2}"),
                None => format!("{digits}e+{exponent:0>2}"),
            }
        }
        Ok(float) if float.is_infinite() => if float > 0.0 { "inf" } else { "-inf" }.to_owned(),
        Ok(float) if float.is_nan() => "nan".to_owned(),
        _ => value.to_string(),
    }
}
