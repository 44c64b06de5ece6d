//! Filters and methods that make much out of little, refused before they do.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use super::limits;

/// Widest field, longest batch or deepest indent that a template may ask for.
const WIDTH: usize = 1000;

/// Refuses calls whose result is longer than the sum of what they are given, where it is longer than a value may be.
pub(super) fn check_growth(name: &str, args: &[Value]) -> Result<(), Error> {
    let text = |at: usize| args.get(at).and_then(Value::as_str).unwrap_or_default();
    let size = match name {
        "replace" => {
            let found = text(0).matches(text(1)).count();
            text(0).len() + found.saturating_mul(text(2).len())
        }
        "join" => {
            // As a filter the list comes first, as a method the separator; a text is a list of its characters.
            let items = |arg: &Value| match arg.as_str() {
                Some(text) => text.len(),
                None => arg.len().unwrap_or(limits::VALUE / limits::ITEM),
            };
            let [first, second] = [args.first(), args.get(1)].map(|arg| arg.map_or(0, items));
            match args.first().and_then(Value::as_str) {
                Some(_) => first.saturating_mul(second),
                None => first.saturating_mul(text(1).len()),
            }
        }
        "indent" => (text(0).lines().count() + 1).saturating_mul(widest(args)?),
        "batch" | "slice" => widest(args)?,
        "split" => match args.get(1).and_then(Value::as_str) {
            Some(separator) => text(0).matches(separator).count() * limits::ITEM,
            None => text(0).split_whitespace().count() * limits::ITEM,
        },
        "lines" | "splitlines" => text(0).lines().count() * limits::ITEM,
        "list" | "sort" | "unique" | "reverse" => text(0).chars().count() * limits::ITEM,
        "format" => return check_widths(text(0)),
        "sum" => return check_numbers(args.first()),
        _ => 0,
    };
    if size > limits::VALUE {
        return Err(limits::exceeded("the size of a value"));
    }
    Ok(())
}

/// The largest number that a filter is given, by position or by name; its own default is smaller than eight.
fn widest(args: &[Value]) -> Result<usize, Error> {
    let mut widest = 8;
    for arg in args.iter().skip(1) {
        let named = arg
            .is_kwargs()
            .then(|| arg.try_iter())
            .transpose()?
            .into_iter()
            .flatten();
        let named = named.filter_map(|name| arg.get_item(&name).ok());
        for number in named
            .chain([arg.clone()])
            .filter(|value| value.kind() == ValueKind::Number)
        {
            match number.as_usize() {
                Some(number) if number <= WIDTH => widest = widest.max(number),
                _ => return Err(limits::exceeded(format!("the number {number}"))),
            }
        }
    }
    Ok(widest)
}

/// Refuses format strings that name a width of more than three digits or take it from an argument.
pub(super) fn check_widths(format: &str) -> Result<(), Error> {
    let mut digits = 0;
    for c in format.chars() {
        digits = if c.is_ascii_digit() { digits + 1 } else { 0 };
        if digits > 3 {
            return Err(limits::exceeded("the width of a format"));
        }
    }
    Ok(())
}

fn check_numbers(list: Option<&Value>) -> Result<(), Error> {
    for item in list.map(Value::try_iter).transpose()?.into_iter().flatten() {
        if !matches!(item.kind(), ValueKind::Number | ValueKind::Bool) {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                "sum of values that are not numbers",
            ));
        }
    }
    Ok(())
}
