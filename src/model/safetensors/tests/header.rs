//! Headers that lie or end early.

use super::*;
use crate::model::gguf::Fault;
use crate::model::safetensors::header::{length, parse};

/// The message about a file of these bytes.
fn refused(bytes: &[u8]) -> String {
    let message = check_header(bytes).expect_err("it is refused").to_string();
    message
        .strip_prefix("(bytes): ")
        .expect("the file is named")
        .to_owned()
}

/// The message about one tensor `t` that states this, of 8 bytes of data.
fn stated(tensor: &str) -> String {
    refused(&file(&format!("{{\"t\":{tensor}}}"), 8))
}

#[test]
fn a_file_of_tensors_one_after_the_other_is_taken_in_any_order() {
    let (header, data) = table(&[("b", &[2, 3]), ("a", &[]), ("empty", &[0, 4]), ("c", &[1])]);
    check_header(&file(&header, data)).unwrap();
    check_header(&file(&format!("{header}   "), data)).unwrap();
    check_header(&file("{\"__metadata__\":{\"format\":\"pt\"}}", 0)).unwrap();
    let entries = parse(header.as_bytes(), data as u64).unwrap();
    let names: Vec<&str> = entries.iter().map(|entry| &*entry.name).collect();
    assert_eq!(names, ["b", "a", "empty", "c"]);
}

#[test]
fn a_name_that_occurs_twice_is_refused_as_such() {
    let twice = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#;
    assert_eq!(refused(&file(twice, 8)), "a: occurs twice");
    // However it is spelt.
    let spelt = twice.replacen("\"a\"", "\"\\u0061\"", 1);
    assert_eq!(refused(&file(&spelt, 8)), "a: occurs twice");
    let metadata = r#"{"__metadata__":{},"__metadata__":{}}"#;
    assert_eq!(refused(&file(metadata, 0)), "__metadata__: occurs twice");
    let member = r#"{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}"#;
    assert!(stated(member).starts_with("t: duplicate field `dtype`"));
}

#[test]
fn a_length_beyond_the_file_the_format_or_reason_is_refused_before_it_is_believed() {
    let long = |length: u64| refused(&[&length.to_le_bytes()[..], b"{}"].concat());
    assert_eq!(
        long(3),
        "header length: file is truncated: expected at least 11 bytes, has 10"
    );
    for length in [100_000_001, 1 << 32, 1 << 63, u64::MAX] {
        let message = format!("header length: {length} bytes; the format allows 100000000");
        assert_eq!(long(length), message);
    }
    let whole = (17_u64 << 20).to_le_bytes();
    let problem = length(whole, 1 << 40).unwrap_err();
    assert!(matches!(problem.fault, Fault::Unsupported(_)));
    assert!(refused(b"").contains("expected at least 8 bytes, has 0"));
    assert_eq!(refused(&[0; 8]), "header: does not start with `{`");
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let (header, data) = table(&[("a", &[2]), ("b", &[3])]);
    let whole = file(&header, data);
    check_header(&whole).unwrap();
    for length in 0..whole.len() {
        check_header(&whole[..length]).unwrap_err();
    }
    let cut = refused(&whole[..whole.len() - 1]);
    assert_eq!(
        cut,
        "b: file is truncated: expected at least 20 bytes, has 19"
    );
    let longer = refused(&[&whole[..], &[0]].concat());
    assert_eq!(
        longer,
        "tensor data: 21 bytes, of which the tensors take 20"
    );
}

#[test]
fn other_formats_are_told_apart() {
    for (start, what) in [
        (
            &b"version https://git-lfs.github.com/spec/v1"[..],
            "git-lfs pointer",
        ),
        (b"PK\x03\x04\x00\x00\x00\x00\x00\x00", "PyTorch"),
        (b"GGUF\x03\x00\x00\x00\x00", "GGUF"),
        (b"<!DOCTYPE html>", "web page"),
    ] {
        assert!(refused(start).contains(what), "{}", refused(start));
    }
}

