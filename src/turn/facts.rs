//! What may truthfully be said in a turn: what the request says of the product on screen, what the catalog knows of it,
//! and of products that comments name.

use serde_json::{Map, Value, json};

use super::request::{Comment, Context};
use crate::harness::{Catalog, Product};

/// Products that comments may bring in beside the one on screen.
const MOST_NAMED: usize = 2;

/// What is known of one product.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct About {
    /// The product's id; may be empty.
    pub(super) id: String,
    /// What it is called: its name, its id where that is not known; may be empty.
    pub(super) name: String,
    /// Other names of it.
    pub(super) aliases: Vec<String>,
    /// Facts by name.
    pub(super) facts: Map<String, Value>,
    /// Each a text or an object.
    pub(super) promotions: Vec<Value>,
}

impl About {
    fn product(product: &Product) -> Self {
        Self {
            id: product.id.clone(),
            name: product.name.clone(),
            aliases: product.aliases.clone(),
            facts: product.facts.clone(),
            promotions: product.promotions.clone(),
        }
    }

    fn is_empty(&self) -> bool {
        self.name.is_empty() && self.facts.is_empty() && self.promotions.is_empty()
    }
}

/// Everything known, the product on screen first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Facts {
    products: Vec<About>,
}

impl Facts {
    /// What request and catalog say; where both do, the request is newer.
    pub(super) fn gather(catalog: &Catalog, context: &Context, comments: &[Comment]) -> Self {
        let known = catalog.get(&context.product_id);
        let mut first = known.map(About::product).unwrap_or_default();
        if known.is_none() {
            first.id.clone_from(&context.product_id);
            first.name.clone_from(&context.product_id);
        }
        let mut facts = context.facts.clone();
        for (name, fact) in std::mem::take(&mut first.facts) {
            facts.entry(name).or_insert(fact);
        }
        first.facts = facts;
        let older = std::mem::replace(&mut first.promotions, context.promotions.clone());
        for promotion in older {
            if !first.promotions.contains(&promotion) {
                first.promotions.push(promotion);
            }
        }
        let mut products: Vec<About> = Vec::new();
        if !first.is_empty() {
            products.push(first);
        }
        let on_screen = products.len();
        for product in comments
            .iter()
            .flat_map(|comment| catalog.mentioned(&comment.text))
        {
            let is_new = products.iter().all(|about| about.id != product.id);
            if is_new && products.len() < on_screen + MOST_NAMED {
                products.push(About::product(product));
            }
        }
        Self { products }
    }

    /// The products, the one on screen first.
    pub(super) fn products(&self) -> &[About] {
        &self.products
    }

    /// As hooks see them: the first product's facts by name and `promotions`; what else is known under `others`, by id.
    pub(super) fn value(&self) -> Value {
        let mut products = self.products.iter();
        let Some(first) = products.next() else {
            return json!({});
        };
        let mut value = first.facts.clone();
        value.insert("promotions".to_owned(), first.promotions.clone().into());
        let others: Map<String, Value> = products
            .map(|about| {
                let mut facts = about.facts.clone();
                facts.insert("promotions".to_owned(), about.promotions.clone().into());
                (about.id.clone(), Value::Object(facts))
            })
            .collect();
        if !others.is_empty() {
            value.insert("others".to_owned(), Value::Object(others));
        }
        Value::Object(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> Catalog {
        let mut catalog = Catalog::default();
        for (id, name, price) in [("j1", "Jacket", 59), ("h1", "Hat", 20), ("b1", "Boots", 80)] {
            catalog.insert(Product {
                id: id.to_owned(),
                name: name.to_owned(),
                aliases: Vec::new(),
                facts: Map::from_iter([
                    ("price".to_owned(), json!(price)),
                    ("origin".to_owned(), json!("here")),
                ]),
                promotions: vec![json!("two for one")],
                path: String::new(),
            });
        }
        catalog
    }

    fn comments(texts: &[&str]) -> Vec<Comment> {
        let comment = |text: &&str| Comment {
            text: (*text).to_owned(),
            ..Comment::default()
        };
        texts.iter().map(comment).collect()
    }

    #[test]
    fn the_requests_facts_come_first_and_win() {
        let context = Context {
            product_id: "j1".to_owned(),
            facts: Map::from_iter([
                ("stock".to_owned(), json!(3)),
                ("price".to_owned(), json!(49)),
            ]),
            promotions: vec![json!("two for one"), json!("free hat")],
        };
        let facts = Facts::gather(&catalog(), &context, &[]);
        let [about] = facts.products() else {
            panic!("{facts:?}")
        };
        assert_eq!(about.name, "Jacket");
        let spelled = Value::Object(about.facts.clone()).to_string();
        assert_eq!(spelled, r#"{"stock":3,"price":49,"origin":"here"}"#);
        assert_eq!(about.promotions.len(), 2);
        assert_eq!(facts.value()["price"], 49);
    }

    #[test]
    fn products_that_comments_name_are_known_too_a_few_of_them() {
        let gather = |context: &Context, texts: &[&str]| -> Vec<String> {
            let facts = Facts::gather(&catalog(), context, &comments(texts));
            facts
                .products()
                .iter()
                .map(|about| about.id.clone())
                .collect()
        };
        let none = Context::default();
        assert_eq!(gather(&none, &["how much is the hat?"]), ["h1"]);
        assert_eq!(
            gather(&none, &["boots?", "boots or jacket or hat?"]),
            ["b1", "h1"]
        );
        let screen = Context {
            product_id: "j1".to_owned(),
            ..Context::default()
        };
        assert_eq!(gather(&screen, &["the jacket or the hat?"]), ["j1", "h1"]);
        assert_eq!(gather(&none, &["is it warm?"]), Vec::<String>::new());
        let facts = Facts::gather(&catalog(), &screen, &comments(&["hat?"]));
        assert_eq!(facts.value()["others"]["h1"]["price"], 20);
    }
}
