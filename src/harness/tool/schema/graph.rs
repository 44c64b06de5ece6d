//! A schema as a graph: which subschemas look at the same value. A circle of those has no end.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Fault;

/// Keywords whose subschemas look at the same value as their parent.
const SAME_ONE: &[&str] = &["not", "if", "then", "else"];
const SAME_MANY: &[&str] = &["allOf", "anyOf", "oneOf"];
const SAME_NAMED: &[&str] = &["dependentSchemas"];
/// Those whose subschemas look at a part of it, or at nothing.
const PART_ONE: &[&str] = &[
    "items",
    "contains",
    "additionalProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];
const PART_MANY: &[&str] = &["prefixItems"];
const PART_NAMED: &[&str] = &["properties", "patternProperties", "$defs", "definitions"];
/// References that mean something else depending on who asks, and what moves the root that others start from.
const REFUSED: &[&str] = &[
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$recursiveAnchor",
    "$anchor",
    "$vocabulary",
];

/// Calls `visit` with the pointer and fields of every subschema that is an object.
pub(super) fn each<'a>(root: &'a Value, visit: &mut impl FnMut(&str, &'a Map<String, Value>)) {
    let mut stack = vec![(String::new(), root)];
    while let Some((place, schema)) = stack.pop() {
        let Value::Object(fields) = schema else {
            continue;
        };
        visit(&place, fields);
        let from = stack.len();
        for (child, schema, _) in children(&place, fields) {
            stack.push((child, schema));
        }
        stack[from..].reverse();
    }
}

/// Pointer, schema, and whether it looks at the same value.
fn children<'a>(place: &str, fields: &'a Map<String, Value>) -> Vec<(String, &'a Value, bool)> {
    let mut found = Vec::new();
    for (key, value) in fields {
        let here = format!("{place}/{}", escape(key));
        let key = key.as_str();
        let same = SAME_ONE.contains(&key) || SAME_MANY.contains(&key) || SAME_NAMED.contains(&key);
        let one = SAME_ONE.contains(&key) || PART_ONE.contains(&key);
        let many = SAME_MANY.contains(&key) || PART_MANY.contains(&key);
        let named = SAME_NAMED.contains(&key) || PART_NAMED.contains(&key);
        match value {
            _ if one => found.push((here, value, same)),
            Value::Array(items) if many => {
                found.extend(
                    items
                        .iter()
                        .enumerate()
                        .map(|(index, item)| (format!("{here}/{index}"), item, same)),
                );
            }
            Value::Object(items) if named => {
                found.extend(
                    items
                        .iter()
                        .map(|(name, item)| (format!("{here}/{}", escape(name)), item, same)),
                );
            }
            _ => {}
        }
    }
    found
}

/// Every reference is local and leads to a schema, and no schema needs itself to judge a value.
pub(super) fn check(root: &Value) -> Result<(), Fault> {
    let mut edges: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut fault = None;
    each(root, &mut |place, fields| {
        let mut same: Vec<String> = children(place, fields)
            .into_iter()
            .filter_map(|(child, _, same)| same.then_some(child))
            .collect();
        match reference(root, place, fields) {
            Ok(target) => same.extend(target),
            Err(found) => {
                fault.get_or_insert(found);
            }
        }
        edges.insert(place.to_owned(), same);
    });
    if let Some(fault) = fault {
        return Err(fault);
    }
    // A reference may lead to what is a schema only by being referred to; nothing checks those, so they are refused.
    for (place, targets) in &edges {
        for target in targets {
            let known =
                edges.contains_key(target) || root.pointer(target).is_some_and(Value::is_boolean);
            if !known {
                return Err(Fault::new(
                    format!("{place}/$ref"),
                    format!("\"#{target}\" is no schema"),
                ));
            }
        }
    }
    circle(&edges)
}

fn reference(
    root: &Value,
    place: &str,
    fields: &Map<String, Value>,
) -> Result<Option<String>, Fault> {
    if let Some(key) = REFUSED.iter().find(|key| fields.contains_key(**key)) {
        return Err(Fault::new(
            format!("{place}/{key}"),
            "is not supported: use $ref and $defs",
        ));
    }
    if !place.is_empty() && fields.contains_key("$id") {
        return Err(Fault::new(
            format!("{place}/$id"),
            "is allowed at the root only",
        ));
    }
    let Some(target) = fields.get("$ref") else {
        return Ok(None);
    };
    let at = format!("{place}/$ref");
    let text = target.as_str().unwrap_or_default();
    let pointer = match text.strip_prefix('#') {
        Some(pointer) => pointer,
        None if text.is_empty() => "",
        None => {
            return Err(Fault::new(
                at,
                format!("{text:?} is not local: only #/... is followed"),
            ));
        }
    };
    let pointer = percent_decoded(pointer);
    if !(pointer.is_empty() || pointer.starts_with('/')) || root.pointer(&pointer).is_none() {
        return Err(Fault::new(at, format!("{text:?} leads nowhere")));
    }
    Ok(Some(canonical(&pointer)))
}

/// Finds a circle by depth-first search without recursion.
fn circle(edges: &BTreeMap<String, Vec<String>>) -> Result<(), Fault> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        Open,
        Done,
    }
    let mut marks: BTreeMap<&str, Mark> = BTreeMap::new();
    for start in edges.keys() {
        let mut stack = vec![(start.as_str(), 0)];
        while let Some((place, next)) = stack.pop() {
            if next == 0 {
                if marks.contains_key(place) {
                    continue;
                }
                marks.insert(place, Mark::Open);
            }
            let target = edges.get(place).and_then(|targets| targets.get(next));
            let Some(target) = target else {
                marks.insert(place, Mark::Done);
                continue;
            };
            stack.push((place, next + 1));
            if marks.get(target.as_str()) == Some(&Mark::Open) {
                let reason =
                    format!("\"#{target}\" needs itself to judge a value: a circle without an end");
                return Err(Fault::new(place, reason));
            }
            stack.push((target, 0));
        }
    }
    Ok(())
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// The same pointer as [`children`] would spell it.
fn canonical(pointer: &str) -> String {
    let parts = pointer
        .split('/')
        .map(|part| escape(&part.replace("~1", "/").replace("~0", "~")));
    parts.collect::<Vec<_>>().join("/")
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (first, byte) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
