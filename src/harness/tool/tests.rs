//! Loading tools: schemas that could loop, explode or never be met, and files with faults, are refused with their place.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Catalog, Kind, Risk, Schema, Tool, json as text, lint, read};
use crate::harness::{Problem, Source};

fn load(name: &str, tool: &str) -> (Option<Tool>, Vec<Problem>) {
    let mut problems = Vec::new();
    let tool = read(
        &format!("tools/{name}.json"),
        tool.as_bytes(),
        &mut problems,
    );
    assert_eq!(tool.is_none(), !problems.is_empty(), "{problems:?}");
    (tool, problems)
}

fn action(schema: &str) -> String {
    format!("{{\"name\": \"t\", \"description\": \"d\", \"kind\": \"action\"{schema}}}")
}

#[test]
fn tools_of_every_kind_load() {
    let http = "{\"name\": \"get_price\", \"description\": \"The price of a product.\", \"risk\": \"read\", \"kind\": \"http\", \"timeout_ms\": 900,
        \"input_schema\": {\"type\": \"object\", \"properties\": {\"sku\": {\"type\": \"string\"}}, \"required\": [\"sku\"]},
        \"http\": {\"method\": \"GET\", \"url\": \"https://shop.example/items/{sku}?lang=zh\", \"headers\": {\"Authorization\": \"Bearer {secret:SHOP}\"}, \"retries\": 2, \"cache_s\": 30}}";
    let (tool, problems) = load("get_price", http);
    assert_eq!(problems, []);
    let tool = tool.unwrap();
    assert!(matches!(&tool.kind, Kind::Http(http) if http.retries == 2));
    assert_eq!(tool.timeout.as_millis(), 900);
    let mcp = "{\"name\": \"stock\", \"description\": \"d\", \"risk\": \"high\", \"kind\": \"mcp\", \"mcp\": {\"server\": \"shop\", \"tool\": \"get_stock\"}}";
    let tool = load("stock", mcp).0.unwrap();
    assert!(
        matches!(&tool.kind, Kind::Mcp { server, tool } if &**server == "shop" && &**tool == "get_stock")
    );
    assert_eq!(tool.risk, Risk::High);
    assert!(load("t", &action("")).0.is_some());
}

#[test]
fn a_tool_without_parameters_is_callable_with_an_empty_object() {
    for schema in [
        "",
        ", \"input_schema\": null",
        ", \"input_schema\": {}",
        ", \"input_schema\": {\"type\": \"object\"}",
    ] {
        let tool = load("t", &action(schema))
            .0
            .unwrap_or_else(|| panic!("{schema}"));
        assert_eq!(tool.input.check(&json!({})), Ok(()));
        assert_eq!(
            tool.input.value(),
            &json!({"type": "object", "properties": {}}),
            "clients see one spelling"
        );
    }
}

#[test]
fn every_fault_has_its_line_and_names_its_field() {
    let cases = [
        (
            "{\n\"name\": \"x y\",\n\"description\": \"d\", \"kind\": \"action\"}",
            2,
            "name is",
        ),
        (
            "{\n\"name\": \"u\",\n\"description\": \"d\", \"kind\": \"action\"}",
            2,
            "must be the file's",
        ),
        (
            "{\n\"name\": \"t\",\n\"description\": \" \", \"kind\": \"action\"}",
            3,
            "description",
        ),
        (
            "{\n\"name\": \"t\",\n\"description\": \"d\", \"kind\": \"actoin\"}",
            3,
            "kind is",
        ),
        (
            "{\n\"name\": \"t\",\n\"description\": \"d\", \"kind\": \"action\",\n\"parameters\": {}}",
            4,
            "parameters: unknown",
        ),
        (
            "{\n\"name\": \"t\",\n\"name\": \"t\", \"description\": \"d\", \"kind\": \"action\"}",
            3,
            "twice",
        ),
        (
            "{\n\"name\": \"t\",\n\"description\": \"d\",\n\"kind\": \"action\",}",
            4,
            "trailing comma",
        ),
        (
            "{\n\"name\": \"t\", \"description\": \"d\", \"kind\": \"action\",\n\"input_schema\": {\n\"properties\": {\"a\": {\n\"type\": \"strng\"}}}}",
            5,
            "input_schema/properties/a/type",
        ),
        (
            "{\n\"name\": \"t\", \"description\": \"d\", \"kind\": \"action\",\n\"risk\": \"low\"}",
            3,
            "risk",
        ),
        (
            "{\n\"name\": \"t\", \"description\": \"d\", \"kind\": \"action\",\n\"timeout_ms\": 0}",
            3,
            "timeout_ms",
        ),
        (
            "{\n\"name\": \"t\", \"description\": \"d\", \"kind\": \"action\",\n\"output_schema\": {}}",
            3,
            "output_schema",
        ),
        (
            "{\n\"name\": \"t\", \"description\": \"d\", \"kind\": \"mcp\"}",
            1,
            "mcp must be",
        ),
        ("[]", 1, "one JSON object"),
    ];
    for (file, line, said) in cases {
        let (_, problems) = load("t", file);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].line.unwrap_or(1), line, "{file}: {problems:?}");
        assert!(problems[0].reason.contains(said), "{problems:?}");
    }
}

