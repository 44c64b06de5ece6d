//! Product facts: `catalog/*.json`, each file one product or a list of them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::skill::{fold, holds};
use super::tool::json;
use super::{Problem, Source};

/// The folder.
const FOLDER: &str = "catalog";

/// One product.
#[derive(Clone, Debug, PartialEq)]
pub struct Product {
    /// Names it in requests.
    pub id: String,
    /// What the avatar calls it.
    pub name: String,
    /// Other names viewers use.
    pub aliases: Vec<String>,
    /// What may be said of it, in the order of the file; a value is a text, number, truth value or list of those.
    pub facts: Map<String, Value>,
    /// Offers that run now, as texts or flat objects.
    pub promotions: Vec<Value>,
    /// The file it comes from.
    pub path: String,
}

impl Product {
    /// As the catalog's files write it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        serde_json::json!({
            "id": self.id,
            "name": self.name,
            "aliases": self.aliases,
            "facts": self.facts,
            "promotions": self.promotions,
        })
    }
}

/// Every product by its id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    products: BTreeMap<String, Product>,
}

impl Catalog {
    /// The product of this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Product> {
        self.products.get(id)
    }

    /// Every product, in order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = &Product> {
        self.products.values()
    }

    /// Products that a viewer's words name, by id, name or alias, in order of the ids. A name that is only a part of a
    /// longer one that was named (`jacket` in `trail jacket`) names nothing.
    #[must_use]
    pub fn mentioned(&self, comment: &str) -> Vec<&Product> {
        let comment = fold(comment);
        let named = |product: &&Product| -> Vec<String> {
            let names = [&product.id, &product.name].into_iter();
            let names = names.chain(&product.aliases).map(|name| fold(name));
            names
                .filter(|name| !name.is_empty() && holds(&comment, name))
                .collect()
        };
        let found: Vec<(&Product, Vec<String>)> = self
            .iter()
            .map(|product| (product, named(&product)))
            .filter(|(_, names)| !names.is_empty())
            .collect();
        let longer = |name: &String| {
            let others = found.iter().flat_map(|(_, names)| names);
            others
                .filter(|other| other.len() > name.len())
                .any(|other| holds(other, name))
        };
        let named = found.iter().filter(|(_, names)| !names.iter().all(longer));
        named.map(|(product, _)| *product).collect()
    }

    /// Adds a product, or replaces the one of its id.
    pub fn insert(&mut self, product: Product) {
        self.products.insert(product.id.clone(), product);
    }

    /// Reads the whole folder.
    pub(super) fn read(source: &Source, problems: &mut Vec<Problem>) -> Self {
        let mut catalog = Self::default();
        for (path, bytes) in source.under(FOLDER) {
            if !path.ends_with(".json") {
                continue;
            }
            let entries = match json::parse(bytes) {
                Ok(Value::Array(entries)) => entries,
                Ok(entry) => vec![entry],
                Err(fault) => {
                    problems.push(Problem::at(path, fault.line, fault.reason));
                    continue;
                }
            };
            for (index, entry) in entries.iter().enumerate() {
                let place = if entries.len() > 1 {
                    format!("[{index}].")
                } else {
                    String::new()
                };
                let mut reader = Reader {
                    path,
                    place,
                    problems,
                };
                let Some(product) = reader.product(entry) else {
                    continue;
                };
                if let Some(other) = catalog.products.get(&product.id) {
                    let reason = format!("id: {:?} is already in {}", product.id, other.path);
                    problems.push(Problem::of(path, reason));
                    continue;
                }
                catalog.insert(product);
            }
        }
        catalog
    }
}

