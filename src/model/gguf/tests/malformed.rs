//! Headers that lie or end early.

use super::super::testing::{GgufBuilder, put_text};
use super::*;

/// Magic, version 3 and two counts, with nothing behind.
fn counts(tensors: u64, keys: u64) -> Vec<u8> {
    let mut out = b"GGUF".to_vec();
    out.extend(3_u32.to_le_bytes());
    out.extend(tensors.to_le_bytes());
    out.extend(keys.to_le_bytes());
    out
}

/// A file of one key with a raw value: type number and bytes.
fn one_key(key: &str, kind: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = counts(0, 1);
    put_text(&mut out, key);
    out.extend(kind.to_le_bytes());
    out.extend(bytes);
    out
}

#[test]
fn what_is_not_a_gguf_file_is_told_apart() {
    for (bytes, what) in [
        (
            &b"version https://git-lfs.github.com/spec/v1\n"[..],
            "git-lfs pointer",
        ),
        (b"PK\x03\x04rest", "zip archive"),
        (b"<!DOCTYPE html>", "web page"),
        (b"tjgg\x03\x00\x00\x00", "before GGUF"),
        (b"\x00\x01\x02\x03", "starts with \"\\x00\\x01\\x02\\x03\""),
    ] {
        let error = refused(bytes, "magic").to_string();
        assert!(error.contains(what), "{error}");
    }
    assert!(matches!(
        refused(b"", "magic").fault,
        Fault::Truncated {
            expected: 4,
            actual: 0
        }
    ));
}

#[test]
fn other_versions_and_byte_orders_are_refused_by_name() {
    for (version, what) in [
        (0_u32, "version 0"),
        (1, "version 1"),
        (4, "version 4"),
        (3_u32.swap_bytes(), "a big-endian file"),
        (2_u32.swap_bytes(), "a big-endian file"),
    ] {
        let error = refused(&GgufBuilder::new().version(version).build(), "version");
        assert_eq!(error.fault.to_string(), format!("{what} is not supported"));
    }
}

#[test]
fn counts_beyond_the_file_are_refused_before_anything_is_allocated() {
    for count in [1, 1 << 31, 1 << 61, 1 << 63, u64::MAX] {
        refused(&counts(count, 0), "tensor count");
        refused(&counts(0, count), "metadata count");
    }
}

#[test]
fn more_keys_or_tensors_than_any_model_has_are_refused() {
    let mut keys = counts(0, 16_385);
    keys.resize(2 << 20, 0);
    refused(&keys, "metadata count");
    let mut tensors = counts(16_385, 0);
    tensors.resize(4 << 20, 0);
    refused(&tensors, "tensor count");
}

#[test]
fn lengths_beyond_the_file_are_refused() {
    let length = |length: u64| length.to_le_bytes();
    for claimed in [9, 1 << 32, 1 << 63, u64::MAX] {
        let mut key = counts(0, 1);
        key.extend(length(claimed));
        key.extend([b'k'; 8]);
        refused(&key, "metadata key 0");
        refused(&one_key("text", 8, &length(claimed)), "text");
        for element in 0..=12_u32 {
            let mut array = element.to_le_bytes().to_vec();
            array.extend(length(claimed));
            refused(&one_key("array", 9, &array), "array");
        }
        let mut element = 8_u32.to_le_bytes().to_vec();
        element.extend(length(1));
        element.extend(length(claimed));
        refused(&one_key("element", 9, &element), "element");
    }
}

/// A sparse file has any size, so that a bound by the file's size alone would allow any allocation.
#[test]
fn a_sparse_file_does_not_make_us_allocate_what_it_claims() {
    let folder = tempfile::tempdir().unwrap();
    let claims = [
        one_key("text", 8, &(1_u64 << 39).to_le_bytes()),
        one_key(
            "numbers",
            9,
            &[0_u32.to_le_bytes().as_slice(), &(1_u64 << 39).to_le_bytes()].concat(),
        ),
        one_key(
            "strings",
            9,
            &[8_u32.to_le_bytes().as_slice(), &(1_u64 << 36).to_le_bytes()].concat(),
        ),
        counts(1 << 33, 0),
        counts(0, 1 << 33),
    ];
    for bytes in claims {
        let path = testing::write(folder.path(), &bytes);
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(1 << 40).unwrap();
        let error = GgufFile::open(&path).unwrap_err();
        assert!(matches!(error.fault, Fault::Invalid(_)), "{error}");
    }
}

