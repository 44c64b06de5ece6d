//! Product facts of a harness: `catalog/*.json`, each a list of products or one product. A product is an object with an
//! `id` (or `product_id`), perhaps a `name` (or `title`) and `aliases`; the rest is the operator's.

use std::collections::HashMap;

use serde_json::{Map, Value};
use unicode_normalization::UnicodeNormalization as _;

use super::json;
use crate::harness::{Problem, Source};

/// All products, found by id, name or alias.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    products: Vec<Value>,
    /// Folded id, name or alias to positions; ids come first.
    by_key: HashMap<String, Vec<usize>>,
}

impl Catalog {
    /// Reads `catalog/*.json`; faults go to `problems`, and what is at fault is left out.
    #[must_use]
    pub fn read(source: &Source, problems: &mut Vec<Problem>) -> Self {
        let mut catalog = Self::default();
        for (path, bytes) in source
            .under("catalog")
            .filter(|(path, _)| path.ends_with(".json"))
        {
            match json::parse(bytes) {
                Ok(Value::Array(products)) => {
                    for (index, product) in products.into_iter().enumerate() {
                        if let Err(reason) = catalog.add(product) {
                            problems.push(Problem::of(path, format!("[{index}]: {reason}")));
                        }
                    }
                }
                Ok(product) => {
                    if let Err(reason) = catalog.add(product) {
                        problems.push(Problem::of(path, reason));
                    }
                }
                Err(fault) => problems.push(Problem::at(path, fault.line, fault.reason)),
            }
        }
        catalog
    }

    /// Adds one product.
    ///
    /// # Errors
    /// When it has no id, or one that another product has.
    pub fn add(&mut self, product: Value) -> Result<(), String> {
        let fields = product.as_object().ok_or("a product must be an object")?;
        let id = id(fields).ok_or("a product needs an id, a string or a number")?;
        let key = fold(&id);
        if key.is_empty() {
            return Err("id is blank".to_owned());
        }
        if self.find_id(&id).is_some() {
            return Err(format!("id {id:?} is another product's too"));
        }
        let position = self.products.len();
        let mut keys = vec![key];
        keys.extend(names(fields).map(fold).filter(|name| !name.is_empty()));
        for key in keys {
            let known = self.by_key.entry(key).or_default();
            if !known.contains(&position) {
                known.push(position);
            }
        }
        self.products.push(product);
        Ok(())
    }

    /// The product of that id, whatever its case.
    #[must_use]
    pub fn find_id(&self, wanted: &str) -> Option<&Value> {
        self.matching(wanted).find(|product| {
            product
                .as_object()
                .and_then(id)
                .is_some_and(|own| fold(&own) == fold(wanted))
        })
    }

    /// Products of that id; else of that name or alias; else those whose name holds the words. Several are ambiguous.
    #[must_use]
    pub fn find(&self, wanted: &str) -> Vec<&Value> {
        if let Some(product) = self.find_id(wanted) {
            return vec![product];
        }
        let exact: Vec<&Value> = self.matching(wanted).collect();
        let wanted = fold(wanted);
        if !exact.is_empty() || wanted.chars().count() < 2 {
            return exact;
        }
        let holds = |product: &&Value| {
            let names = product.as_object().into_iter().flat_map(names);
            names.map(fold).any(|name| {
                name.contains(&wanted) || (name.chars().count() > 1 && wanted.contains(&name))
            })
        };
        self.products.iter().filter(holds).collect()
    }

    /// Every product, in the order of files.
    #[must_use]
    pub fn products(&self) -> &[Value] {
        &self.products
    }

    fn matching(&self, wanted: &str) -> impl Iterator<Item = &Value> {
        let positions = self.by_key.get(&fold(wanted));
        positions
            .into_iter()
            .flatten()
            .map(|position| &self.products[*position])
    }
}

fn id(fields: &Map<String, Value>) -> Option<String> {
    match fields.get("id").or_else(|| fields.get("product_id"))? {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

fn names(fields: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let named = ["name", "title"]
        .into_iter()
        .filter_map(|key| fields.get(key));
    let aliases = fields.get("aliases").and_then(Value::as_array);
    named
        .chain(aliases.into_iter().flatten())
        .filter_map(Value::as_str)
}

/// Case, width, and every space and mark aside.
fn fold(text: &str) -> String {
    text.nfkc()
        .flat_map(char::to_lowercase)
        .filter(|c| c.is_alphanumeric())
        .collect()
}
