//! The engine that prompts run in: a short list of filters and tests, no functions, no escapes, limits on all of it.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior, Value, filters, tests,
};

use super::budget;

/// Every filter that prompts may use.
pub(super) const FILTERS: [&str; 13] = [
    "default", "first", "int", "items", "join", "last", "length", "lower", "replace", "round",
    "tojson", "trim", "upper",
];

/// Every test that prompts may use.
pub(super) const TESTS: [&str; 7] = [
    "defined",
    "undefined",
    "none",
    "string",
    "number",
    "sequence",
    "mapping",
];

/// An engine without templates.
pub(super) fn environment() -> Environment<'static> {
    let mut env = Environment::empty();
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    env.set_fuel(Some(budget::STEPS));
    env.set_trim_blocks(true);
    env.set_lstrip_blocks(true);
    env.add_filter("default", filters::default);
    env.add_filter("first", filters::first);
    env.add_filter("int", filters::int);
    env.add_filter("items", filters::items);
    env.add_filter("join", join);
    env.add_filter("last", filters::last);
    env.add_filter("length", filters::length);
    env.add_filter("lower", |state: &State<'_, '_>, text: &str| {
        made(state, text.len(), || text.to_lowercase())
    });
    env.add_filter("replace", replace);
    env.add_filter("round", filters::round);
    env.add_filter("tojson", tojson);
    env.add_filter("trim", |state: &State<'_, '_>, text: &str| {
        made(state, text.len(), || text.trim().to_owned())
    });
    env.add_filter("upper", |state: &State<'_, '_>, text: &str| {
        made(state, text.len(), || text.to_uppercase())
    });
    env.add_test("defined", tests::is_defined);
    env.add_test("undefined", tests::is_undefined);
    env.add_test("none", tests::is_none);
    env.add_test("string", tests::is_string);
    env.add_test("number", tests::is_number);
    env.add_test("sequence", tests::is_sequence);
    env.add_test("mapping", tests::is_mapping);
    env
}

fn made(
    state: &State<'_, '_>,
    size: usize,
    make: impl FnOnce() -> String,
) -> Result<String, Error> {
    budget::charge(state, size)?;
    Ok(make())
}

fn join(state: &State<'_, '_>, list: &Value, between: Option<&str>) -> Result<String, Error> {
    if !matches!(list.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("join of {}, not of a list", list.kind()),
        ));
    }
    let mut text = String::new();
    for (index, item) in list.try_iter()?.enumerate() {
        let item = item.to_string();
        let between = between.filter(|_| index > 0).unwrap_or_default();
        budget::charge(state, between.len() + item.len())?;
        text.push_str(between);
        text.push_str(&item);
    }
    Ok(text)
}

fn replace(state: &State<'_, '_>, text: &str, from: &str, to: &str) -> Result<String, Error> {
    let places = text.matches(from).count();
    made(
        state,
        text.len().saturating_add(places.saturating_mul(to.len())),
        || text.replace(from, to),
    )
}

fn tojson(state: &State<'_, '_>, value: &Value, named: Kwargs) -> Result<String, Error> {
    // The models' own templates ask for raw letters in so many words; here there is nothing else.
    if named.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false) {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "tojson writes raw letters; leave ensure_ascii out",
        ));
    }
    named.assert_all_used()?;
    let value = serde_json::to_value(value)
        .map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
    let text = super::to_json(&value);
    budget::charge(state, text.len())?;
    Ok(text)
}
