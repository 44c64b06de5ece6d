//! JSON Schema 2020-12, compiled at load: local references only, patterns of the linear engine, bounded depth and size.
//! What could loop, explode or never be met is refused here, not found on air.

mod graph;
mod sense;

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";
const MOST_BYTES: usize = 64 << 10;
const MOST_DEPTH: usize = 64;
const MOST_NODES: usize = 4_000;
/// Most bytes that one compiled pattern may take.
const PATTERN_BYTES: usize = 256 << 10;

/// What constrained decoding cannot hold a model to; checked on the finished value.
const UNENFORCED: &[&str] = &[
    "not",
    "if",
    "then",
    "else",
    "oneOf",
    "multipleOf",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
];

/// A compiled schema and its text. Cheap to clone.
#[derive(Clone)]
pub struct Schema {
    value: Arc<Value>,
    validator: Arc<jsonschema::Validator>,
}

/// Where something is wrong, and what: of a schema, or of a value that should fit one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", if path.is_empty() { "(root)" } else { path })]
pub struct Fault {
    /// A JSON pointer; empty for the whole.
    pub path: String,
    /// What is wrong.
    pub reason: String,
}

impl Fault {
    fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            reason: reason.into(),
        }
    }
}

impl Schema {
    /// Compiles a schema of any type.
    ///
    /// # Errors
    /// Names the place in the schema and why it is refused.
    pub fn compile(schema: &Value) -> Result<Self, Fault> {
        bounds(schema)?;
        if let Some(draft) = schema.get("$schema")
            && draft.as_str().map(|draft| draft.trim_end_matches('#')) != Some(DRAFT)
        {
            return Err(Fault::new(
                "/$schema",
                format!("is {draft}, must be {DRAFT:?} or absent"),
            ));
        }
        // First what the standard allows, so that the walks below meet no odd types.
        jsonschema::draft202012::meta::validate(schema)
            .map_err(|error| Fault::new(error.instance_path().to_string(), error.to_string()))?;
        graph::check(schema)?;
        sense::check(schema)?;
        let schema = &spelt_out(schema);
        let validator = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .with_pattern_options(
                jsonschema::PatternOptions::regex()
                    .size_limit(PATTERN_BYTES)
                    .dfa_size_limit(PATTERN_BYTES),
            )
            .offline()
            .build(schema)
            .map_err(|error| Fault::new(error.instance_path().to_string(), error.to_string()))?;
        Ok(Self {
            value: Arc::new(schema.clone()),
            validator: Arc::new(validator),
        })
    }

    /// Compiles the schema of a tool's arguments: an object. Absent, null and `{}` mean no arguments.
    ///
    /// # Errors
    /// As [`Schema::compile`], and for what is no object schema.
    pub fn object(schema: Option<&Value>) -> Result<Self, Fault> {
        let none = json!({"type": "object", "properties": {}});
        let mut schema = match schema {
            None | Some(Value::Null) => none,
            Some(Value::Object(fields)) if fields.is_empty() => none,
            Some(Value::Object(fields)) => Value::Object(fields.clone()),
            Some(other) => {
                return Err(Fault::new(
                    "",
                    format!("is {}, must be an object", word(other)),
                ));
            }
        };
        if let Value::Object(fields) = &mut schema {
            objectify(fields)?;
        }
        Self::compile(&schema)
    }

    /// The schema as it was compiled.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Whether `value` fits.
    ///
    /// # Errors
    /// The first fault, with the pointer to it. It quotes the value: not for logs.
    pub fn check(&self, value: &Value) -> Result<(), Fault> {
        self.validator
            .validate(value)
            .map_err(|error| Fault::new(error.instance_path().to_string(), error.to_string()))
    }

    /// Pointer and keyword of all that constrained decoding cannot enforce.
    #[must_use]
    pub fn unenforced(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        graph::each(&self.value, &mut |place, fields| {
            let here = fields
                .keys()
                .filter(|key| UNENFORCED.contains(&key.as_str()));
            found.extend(here.map(|key| (place.to_owned(), key.clone())));
        });
        found
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.value).finish()
    }
}

/// Clients and templates expect to see the type and the properties of a tool's arguments.
fn objectify(fields: &mut Map<String, Value>) -> Result<(), Fault> {
    match fields.get("type") {
        Some(Value::String(kind)) if kind == "object" => {}
        Some(other) => {
            return Err(Fault::new(
                "/type",
                format!("is {other}, must be \"object\""),
            ));
        }
        None => {
            fields.insert("type".to_owned(), json!("object"));
        }
    }
    fields.entry("properties").or_insert_with(|| json!({}));
    Ok(())
}

/// The empty reference means the root; the validator takes it for nothing.
fn spelt_out(schema: &Value) -> Value {
    let mut places = Vec::new();
    graph::each(schema, &mut |place, fields| {
        if fields.get("$ref").and_then(Value::as_str) == Some("") {
            places.push(format!("{place}/$ref"));
        }
    });
    let mut schema = schema.clone();
    for place in places {
        if let Some(reference) = schema.pointer_mut(&place) {
            *reference = json!("#");
        }
    }
    schema
}

/// Size and depth, before anything walks it by recursion.
fn bounds(schema: &Value) -> Result<(), Fault> {
    let mut stack = vec![(schema, 1)];
    let mut nodes = 0;
    while let Some((value, depth)) = stack.pop() {
        nodes += 1;
        if depth > MOST_DEPTH {
            return Err(Fault::new(
                "",
                format!("is nested more than {MOST_DEPTH} deep"),
            ));
        }
        if nodes > MOST_NODES {
            return Err(Fault::new("", format!("has more than {MOST_NODES} values")));
        }
        match value {
            Value::Array(items) => stack.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => stack.extend(fields.values().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    let bytes = schema.to_string().len();
    if bytes > MOST_BYTES {
        return Err(Fault::new(
            "",
            format!("is {bytes} bytes, at most {MOST_BYTES}"),
        ));
    }
    match schema {
        Value::Object(_) | Value::Bool(_) => Ok(()),
        other => Err(Fault::new(
            "",
            format!("is {}, must be an object", word(other)),
        )),
    }
}

fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
