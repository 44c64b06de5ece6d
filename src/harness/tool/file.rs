//! A tool file to a [`Tool`]: every fault with its line, all of them at once.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::json::{self, line_of};
use super::{Kind, Risk, Schema, Tool, http};
use crate::harness::Problem;

const MOST_NAME: usize = 64;
const MOST_DESCRIPTION: usize = 1024;
const TIMEOUT_MS: u64 = 2_000;
const MOST_TIMEOUT_MS: u64 = 30_000;
const FIELDS: &[&str] = &[
    "name",
    "description",
    "input_schema",
    "output_schema",
    "risk",
    "kind",
    "timeout_ms",
    "http",
    "mcp",
];

struct Reader<'a> {
    path: &'a str,
    text: &'a str,
    fields: &'a Map<String, Value>,
    problems: &'a mut Vec<Problem>,
}

pub(super) fn read(path: &str, bytes: &[u8], problems: &mut Vec<Problem>) -> Option<Tool> {
    let value = match json::parse(bytes) {
        Ok(value) => value,
        Err(fault) => {
            problems.push(Problem::at(path, fault.line, fault.reason));
            return None;
        }
    };
    let Value::Object(fields) = &value else {
        problems.push(Problem::of(path, "must be one JSON object"));
        return None;
    };
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let before = problems.len();
    let mut reader = Reader {
        path,
        text,
        fields,
        problems,
    };
    let tool = reader.tool();
    tool.filter(|_| problems.len() == before)
}

impl Reader<'_> {
    fn tool(&mut self) -> Option<Tool> {
        for key in self
            .fields
            .keys()
            .filter(|key| !FIELDS.contains(&key.as_str()))
        {
            self.problem(&[key], format!("{key}: unknown field"));
        }
        let name = self.name();
        let description = self.description();
        let input = self.schema("input_schema", |value| Schema::object(value).map(Some));
        let output = self.schema("output_schema", |value| {
            value.map(Schema::compile).transpose()
        });
        let risk = self.risk();
        let timeout = self.timeout();
        let kind = self.kind(input.as_ref().and_then(Option::as_ref))?;
        if matches!(kind, Kind::Action) && self.fields.contains_key("output_schema") {
            self.problem(
                &["output_schema"],
                "output_schema: an action is done by the front end and has no result".to_owned(),
            );
        }
        Some(Tool {
            name: name?.into(),
            description: description?.into(),
            input: input??,
            output: output?,
            risk,
            kind,
            timeout,
        })
    }

    fn name(&mut self) -> Option<String> {
        let name = self.string("name")?;
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.len() > MOST_NAME || !name.chars().all(fits) {
            let reason = format!("name is {name:?}, must be 1 to {MOST_NAME} of a-z A-Z 0-9 _ -");
            self.problem(&["name"], reason);
            return None;
        }
        let file = self.path.rsplit('/').next().unwrap_or_default();
        if file.strip_suffix(".json") != Some(name.as_str()) {
            self.problem(
                &["name"],
                format!("name is {name:?}, must be the file's: {file}"),
            );
            return None;
        }
        Some(name)
    }

    fn description(&mut self) -> Option<String> {
        let text = self.string("description")?;
        let count = text.chars().count();
        if text.trim().is_empty() || count > MOST_DESCRIPTION {
            let reason = format!(
                "description has {count} characters, must be 1 to {MOST_DESCRIPTION} and not blank"
            );
            self.problem(&["description"], reason);
            return None;
        }
        Some(text)
    }

    fn schema(
        &mut self,
        field: &str,
        compile: impl Fn(Option<&Value>) -> Result<Option<Schema>, super::Fault>,
    ) -> Option<Option<Schema>> {
        match compile(self.fields.get(field)) {
            Ok(schema) => Some(schema),
            Err(fault) => {
                let mut keys = vec![field];
                keys.extend(fault.path.split('/').skip(1));
                self.problem(&keys, format!("{field}{}: {}", fault.path, fault.reason));
                None
            }
        }
    }

    fn risk(&mut self) -> Risk {
        match self
            .fields
            .get("risk")
            .map(|risk| serde_json::from_value(risk.clone()))
        {
            None => Risk::default(),
            Some(Ok(risk)) => risk,
            Some(Err(_)) => {
                let reason = format!(
                    "risk is {}, must be read, write or high",
                    self.fields["risk"]
                );
                self.problem(&["risk"], reason);
                Risk::High
            }
        }
    }

    fn timeout(&mut self) -> Duration {
        let given = self.fields.get("timeout_ms");
        let ms = given.map_or(Some(TIMEOUT_MS), Value::as_u64);
        let ms = ms.filter(|ms| (1..=MOST_TIMEOUT_MS).contains(ms));
        if ms.is_none() {
            self.problem(
                &["timeout_ms"],
                format!("timeout_ms must be 1 to {MOST_TIMEOUT_MS}"),
            );
        }
        Duration::from_millis(ms.unwrap_or(TIMEOUT_MS))
    }

    fn kind(&mut self, input: Option<&Schema>) -> Option<Kind> {
        let word = self.string("kind")?;
        for other in ["http", "mcp"] {
            if other != word && self.fields.contains_key(other) {
                self.problem(&[other], format!("{other}: the kind is {word}"));
            }
        }
        match word.as_str() {
            "http" => self.http(input?),
            "mcp" => self.mcp(),
            "catalog" => Some(Kind::Catalog),
            "action" => Some(Kind::Action),
            _ => {
                self.problem(
                    &["kind"],
                    format!("kind is {word:?}, must be http, mcp, catalog or action"),
                );
                None
            }
        }
    }

    fn http(&mut self, input: &Schema) -> Option<Kind> {
        let table = self.fields.get("http").cloned().unwrap_or_default();
        let table: http::Table = match serde_json::from_value(table) {
            Ok(table) => table,
            Err(error) => {
                self.problem(&["http"], format!("http: {error}"));
                return None;
            }
        };
        let properties = input.value()["properties"].as_object();
        let names: Vec<&str> = properties
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
            .collect();
        match table.read(&names) {
            Ok(http) => Some(Kind::Http(Arc::new(http))),
            Err((field, reason)) => {
                self.problem(&["http", field], format!("http.{field} {reason}"));
                None
            }
        }
    }

    fn mcp(&mut self) -> Option<Kind> {
        let table = self.fields.get("mcp").and_then(Value::as_object);
        let text = |key: &str| {
            table
                .and_then(|table| table.get(key))
                .and_then(Value::as_str)
        };
        let unknown =
            table.is_some_and(|table| table.keys().any(|key| key != "server" && key != "tool"));
        let Some(server) = text("server").filter(|server| !server.is_empty() && !unknown) else {
            self.problem(
                &["mcp"],
                "mcp must be {\"server\": a name of the configuration, \"tool\"?: its name there}"
                    .to_owned(),
            );
            return None;
        };
        let tool = text("tool").or(self.fields.get("name").and_then(Value::as_str));
        Some(Kind::Mcp {
            server: server.into(),
            tool: tool.unwrap_or_default().into(),
        })
    }

    fn string(&mut self, field: &str) -> Option<String> {
        let text = match self.fields.get(field) {
            Some(Value::String(text)) => return Some(text.clone()),
            Some(_) => "must be a string",
            None => "is missing",
        };
        self.problem(&[field], format!("{field} {text}"));
        None
    }

    fn problem(&mut self, keys: &[&str], reason: String) {
        let line = line_of(self.text, keys);
        self.problems.push(Problem::at(self.path, line, reason));
    }
}
