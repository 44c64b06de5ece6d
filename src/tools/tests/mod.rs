//! Rounds of calls, and the small server that tests of tools talk to.

mod round;
pub(super) mod server;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Call, Config, Offer, Tools};
use crate::harness::Source;
use crate::harness::tool::{self, Tool};

/// Reads a tool as the harness does.
pub(super) fn tool(text: &str) -> Tool {
    let name = serde_json::from_str::<serde_json::Value>(text).unwrap()["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut problems = Vec::new();
    tool::read(
        &format!("tools/{name}.json"),
        text.as_bytes(),
        &mut problems,
    )
    .unwrap_or_else(|| panic!("{problems:?}"))
}

/// An offer of `tools` and a small catalog.
pub(super) fn offer(tools: &[Tool]) -> Offer {
    let mut source = Source::default();
    source.insert("catalog/p.json", r#"[{"id": "A1", "name": "Trail Jacket", "price": 199}, {"id": "A2", "name": "Rain Jacket"}]"#.as_bytes());
    let catalog = tool::Catalog::read(&source, &mut Vec::new());
    let tools = tools
        .iter()
        .map(|tool| (tool.name.to_string(), tool.clone()))
        .collect();
    Offer {
        tools: Arc::new(tools),
        catalog: Arc::new(catalog),
    }
}

/// Tools that may call `hosts`.
pub(super) fn tools(hosts: &[&str]) -> Tools {
    let config = Config {
        allow_hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        ..Config::default()
    };
    let secrets = BTreeMap::from([("TOKEN".to_owned(), "s3cret".to_owned())]);
    Tools::new(&config, secrets).unwrap()
}

/// A call.
pub(super) fn call(id: &str, name: &str, arguments: &str) -> Call {
    Call {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    }
}