#[test]
fn http_parts_that_could_be_turned_against_somebody_are_refused() {
    let tool = |http: &str| {
        format!(
            "{{\"name\": \"t\", \"description\": \"d\", \"kind\": \"http\", \"input_schema\": {{\"properties\": {{\"a\": {{}}}}}}, \"http\": {http}}}"
        )
    };
    let cases = [
        ("{\"method\": \"GET\", \"url\": \"https://{a}/x\"}", "host"),
        (
            "{\"method\": \"GET\", \"url\": \"{a}\"}",
            "begins with a place",
        ),
        (
            "{\"method\": \"GET\", \"url\": \"https://shop.example{a}/x\"}",
            "host",
        ),
        (
            "{\"method\": \"GET\", \"url\": \"https://u:p@shop.example/\"}",
            "host",
        ),
        (
            "{\"method\": \"GET\", \"url\": \"file:///etc/passwd\"}",
            "http",
        ),
        (
            "{\"method\": \"GET\", \"url\": \"https://shop.example/{b}\"}",
            "no property",
        ),
        (
            "{\"method\": \"GET\", \"url\": \"https://shop.example/{a\"}",
            "never closes",
        ),
        (
            "{\"method\": \"POST\", \"url\": \"https://shop.example/\", \"retries\": 1}",
            "idempotent",
        ),
        (
            "{\"method\": \"POST\", \"url\": \"https://shop.example/\", \"cache_s\": 1}",
            "GET",
        ),
        (
            "{\"method\": \"TRACE\", \"url\": \"https://shop.example/\"}",
            "TRACE",
        ),
        (
            "{\"method\": \"GET\", \"url\": \"https://shop.example/\", \"headers\": {\"x\": \"{a}\"}}",
            "secret",
        ),
        (
            "{\"method\": \"GET\", \"url\": \"https://shop.example/\", \"headers\": {\"Host\": \"x\"}}",
            "own",
        ),
        (
            "{\"method\": \"GET\", \"url\": \"https://shop.example/\", \"headers\": {\"x\": \"a\\r\\nb: c\"}}",
            "characters",
        ),
        (
            "{\"method\": \"GET\", \"uri\": \"https://shop.example/\"}",
            "uri",
        ),
    ];
    for (http, said) in cases {
        let (_, problems) = load("t", &tool(http));
        assert!(
            problems.iter().any(|problem| problem.reason.contains(said)),
            "{http}: {problems:?}"
        );
    }
}

fn nested(levels: usize) -> String {
    let open = "{\"type\":\"object\",\"properties\":{\"a\":".repeat(levels);
    format!("{open}{{}}{}", "}}".repeat(levels))
}

#[test]
fn schemas_without_an_end_are_refused_and_recursive_ones_work() {
    let endless = [
        json!({"$ref": ""}),
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"allOf": [{"$ref": "#/$defs/loop"}], "$defs": {"loop": {"allOf": [{"$ref": "#/$defs/loop"}]}}}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}}),
        json!({"properties": {"x": {"not": {"$ref": "#/properties/x"}}}}),
        json!({"properties": {"x": {"if": {"$ref": "#/properties/x"}}}}),
        json!({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"$ref": "#/$defs/a~1b"}}}),
        json!({"$ref": "#/$defs/a%20b", "$defs": {"a b": {"$ref": "#/$defs/a b"}}}),
    ];
    for schema in endless {
        let fault = Schema::compile(&schema).expect_err("endless");
        assert!(fault.reason.contains("circle"), "{schema}: {fault}");
    }
    let tree =
        Schema::compile(&json!({"type": "object", "properties": {"a": {"$ref": ""}}})).unwrap();
    assert_eq!(tree.check(&json!({"a": {"a": {}}})), Ok(()));
    assert_eq!(
        tree.check(&json!({"a": {"a": 5}})).unwrap_err().path,
        "/a/a"
    );
}

