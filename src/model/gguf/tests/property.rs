//! Whatever the bytes: an answer or an error, never a panic; and what was written is what is read.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::super::testing::GgufBuilder;
use super::*;

/// Uses everything that a file offers. A file that opens must describe and read without a panic, and every tensor of it
/// lies in the file.
fn exercise(folder: &Path, bytes: &[u8]) {
    let path = testing::write(folder, bytes);
    let Ok(file) = GgufFile::open(&path) else {
        return;
    };
    let _ = file.tokenizer_parts();
    let _ = file.chat_template();
    let _ = describe(&file);
    for (key, _) in file.metadata().iter() {
        let _ = file.metadata().u32(key);
        let _ = file.metadata().f32(key);
    }
    let mut tensor_bytes = Vec::new();
    for tensor in file.tensors() {
        file.read_tensor(tensor, &mut tensor_bytes)
            .expect("a tensor of an opened file is in the file");
    }
}

fn small() -> GgufBuilder {
    with_vocabulary(GgufBuilder::new())
        .text("general.architecture", "llama")
        .u32("general.alignment", 32)
        .u32("llama.block_count", 1)
        .value("list", Value::Array(Array::U16(vec![1, 2])))
        .f32_tensor("a", &[2, 2], &[1.0; 4])
        .tensor("b", &[32], TensorKind::Q4_1, vec![0; 20])
}

fn check<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(&Path, S::Value)) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut runner = TestRunner::new(Config {
        failure_persistence: None,
        ..Config::with_cases(cases)
    });
    let outcome = runner.run(strategy, |value| {
        test(folder.path(), value);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn every_corruption_of_one_byte_is_survived() {
    let folder = tempfile::tempdir().unwrap();
    let whole = small().build();
    for at in 0..whole.len() {
        for changed in [
            0,
            1,
            0x7f,
            0x80,
            0xff,
            whole[at].wrapping_add(1),
            whole[at] ^ 0x20,
        ] {
            let mut bytes = whole.clone();
            bytes[at] = changed;
            exercise(folder.path(), &bytes);
        }
    }
}

#[test]
fn corruptions_of_several_bytes_are_survived() {
    let whole = small().build();
    let size = whole.len();
    check(
        1024,
        &vec((0..size, any::<u64>(), 1..9_usize), 1..4),
        |folder, changes| {
            let mut bytes = whole.clone();
            for (at, value, width) in changes {
                let end = (at + width).min(size);
                bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
            }
            exercise(folder, &bytes);
        },
    );
}

#[test]
fn arbitrary_bytes_behind_the_counts_are_survived() {
    let counts = (any::<[u8; 2]>(), vec(any::<u8>(), 0..600));
    check(512, &counts, |folder, ([tensors, keys], rest)| {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3_u32.to_le_bytes());
        bytes.extend(u64::from(tensors % 4).to_le_bytes());
        bytes.extend(u64::from(keys % 4).to_le_bytes());
        bytes.extend(&rest);
        exercise(folder, &bytes);
        exercise(folder, &rest);
    });
}

fn texts(words: Vec<String>) -> Array {
    let mut strings = Strings::default();
    words.iter().for_each(|word| strings.push(word));
    Array::Text(strings)
}

fn array() -> impl Strategy<Value = Array> {
    prop_oneof![
        vec(any::<u8>(), 0..5).prop_map(Array::U8),
        vec(any::<i16>(), 0..5).prop_map(Array::I16),
        vec(any::<u32>(), 0..5).prop_map(Array::U32),
        vec(any::<i32>(), 0..5).prop_map(Array::I32),
        vec(any::<i64>(), 0..5).prop_map(Array::I64),
        vec(any::<f32>(), 0..5).prop_map(Array::F32),
        vec(any::<f64>(), 0..5).prop_map(Array::F64),
        vec(any::<bool>(), 0..5).prop_map(Array::Bool),
        vec(any::<String>(), 0..5).prop_map(texts),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u8>().prop_map(Value::U8),
        any::<i8>().prop_map(Value::I8),
        any::<u16>().prop_map(Value::U16),
        any::<u32>().prop_map(Value::U32),
        any::<i32>().prop_map(Value::I32),
        any::<u64>().prop_map(Value::U64),
        any::<i64>().prop_map(Value::I64),
        any::<f32>().prop_map(Value::F32),
        any::<f64>().prop_map(Value::F64),
        any::<bool>().prop_map(Value::Bool),
        any::<String>().prop_map(Value::Text),
        array().prop_map(Value::Array),
    ]
}

#[test]
fn what_is_written_is_read() {
    let keys = btree_map("[a-z.]{1,12}", value(), 0..6);
    let tensors = btree_map("[a-z.]{1,12}", vec(any::<u8>(), 1..70), 0..5);
    check(
        256,
        &(keys, tensors, 0..8_u32),
        |folder, (keys, tensors, power)| {
            let mut builder = GgufBuilder::new().alignment(1 << power);
            for (key, value) in &keys {
                builder = builder.value(key, value.clone());
            }
            for (name, data) in &tensors {
                builder = builder.tensor(name, &[data.len() as u64], TensorKind::I8, data.clone());
            }
            let file = GgufFile::open(&builder.write(folder)).expect("a valid file");
            for (key, value) in &keys {
                assert_eq!(file.metadata().get(key), Some(value));
            }
            let mut read = Vec::new();
            for (name, data) in &tensors {
                file.read_tensor(file.tensor(name).expect("it was written"), &mut read)
                    .expect("it is in the file");
                assert_eq!(&read, data);
            }
            assert_eq!(file.tensors().len(), tensors.len());
        },
    );
}
