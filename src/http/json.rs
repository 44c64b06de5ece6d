//! The one parser of request bodies: strict JSON with a depth limit, no duplicate keys at any depth, and errors that
//! name the place. Reading fields out of the result is `fields`' work.

use std::fmt::{self, Write as _};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Where a value sits in the body, outermost first.
#[derive(Debug, Default)]
struct Path(Vec<Step>);

#[derive(Debug)]
enum Step {
    Key(String),
    Index(usize),
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if place == 0 => out.write_str(key)?,
                Step::Key(key) => write!(out, ".{key}")?,
                Step::Index(index) => write!(out, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// A body that is not acceptable JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JsonError {
    /// The field at fault, such as `comments[0].text`; empty at the root.
    pub(super) path: String,
    /// What is wrong there.
    pub(super) reason: String,
}

/// Parses a whole body. `depth` is the most objects and arrays inside one another.
pub(super) fn parse(body: &[u8], depth: usize) -> Result<Value, JsonError> {
    let text = std::str::from_utf8(body).map_err(|error| JsonError {
        path: String::new(),
        reason: format!("the body is not UTF-8 at byte {}", error.valid_up_to()),
    })?;
    let mut path = Path::default();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let node = Node {
        path: &mut path,
        depth_left: depth,
    };
    node.deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| {
            let mut reason = String::new();
            // Writing to a string cannot fail.
            let _ = write!(reason, "invalid JSON: {error}");
            JsonError {
                path: path.to_string(),
                reason,
            }
        })
}

/// Builds one value. On an error `path` is left where the error is, so that it can be named.
struct Node<'a> {
    path: &'a mut Path,
    depth_left: usize,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let depth_left = deeper(self.depth_left)?;
        let mut list = Vec::new();
        loop {
            self.path.0.push(Step::Index(list.len()));
            let path = &mut *self.path;
            let Some(item) = items.next_element_seed(Node { path, depth_left })? else {
                break;
            };
            self.path.0.pop();
            list.push(item);
        }
        self.path.0.pop();
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let depth_left = deeper(self.depth_left)?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.path.0.push(Step::Key(key.clone()));
            if map.contains_key(&key) {
                return Err(A::Error::custom("the key appears twice"));
            }
            let path = &mut *self.path;
            map.insert(key, entries.next_value_seed(Node { path, depth_left })?);
            self.path.0.pop();
        }
        Ok(Value::Object(map))
    }
}

fn deeper<E: serde::de::Error>(depth_left: usize) -> Result<usize, E> {
    depth_left
        .checked_sub(1)
        .ok_or_else(|| E::custom("nested too deeply"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn failure(body: &str) -> JsonError {
        parse(body.as_bytes(), 64).expect_err(body)
    }

    #[test]
    fn keeps_values_and_key_order() {
        let body = br#"{"z":1,"a":[true,null,-2,1.5,"\u00e9"],"m":{}}"#;
        let value = parse(body, 64).unwrap();
        assert_eq!(value, json!({"z":1,"a":[true,null,-2,1.5,"\u{e9}"],"m":{}}));
        assert_eq!(
            value.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["z", "a", "m"]
        );
    }

    #[test]
    fn numbers_that_are_none_name_their_field() {
        for bad in [
            "NaN",
            "Infinity",
            "-Infinity",
            "1e999",
            "-1e999",
            "01",
            "+1",
            ".5",
        ] {
            let error = failure(&format!(
                r#"{{"messages":[{{"a":1}}],"temperature":{bad}}}"#
            ));
            assert_eq!(error.path, "temperature", "{bad}: {}", error.reason);
        }
    }

    #[test]
    fn duplicate_keys_are_refused_at_every_depth() {
        for (body, path) in [
            (r#"{"model":"a","model":"a"}"#, "model"),
            (r#"{"x":[0,{"a":{"b":1,"b":1}}]}"#, "x[1].a.b"),
            (r#"{"a":1,"\u0061":1}"#, "a"),
        ] {
            let error = failure(body);
            assert_eq!(error.path, path);
            assert!(error.reason.contains("twice"), "{}", error.reason);
        }
    }

    #[test]
    fn depth_is_bounded_before_the_stack_is() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(nested(64).as_bytes(), 64).is_ok());
        assert!(failure(&nested(65)).reason.contains("too deeply"));
        assert!(
            failure(&nested(100_000)).path.len() < 1000,
            "the path of a deep body is bounded too"
        );
        let objects = r#"{"a":"#.repeat(100_000);
        assert!(failure(&objects).reason.contains("too deeply"));
    }

    #[test]
    fn what_is_not_utf8_or_not_whole_is_refused() {
        assert!(
            parse(b"{\"a\":\"\xff\"}", 64)
                .unwrap_err()
                .reason
                .contains("UTF-8 at byte 6")
        );
        for bad in [
            "",
            "{",
            "{}{}",
            "{} x",
            "\u{feff}{}",
            r#"{"a":"\ud800"}"#,
            "{'a':1}",
            "{\"a\":1,}",
        ] {
            failure(bad);
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn reads_back_whatever_is_written(value in any_json()) {
            prop_assert_eq!(parse(value.to_string().as_bytes(), 64).unwrap(), value);
        }

        #[test]
        fn never_panics(body in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse(&body, 64);
        }
    }
}