struct Reader<'a> {
    path: &'a str,
    /// Before a field's name: which entry of a list.
    place: String,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    fn complain(&mut self, field: &str, reason: &str) {
        let reason = format!("{}{field}: {reason}", self.place);
        self.problems.push(Problem::of(self.path, reason));
    }

    /// `None` when anything of it is wrong, which has then been said.
    fn product(&mut self, entry: &Value) -> Option<Product> {
        let before = self.problems.len();
        let Some(fields) = entry.as_object() else {
            self.problems.push(Problem::of(
                self.path,
                format!("{}a product must be an object", self.place),
            ));
            return None;
        };
        for key in fields.keys() {
            if !["id", "name", "aliases", "facts", "promotions"].contains(&key.as_str()) {
                self.complain(key, "unknown field; facts go into \"facts\"");
            }
        }
        let product = Product {
            id: self.text(fields, "id"),
            name: self.text(fields, "name"),
            aliases: self.aliases(fields),
            facts: self.facts(fields),
            promotions: self.promotions(fields),
            path: self.path.to_owned(),
        };
        (self.problems.len() == before).then_some(product)
    }

    fn text(&mut self, fields: &Map<String, Value>, field: &str) -> String {
        match fields.get(field) {
            Some(Value::String(text)) if !text.trim().is_empty() => return text.clone(),
            Some(Value::String(_)) => self.complain(field, "is blank"),
            Some(_) => self.complain(field, "must be a text"),
            None => self.complain(field, "is missing"),
        }
        String::new()
    }

    fn aliases(&mut self, fields: &Map<String, Value>) -> Vec<String> {
        let Some(aliases) = fields.get("aliases") else {
            return Vec::new();
        };
        let texts = aliases.as_array().and_then(|items| {
            let texts = items
                .iter()
                .map(|item| item.as_str().filter(|text| !text.trim().is_empty()));
            texts
                .map(|text| text.map(str::to_owned))
                .collect::<Option<Vec<_>>>()
        });
        texts.unwrap_or_else(|| {
            self.complain("aliases", "must be a list of texts");
            Vec::new()
        })
    }

    fn facts(&mut self, fields: &Map<String, Value>) -> Map<String, Value> {
        let Some(facts) = fields.get("facts") else {
            return Map::new();
        };
        let Some(facts) = facts.as_object() else {
            self.complain("facts", "must be an object");
            return Map::new();
        };
        for (name, fact) in facts {
            if name.trim().is_empty() {
                self.complain("facts", "a name is blank");
            }
            let flat = match fact {
                Value::Array(items) => items.iter().all(is_plain),
                other => is_plain(other),
            };
            if !flat {
                self.complain(
                    &format!("facts.{name}"),
                    "must be a text, number, truth value or list of those",
                );
            }
        }
        facts.clone()
    }

    fn promotions(&mut self, fields: &Map<String, Value>) -> Vec<Value> {
        let Some(promotions) = fields.get("promotions") else {
            return Vec::new();
        };
        let Some(promotions) = promotions.as_array() else {
            self.complain("promotions", "must be a list");
            return Vec::new();
        };
        for (index, promotion) in promotions.iter().enumerate() {
            let flat = match promotion {
                Value::String(text) => !text.trim().is_empty(),
                Value::Object(fields) => !fields.is_empty() && fields.values().all(is_plain),
                _ => false,
            };
            if !flat {
                self.complain(
                    &format!("promotions[{index}]"),
                    "must be a text or a flat object",
                );
            }
        }
        promotions.clone()
    }
}

fn is_plain(value: &Value) -> bool {
    value.is_string() || value.is_number() || value.is_boolean()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> (Catalog, Vec<String>) {
        let mut source = Source::default();
        for (path, text) in files {
            source.insert(*path, text.as_bytes());
        }
        let mut problems = Vec::new();
        let catalog = Catalog::read(&source, &mut problems);
        (catalog, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn products_come_from_single_files_and_lists() {
        let (catalog, problems) = read(&[
            (
                "catalog/jacket.json",
                r#"{"id":"jacket","name":"Jacket","aliases":["coat"],"facts":{"price":59,"colours":["red"]}}"#,
            ),
            (
                "catalog/more.json",
                r#"[{"id":"hat","name":"Hat","promotions":["two for one",{"code":"A","off":5}]}]"#,
            ),
        ]);
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(
            catalog
                .get("jacket")
                .map(|product| product.facts["price"].clone()),
            Some(59.into())
        );
        assert_eq!(
            catalog
                .iter()
                .map(|product| product.id.as_str())
                .collect::<Vec<_>>(),
            ["hat", "jacket"]
        );
    }

    #[test]
    fn a_comment_names_products_by_whole_words_and_the_longest_name() {
        let (catalog, problems) = read(&[(
            "catalog/all.json",
            r#"[{"id":"hat-1","name":"Sun Hat","aliases":["hat","遮阳帽"]},
                {"id":"j1","name":"Jacket"},{"id":"j2","name":"Trail Jacket","aliases":["shell"]}]"#,
        )]);
        assert_eq!(problems, Vec::<String>::new());
        for (comment, ids) in [
            ("what is that?", &[][..]),
            ("how much is the HAT", &["hat-1"]),
            ("这个遮阳帽多少钱", &["hat-1"]),
            ("is the trail jacket warm?", &["j2"]),
            ("the jacket or the hat?", &["hat-1", "j1"]),
            ("price of j1", &["j1"]),
            ("shell jacket?", &["j1", "j2"]),
            ("jackets", &[]),
            ("", &[]),
        ] {
            let found = catalog.mentioned(comment);
            let found: Vec<_> = found.iter().map(|product| product.id.as_str()).collect();
            assert_eq!(found, ids, "{comment}");
        }
    }

    #[test]
    fn every_fault_of_every_product_is_named_at_once() {
        let (_, problems) = read(&[
            ("catalog/a.json", r#"{"id":"a","name":"A"}"#),
            ("catalog/b.json", r#"{"id":"a","name":"B"}"#),
            (
                "catalog/c.json",
                r#"[{"id":1,"name":" ","aliases":"x","facts":{"p":{"q":1}},"promotions":[7],"price":1},{"name":"x","id":"y","facts":[]}]"#,
            ),
            ("catalog/d.json", "{\n  \"id\": \"d\",\n}"),
        ]);
        let expected = [
            "catalog/b.json: id: \"a\" is already in catalog/a.json",
            "catalog/c.json: [0].price: unknown field; facts go into \"facts\"",
            "catalog/c.json: [0].id: must be a text",
            "catalog/c.json: [0].name: is blank",
            "catalog/c.json: [0].aliases: must be a list of texts",
            "catalog/c.json: [0].facts.p: must be a text, number, truth value or list of those",
            "catalog/c.json: [0].promotions[0]: must be a text or a flat object",
            "catalog/c.json: [1].facts: must be an object",
            "catalog/d.json:3: trailing comma",
        ];
        assert_eq!(problems, expected);
    }
}