#[test]
fn references_are_local_and_lead_somewhere() {
    let refused = [
        (json!({"$ref": "http://127.0.0.1:1/s.json"}), "not local"),
        (json!({"$ref": "s.json"}), "not local"),
        (json!({"$ref": "#/$defs/none"}), "nowhere"),
        (json!({"$ref": "#anchor"}), "nowhere"),
        (json!({"$ref": "#/title", "title": "x"}), "no schema"),
        (json!({"$dynamicRef": "#a"}), "not supported"),
        (
            json!({"properties": {"a": {"$id": "http://x.example/"}}}),
            "root only",
        ),
        (
            json!({"$schema": "http://json-schema.org/draft-07/schema#"}),
            "must be",
        ),
    ];
    for (schema, said) in refused {
        let fault = Schema::compile(&schema).expect_err("refused");
        assert!(fault.to_string().contains(said), "{schema}: {fault}");
    }
}

#[test]
fn schemas_that_nothing_fits_are_refused_with_a_reason() {
    let refused = [
        json!({"enum": []}),
        json!({"anyOf": []}),
        json!({"minimum": 5, "maximum": 4}),
        json!({"minItems": 2, "maxItems": 1}),
        json!({"properties": {"a": {"minLength": 9, "maxLength": 1}}}),
        json!({"type": null}),
        json!({"type": "strng"}),
        json!({"required": ["a"], "additionalProperties": false}),
        json!(false),
        json!(null),
        json!("x"),
        json!([]),
        json!({"pattern": "("}),
        json!({"pattern": "(a)\\1"}),
        json!({"pattern": "((a{1000}){1000}){1000}"}),
    ];
    for schema in refused {
        let fault = Schema::compile(&schema).expect_err("refused");
        assert!(!fault.reason.is_empty(), "{schema}");
    }
    assert!(Schema::compile(&json!(true)).is_ok());
}