#[test]
fn offsets_shapes_and_types_must_agree() {
    let cases = [
        (
            "[0,8]",
            "[3]",
            "data_offsets [0, 8] are not 12 bytes apart, as [3] of F32 takes",
        ),
        ("[0,4]", "[2]", "data_offsets [0, 4] are not 8 bytes apart"),
        ("[8,0]", "[2]", "data_offsets [8, 0] are not 8 bytes apart"),
        (
            "[4,12]",
            "[2]",
            "starts at 4 where 0 is expected: it leaves a gap before it",
        ),
        (
            "[0,16]",
            "[4]",
            "file is truncated: expected at least 16 bytes, has 8",
        ),
        (
            "[0,8]",
            "[4611686018427387905,2]",
            "size of [4611686018427387905, 2] as F32 does not fit 64 bits",
        ),
        (
            "[0,8]",
            "[18446744073709551615,18446744073709551615]",
            "does not fit 64 bits",
        ),
        (
            "[18446744073709551612,18446744073709551615]",
            "[1]",
            "are not 4 bytes apart",
        ),
        (
            "[18446744073709551608,18446744073709551612]",
            "[1]",
            "it leaves a gap before it",
        ),
        ("[0,8]", "[-2]", "invalid value: integer `-2`"),
        ("[0,8]", "[2.0]", "invalid type: floating point"),
        ("[0,8]", "[1e2]", "invalid type: floating point"),
        ("[0,8]", "[18446744073709551616]", "expected u64"),
        ("[0,8]", "\"2\"", "expected a shape of up to 8 axes"),
        ("[0,8]", "[2,1,1,1,1,1,1,1,1]", "invalid length 9"),
        ("[0,8,8]", "[2]", "trailing characters"),
        ("[0]", "[2]", "invalid length 1"),
    ];
    for (offsets, shape, reason) in cases {
        let message = stated(&format!(
            r#"{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}"#
        ));
        assert!(
            message.starts_with("t: ") && message.contains(reason),
            "{message} for {shape}"
        );
    }
    let sixth = stated(r#"{"dtype":"F6_E2M3","shape":[8],"data_offsets":[0,8]}"#);
    assert_eq!(sixth, "t: dtype \"F6_E2M3\" is not supported");
    let missing = stated(r#"{"dtype":"F32","shape":[2]}"#);
    assert!(
        missing.starts_with("t: missing field `data_offsets`"),
        "{missing}"
    );
    let unknown = stated(r#"{"dtype":"F32","shape":[2],"data_offsets":[0,8],"strides":[1]}"#);
    assert!(
        unknown.starts_with("t: unknown field `strides`"),
        "{unknown}"
    );
}

#[test]
fn tensors_that_share_bytes_are_refused() {
    let both = |second: &str| {
        let header = format!(
            r#"{{"a":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}},"b":{{"dtype":"F32","shape":[1],"data_offsets":{second}}}}}"#
        );
        refused(&file(&header, 12))
    };
    assert!(both("[4,8]").starts_with("b: starts at 4 where 8 is expected: it shares bytes"));
    assert!(both("[0,4]").contains("it shares bytes with the tensor before it"));
}

#[test]
fn what_is_not_json_is_refused_with_its_place() {
    assert!(refused(&file("{\"a\":", 0)).starts_with("a: EOF while parsing"));
    assert!(refused(&file("{}x", 0)).starts_with("header: trailing characters at line 1 column 3"));
    assert!(refused(&file("{\"\u{1}\":1}", 0)).starts_with("header: control character"));
    assert!(refused(&file("{\"\":{}}", 0)).contains("a name of 0 bytes"));
    let long = format!("{{\"{}\":{{}}}}", "n".repeat(256));
    assert!(refused(&file(&long, 0)).contains("a name of 256 bytes"));
    let mut broken = file("{\"a\":1}", 0);
    broken[10] = 0xff;
    check_header(&broken).unwrap_err();
    assert!(
        refused(&file("{\"__metadata__\":{\"a\":[]}}", 0))
            .starts_with("__metadata__: invalid type")
    );
}

/// Deep nesting would overflow the stack of a parser that follows it.
#[test]
fn nesting_without_end_is_refused() {
    for open in ["[", "{\"a\":"] {
        let deep = open.repeat(1 << 20);
        for header in [
            format!("{{\"t\":{deep}"),
            format!("{{\"__metadata__\":{{\"k\":{deep}"),
        ] {
            check_header(&file(&header, 0)).unwrap_err();
        }
        let Err(error) = Document::parse(Path::new("c"), format!("{{\"a\":{deep}").as_bytes())
        else {
            panic!("it is refused");
        };
        assert!(error.to_string().contains("recursion limit"), "{error}");
    }
}