#[test]
fn a_file_cut_anywhere_is_refused_with_both_sizes_where_they_are_known() {
    let builder = with_vocabulary(GgufBuilder::new()).f32_tensor("a", &[2], &[1.0, 2.0]);
    let whole = builder.build();
    open_bytes(&whole).expect("the whole file is valid");
    let header = builder.header().len();
    for length in 0..whole.len() {
        let error = open_bytes(&whole[..length]).expect_err("a cut file is refused");
        if length >= header {
            let (expected, actual) = (whole.len() as u64, length as u64);
            let message =
                format!("a: file is truncated: expected at least {expected} bytes, has {actual}");
            assert!(error.to_string().ends_with(&message), "{error}");
        }
    }
}

#[test]
fn a_name_that_occurs_twice_is_refused() {
    let keys = GgufBuilder::new().u32("k", 1).u32("k", 1);
    assert!(matches!(
        refused(&keys.build(), "k").fault,
        Fault::Duplicate
    ));
    let tensors = GgufBuilder::new()
        .f32_tensor("t", &[1], &[0.0])
        .f32_tensor("t", &[1], &[0.0]);
    assert!(matches!(
        refused(&tensors.build(), "t").fault,
        Fault::Duplicate
    ));
}

#[test]
fn text_that_is_not_utf8_is_refused_wherever_it_stands() {
    let broken = |mut bytes: Vec<u8>| {
        let at = bytes
            .windows(2)
            .position(|pair| pair == b"??")
            .expect("the mark is there");
        bytes[at] = 0xff;
        bytes
    };
    let key = GgufBuilder::new().u32("??", 1).build();
    refused(&broken(key), "metadata key 0");
    let text = GgufBuilder::new().text("text", "??").build();
    refused(&broken(text), "text");
    let element = GgufBuilder::new().strings("list", &["a", "??"]).build();
    refused(&broken(element), "list");
    let tensor = GgufBuilder::new().f32_tensor("??", &[1], &[0.0]).build();
    refused(&broken(tensor), "tensor 0");
    // Two halves of one character are no text, though together they are.
    let halves = GgufBuilder::new().strings("list", &["?", "?"]).build();
    let mut halves = halves;
    let first = halves.len() - 10;
    halves[first] = 0xc3;
    *halves.last_mut().unwrap() = 0xa9;
    refused(&halves, "list");
}

#[test]
fn unknown_types_are_refused_by_number() {
    assert_eq!(
        refused(&one_key("k", 13, &[0; 8]), "k").fault.to_string(),
        "value type 13 is not supported"
    );
    let array = |kind: u32| [kind.to_le_bytes().as_slice(), &0_u64.to_le_bytes()].concat();
    refused(&one_key("k", 9, &array(13)), "k");
    let nested = refused(&one_key("k", 9, &array(9)), "k").fault.to_string();
    assert_eq!(nested, "an array of arrays is not supported");
    for id in [4, 31, 99, u32::MAX] {
        let tensor = GgufBuilder::new().raw_tensor("t", &[1], id, vec![0; 4], None);
        let fault = refused(&tensor.build(), "t").fault.to_string();
        assert_eq!(fault, format!("tensor type {id} is not supported"));
    }
}

#[test]
fn a_bool_is_zero_or_one() {
    refused(&one_key("flag", 7, &[2]), "flag");
    let array = [7_u32.to_le_bytes().as_slice(), &1_u64.to_le_bytes(), &[255]].concat();
    refused(&one_key("flags", 9, &array), "flags");
}

#[test]
fn empty_names_are_refused() {
    refused(&GgufBuilder::new().u32("", 1).build(), "metadata key 0");
    refused(
        &GgufBuilder::new().f32_tensor("", &[1], &[0.0]).build(),
        "tensor 0",
    );
}

#[test]
fn a_name_in_a_message_is_short_and_printable() {
    let name = format!("evil\u{1b}[2J\n{}", "x".repeat(200));
    let tensor = GgufBuilder::new().raw_tensor(&name, &[0], 0, vec![], None);
    let error = open(&tensor).unwrap_err().to_string();
    assert!(
        error.contains("evil\\u{1b}[2J\\nxxx") && error.contains("xxx...: "),
        "{error}"
    );
    assert!(!error.contains('\u{1b}') && !error.contains('\n'));
}

/// Bounds must not cost more than the bytes: a million strings are read in one pass, into the room that they take.
#[test]
fn a_vocabulary_of_a_million_is_read() {
    let words: Vec<String> = (0..1_000_000).map(|index| format!("{index:08}")).collect();
    let file = open(&GgufBuilder::new().strings("tokenizer.ggml.tokens", &words)).unwrap();
    let read = file.metadata().strings("tokenizer.ggml.tokens").unwrap();
    assert_eq!(read.len(), words.len());
    assert_eq!(read.get(999_999), Some("00999999"));
    assert_eq!(read.get(1_000_000), None);
}