#[test]
fn depth_and_size_are_bounded_before_anything_walks_them() {
    let file = |schema: String| action(&format!(", \"input_schema\": {schema}"));
    assert!(load("t", &file(nested(20))).0.is_some());
    for levels in [120, 20_000] {
        let (_, problems) = load("t", &file(nested(levels)));
        assert!(
            problems[0].reason.contains("recursion limit") || problems[0].reason.contains("deep"),
            "{problems:?}"
        );
    }
    let wide: Value = (0..5_000)
        .map(|n| (format!("p{n}"), json!({})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    assert!(Schema::compile(&json!({"properties": wide})).is_err());
    let mut deep = json!({});
    for _ in 0..1_000 {
        deep = json!({"items": deep});
    }
    assert!(Schema::compile(&deep).unwrap_err().reason.contains("deep"));
}

#[test]
fn patterns_are_linear() {
    let schema = Schema::compile(&json!({"type": "string", "pattern": "^(a+)+$"})).unwrap();
    assert!(
        schema
            .check(&json!(format!("{}!", "a".repeat(50_000))))
            .is_err()
    );
}

#[test]
fn what_decoding_cannot_enforce_is_listed_and_still_checked() {
    let schema = json!({
        "type": "object", "properties": {"qty": {"type": "integer", "multipleOf": 2}}, "required": ["qty"], "additionalProperties": false,
        "patternProperties": {"^q": {"minimum": 1}}, "propertyNames": {"maxLength": 3}, "dependentRequired": {}, "not": {"required": ["x"]}, "if": {},
        "description": "not is a word here",
    });
    let tool = load("t", &action(&format!(", \"input_schema\": {schema}")))
        .0
        .unwrap();
    let listed = tool.input.unenforced();
    for keyword in [
        "patternProperties",
        "propertyNames",
        "dependentRequired",
        "not",
        "if",
    ] {
        assert!(
            listed.contains(&(String::new(), keyword.to_owned())),
            "{keyword}: {listed:?}"
        );
    }
    assert!(listed.contains(&("/properties/qty".to_owned(), "multipleOf".to_owned())));
    assert_eq!(lint("tools/t.json", &tool).len(), listed.len());
    assert_eq!(
        tool.input.check(&json!({"qty": 3})).unwrap_err().path,
        "/qty"
    );
    assert_eq!(
        tool.input.check(&json!({"qty": 0})).unwrap_err().path,
        "/qty"
    );
    assert_eq!(tool.input.check(&json!({"qty": 2})), Ok(()));
}

#[test]
fn a_property_named_like_a_keyword_is_a_property() {
    let schema = Schema::compile(
        &json!({"properties": {"not": {"type": "string"}, "$ref": {"type": "string"}}}),
    )
    .unwrap();
    assert_eq!(schema.unenforced(), []);
    assert_eq!(schema.check(&json!({"$ref": "x"})), Ok(()));
}

#[test]
fn json_files_may_have_a_mark_but_no_duplicate_keys() {
    assert_eq!(
        text::parse(b"\xef\xbb\xbf{\"a\": [1, 2.5, null, true, \"\\u4f60\"]}").unwrap(),
        json!({"a": [1, 2.5, null, true, "你"]})
    );
    assert_eq!(
        text::parse(b"{\n\"a\": {\"b\": 1,\n\"b\": 2}}")
            .unwrap_err()
            .line,
        3
    );
    assert!(text::parse(b"{} x").is_err());
    assert!(text::parse(b"\xff").is_err());
}

fn catalog() -> Catalog {
    let mut source = Source::default();
    let products = r#"[{"id": "A1", "name": "Trail Jacket", "aliases": ["shell", "冲锋衣"], "price": 199}, {"id": 2, "name": "Rain Jacket"}]"#;
    source.insert("catalog/products.json", products.as_bytes());
    source.insert(
        "catalog/one.json",
        br#"{"product_id": "mug", "title": "Thermo Mug"}"#.as_slice(),
    );
    let mut problems = Vec::new();
    let catalog = Catalog::read(&source, &mut problems);
    assert_eq!(problems, []);
    catalog
}

#[test]
fn products_are_found_by_id_name_and_alias() {
    let catalog = catalog();
    let ids = |wanted: &str| {
        catalog
            .find(wanted)
            .iter()
            .map(|product| product["id"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids("a1"), [json!("A1")]);
    assert_eq!(ids("2"), [json!(2)]);
    assert_eq!(ids("TRAIL  jacket"), [json!("A1")]);
    assert_eq!(ids("冲锋衣"), [json!("A1")]);
    assert_eq!(ids("这件冲锋衣"), [json!("A1")]);
    assert_eq!(ids("jacket").len(), 2);
    assert_eq!(catalog.find("thermo mug").len(), 1);
    assert_eq!(ids("boots"), Vec::<Value>::new());
    assert_eq!(ids(""), Vec::<Value>::new());
    assert_eq!(ids("!"), Vec::<Value>::new());
}

#[test]
fn catalogs_with_faults_say_where() {
    let mut source = Source::default();
    source.insert(
        "catalog/a.json",
        br#"[{"id": "x"}, {"name": "no id"}, {"id": "X"}, 5]"#.as_slice(),
    );
    source.insert("catalog/b.json", b"{\n".as_slice());
    let mut problems = Vec::new();
    let _ = Catalog::read(&source, &mut problems);
    let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 4, "{said:?}");
    assert!(
        said[0].starts_with("catalog/a.json: [1]:") && said[3].starts_with("catalog/b.json:2:"),
        "{said:?}"
    );
}

/// Schemas of all shapes, with references into themselves.
fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!(true)),
        Just(json!({"type": "string"})),
        Just(json!({"type": ["integer", "null"]})),
        Just(json!({"$ref": "#"})),
        Just(json!({"$ref": "#/$defs/d"})),
        Just(json!({"$ref": "#/properties/p"})),
        Just(json!({"const": 1})),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|s| json!({"properties": {"p": s}})),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({"allOf": [a, b]})),
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| json!({"anyOf": [a, b], "$defs": {"d": {"type": "object"}}})),
            inner.clone().prop_map(|s| json!({"items": s})),
            inner.clone().prop_map(|s| json!({"not": s})),
            (inner.clone(), inner)
                .prop_map(|(a, b)| json!({"$defs": {"d": a}, "properties": {"p": b}})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever compiles can also judge: no stack is too small for it, on a small one.
    #[test]
    fn what_compiles_judges_any_value(schema in schemas()) {
        if let Ok(schema) = Schema::compile(&schema) {
            for value in [json!(null), json!({}), json!({"p": {"p": [{}]}}), json!([[[]]])] {
                let _ = schema.check(&value);
            }
        }
    }
}
