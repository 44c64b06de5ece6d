//! JSON as models read it best: raw letters of every script, `", "` and `": "`, keys in the order they were written.

use std::io;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

/// Writes a value on one line.
///
/// # Panics
/// Never for JSON values: their keys are texts.
#[must_use]
pub fn to_json(value: &serde_json::Value) -> String {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, Spaced);
    value
        .serialize(&mut serializer)
        .expect("a JSON value is written to memory");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first {
            Ok(())
        } else {
            writer.write_all(b", ")
        }
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first {
            Ok(())
        } else {
            writer.write_all(b", ")
        }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn letters_stay_letters_and_order_stays_order() {
        let value = json!({"z": "直播 <b>&'\"\n", "a": [1, 2.5, null, true, {}], "m": {"k": []}});
        let expected = r#"{"z": "直播 <b>&'\"\n", "a": [1, 2.5, null, true, {}], "m": {"k": []}}"#;
        assert_eq!(super::to_json(&value), expected);
    }
}
