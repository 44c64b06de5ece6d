//! The catalog tool: product facts by id, name or alias. What is not there is said to be not there.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Executor, Pending, ToolError};
use crate::harness::tool::{Catalog, Tool};

/// Arguments that may name a product, in the order they are looked at.
const KEYS: &[&str] = &["product_id", "id", "sku", "name", "query", "product"];
/// Products of one answer.
const MOST_FOUND: usize = 5;

pub(super) struct CatalogTool {
    pub(super) catalog: Arc<Catalog>,
}

impl Executor for CatalogTool {
    fn call<'a>(&'a self, _: &'a Tool, arguments: &'a Map<String, Value>) -> Pending<'a> {
        Box::pin(std::future::ready(look_up(&self.catalog, arguments)))
    }
}

fn look_up(catalog: &Catalog, arguments: &Map<String, Value>) -> Result<Value, ToolError> {
    let wanted = KEYS
        .iter()
        .filter_map(|key| arguments.get(*key))
        .find_map(|value| match value {
            Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        });
    // A schema may have one property of any name.
    let only = || {
        arguments
            .values()
            .find_map(Value::as_str)
            .map(str::to_owned)
    };
    let Some(wanted) = wanted.or_else(only) else {
        return Err(ToolError::new(
            "invalid_arguments",
            format!("name a product with one of {}", KEYS.join(", ")),
        ));
    };
    let found = catalog.find(&wanted);
    Ok(match found.as_slice() {
        [] => json!({"found": false, "query": wanted, "message": "no such product in the catalog"}),
        [product] => json!({"found": true, "product": product}),
        several => json!({
            "found": true, "ambiguous": true, "count": several.len(),
            "products": several.iter().take(MOST_FOUND).collect::<Vec<_>>(),
        }),
    })
}
