//! The functions, filters and methods that templates call, each within the limits of [`super::limits`].

use std::fmt::Write;

use minijinja::value::{Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, Value, filters};
use minijinja_contrib::pycompat;

use super::growth::{check_growth, check_widths};
use super::limits::{self, Budget};
use super::{json, operators, spelled};

/// What a namespace counts for, so that a rendering makes a thousand at most: they can be put into each other one by
/// one, without a check in between.
const NAMESPACE: usize = 64 << 10;

/// What `raise_exception` was called with, as the source of the engine's error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Refusal(pub(super) String);

/// An engine that renders as the reference does and knows what its templates call.
pub(super) fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    env.set_trim_blocks(true);
    env.set_lstrip_blocks(true);
    env.set_recursion_limit(100);
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    env.set_formatter(write_value);
    env.set_unknown_method_callback(call_method);
    env.remove_global("debug");
    env.remove_filter("pprint");
    env.add_function("raise_exception", raise_exception);
    env.add_function("strftime_now", strftime_now);
    env.add_function(operators::TIMES, times);
    env.add_filter(operators::ADDEND, addend);
    env.add_filter(operators::TEXT, text_operand);
    env.add_filter(operators::LISTED, listed);
    let made = [
        (
            "namespace",
            Value::from_function(minijinja::functions::namespace),
            NAMESPACE,
        ),
        ("dict", Value::from_function(minijinja::functions::dict), 0),
    ];
    for (name, function, size) in made {
        env.add_function(name, move |state: &State<'_, '_>, args: Rest<Value>| {
            let held = args.iter().map(limits::measure).sum::<Result<usize, _>>()?;
            Budget::charge(state, held + size)?;
            function.call(state, &args)
        });
    }
    for (name, filter) in builtin_filters() {
        env.add_filter(name, move |state: &State<'_, '_>, args: Rest<Value>| {
            limited(state, name, &args, || filter.call(state, &args))
        });
    }
    env
}

/// The engine's own filters that can make a value longer than what they are given, or take long over one; the rest
/// look at single values.
fn builtin_filters() -> Vec<(&'static str, Value)> {
    macro_rules! named {
        ($($name:literal: $filter:expr),* $(,)?) => { vec![$(($name, Value::from_function($filter))),*] };
    }
    named![
        "safe": filters::safe, "escape": filters::escape, "e": filters::escape,
        "lower": filters::lower, "upper": filters::upper, "title": filters::title, "capitalize": filters::capitalize,
        "replace": filters::replace, "trim": filters::trim, "split": filters::split, "lines": filters::lines,
        "join": filters::join, "indent": filters::indent, "string": string, "format": filters::format,
        "items": filters::items, "dictsort": filters::dictsort, "sort": filters::sort, "unique": filters::unique,
        "groupby": filters::groupby, "reverse": filters::reverse, "list": filters::list, "batch": filters::batch,
        "slice": filters::slice, "map": filters::map, "select": filters::select, "reject": filters::reject,
        "selectattr": filters::selectattr, "rejectattr": filters::rejectattr, "chain": filters::chain,
        "zip": filters::zip, "sum": filters::sum, "min": filters::min, "max": filters::max,
        "tojson": json::tojson,
    ]
}

/// Calls a filter or method: measures what goes in, refuses what would come out too long, charges what came out.
fn limited(
    state: &State<'_, '_>,
    name: &str,
    args: &[Value],
    call: impl FnOnce() -> Result<Value, Error>,
) -> Result<Value, Error> {
    Budget::charge(state, 0)?;
    for arg in args.iter().filter(|arg| !arg.is_kwargs()) {
        limits::measure(arg)?;
    }
    check_growth(name, args)?;
    let result = listed(call()?)?;
    Budget::charge(state, limits::measure(&result)?)?;
    Ok(result)
}

/// Methods as Python's strings, lists and mappings have them.
fn call_method(
    state: &State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let mut all = Vec::with_capacity(args.len() + 1);
    all.push(value.clone());
    all.extend_from_slice(args);
    // An empty text is found without end.
    if method == "count" && args.first().and_then(Value::as_str) == Some("") {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "count of an empty text",
        ));
    }
    limited(state, method, &all, || {
        pycompat::unknown_method_callback(state, value, method, args)
    })
}

/// Writes what `{{ }}` holds, in Python's spelling.
fn write_value(out: &mut Output<'_>, state: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    Budget::charge(state, limits::measure(value)?)?;
    match value.as_str() {
        Some(text) => out.write_str(text)?,
        None => out.write_str(&spelled::text(value))?,
    }
    Ok(())
}

fn string(value: &Value) -> Value {
    match value.as_str() {
        Some(_) => value.clone(),
        None => Value::from(spelled::text(value)),
    }
}

/// A list of its own instead of a view of another, which could be a view of a third and so on without end.
fn listed(value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            limits::measure(&value)?;
            Ok(value.try_iter()?.collect())
        }
        _ => Ok(value),
    }
}

/// An operand of `+`, or a list or mapping that the template makes.
fn addend(state: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    Budget::charge(state, limits::measure(&value)?)?;
    Ok(value)
}

/// An operand of `~`, as text.
fn text_operand(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
    Budget::charge(state, limits::measure(value)?)?;
    Ok(string(value))
}

/// The operator `*`: products of numbers, and repetitions of texts and lists of a bounded length.
fn times(state: &State<'_, '_>, left: &Value, right: &Value) -> Result<Value, Error> {
    let repeats = |value: &Value| {
        matches!(
            value.kind(),
            ValueKind::String | ValueKind::Seq | ValueKind::Iterable
        )
    };
    let (repeated, count) = match (repeats(left), repeats(right)) {
        (true, false) => (left, right),
        (false, true) => (right, left),
        _ => return product(left, right),
    };
    let count = match i64::try_from(count.clone()) {
        Ok(count) => usize::try_from(count).unwrap_or(0),
        Err(_) => return product(left, right),
    };
    let size = limits::measure(repeated)?.saturating_mul(count);
    Budget::charge(state, size)?;
    if let Some(text) = repeated.as_str() {
        return Ok(Value::from(text.repeat(count)));
    }
    let items: Vec<Value> = repeated.try_iter()?.collect();
    Ok((0..count).flat_map(|_| items.iter().cloned()).collect())
}

fn product(left: &Value, right: &Value) -> Result<Value, Error> {
    let whole = |value: &Value| {
        i64::try_from(value.clone())
            .ok()
            .filter(|_| value.is_integer())
    };
    if let (Some(left), Some(right)) = (whole(left), whole(right)) {
        let product = left
            .checked_mul(right)
            .ok_or_else(|| limits::exceeded("a product"))?;
        return Ok(Value::from(product));
    }
    match (f64::try_from(left.clone()), f64::try_from(right.clone())) {
        (Ok(left), Ok(right)) => Ok(Value::from(left * right)),
        _ => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!(
                "tried to multiply values of types {} and {}",
                left.kind(),
                right.kind()
            ),
        )),
    }
}

/// Refuses the conversation, in the template's own words.
fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Refusal(message)))
}

/// The local time, formatted as C's `strftime` does.
fn strftime_now(format: &str) -> Result<Value, Error> {
    check_widths(format)?;
    let mut text = String::new();
    write!(text, "{}", chrono::Local::now().format(format)).map_err(|_| {
        Error::new(
            ErrorKind::InvalidOperation,
            format!("`{format}` is no format of strftime_now"),
        )
    })?;
    Ok(Value::from(text))
}
