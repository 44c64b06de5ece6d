//! Folders: what is in them, and in which files.

use super::*;
use crate::model::gguf::GgufFile;

/// Everything that a decoder reads is what the converter wrote: keys, names, shapes, the order of rows, the numbers.
#[test]
fn a_checkpoint_looks_like_the_gguf_file_made_of_it() {
    for folder in fs::read_dir(fixtures()).unwrap() {
        let folder = folder.unwrap().path();
        let gguf = GgufFile::open(&folder.join("model.gguf")).unwrap();
        let model = SafetensorsModel::open(&folder).unwrap();
        let at = folder.display();
        let mut names: Vec<&str> = model.tensors().iter().map(|tensor| &*tensor.name).collect();
        let mut expected: Vec<&str> = gguf.tensors().iter().map(|tensor| &*tensor.name).collect();
        names.sort_unstable();
        expected.sort_unstable();
        assert_eq!(names, expected, "{at}");
        for tensor in model.tensors() {
            let other = gguf.tensor(&tensor.name).unwrap();
            assert_eq!(tensor.dims, other.dims, "{} of {at}", tensor.name);
            assert_eq!(
                numbers(&model, tensor),
                numbers(&gguf, other),
                "{} of {at}",
                tensor.name
            );
        }
        for (key, value) in gguf.metadata().iter() {
            // Sizes that follow from others, or that only the other format states.
            let derived = ["vocab_size", "rope.dimension_count"]
                .iter()
                .any(|end| key.ends_with(end));
            if derived || key.starts_with("tokenizer.") || key.starts_with("GGUF.") {
                continue;
            }
            assert_eq!(model.metadata().get(key), Some(value), "{key} of {at}");
        }
    }
}

/// Whole rows in any pieces are the same bytes.
#[test]
fn pieces_of_a_tensor_are_the_tensor() {
    for name in ["llama", "llama-llama3", "gemma3"] {
        let model = SafetensorsModel::open(&fixtures().join(name)).unwrap();
        for tensor in model.tensors() {
            let mut whole = Vec::new();
            model.read_tensor(tensor, &mut whole).unwrap();
            let row = whole.len() / tensor.dims.get(1).map_or(1, |rows| *rows as usize);
            let mut pieces = vec![0; whole.len()];
            for (index, piece) in pieces.chunks_mut(3 * row).enumerate() {
                model
                    .read_range(tensor, (index * 3 * row) as u64, piece)
                    .unwrap();
            }
            assert_eq!(pieces, whole, "{}", tensor.name);
            let after = model.read_range(tensor, whole.len() as u64, &mut [0; 4]);
            assert!(after.is_err(), "{}", tensor.name);
        }
    }
}

/// What is done to an index.
type Change = fn(&mut Value);

/// Writes two shards of two tensors each, and the index.
fn sharded(change: impl FnOnce(&mut Value)) -> Copy {
    let copy = Copy::of("llama");
    fs::remove_file(copy.path().join("model.safetensors")).unwrap();
    for (name, tensors) in [
        ("one.safetensors", ["a", "b"]),
        ("two.safetensors", ["c", "d"]),
    ] {
        let (header, data) = table(&tensors.map(|name| (name, &[2][..])));
        fs::write(copy.path().join(name), file(&header, data)).unwrap();
    }
    let mut index = json!({"metadata": {"total_size": 32}, "weight_map": {
        "a": "one.safetensors", "b": "one.safetensors", "c": "two.safetensors", "d": "two.safetensors"}});
    change(&mut index);
    fs::write(
        copy.path().join("model.safetensors.index.json"),
        index.to_string(),
    )
    .unwrap();
    copy
}

#[test]
fn shards_are_opened_as_the_index_names_them() {
    let copy = sharded(|_| ());
    let shards = Shards::in_folder(copy.path()).unwrap();
    let found: Vec<(usize, &str)> = shards
        .entries
        .iter()
        .map(|(file, entry)| (*file, &*entry.name))
        .collect();
    assert_eq!(found, [(0, "a"), (0, "b"), (1, "c"), (1, "d")]);
    // None of these is a tensor that a decoder knows.
    assert_eq!(
        copy.refused(),
        "one.safetensors: a: a tensor that this decoder does not use is not supported"
    );
}

#[test]
fn shards_and_index_must_agree() {
    let index = "model.safetensors.index.json: ";
    let cases: [(Change, &str); 6] = [
        (
            |index| index["weight_map"]["e"] = json!("two.safetensors"),
            "e: is not in two.safetensors, where weight_map has it",
        ),
        (
            |index| index["weight_map"]["a"] = json!("two.safetensors"),
            "a: is in one.safetensors, where weight_map does not have it",
        ),
        (
            |index| drop(index["weight_map"].as_object_mut().unwrap().remove("d")),
            "d: is in two.safetensors, where weight_map does not have it",
        ),
        (
            |index| index["weight_map"] = json!(["a"]),
            "json: invalid type: sequence, expected an object of tensor names",
        ),
        (
            |index| index["weight_map"]["a"] = json!(1),
            "json: invalid type: integer `1`, expected a string",
        ),
        (
            |index| drop(index.as_object_mut().unwrap().remove("weight_map")),
            "json: missing field `weight_map`",
        ),
    ];
    for (change, reason) in cases {
        let message = sharded(change).refused();
        assert!(
            message.starts_with(&format!("{index}{reason}")),
            "{message}"
        );
    }
    let missing = sharded(|index| index["weight_map"]["c"] = json!("three.safetensors")).refused();
    // Shards are opened in the order of the index.
    assert_eq!(missing, "three.safetensors: file: no such file");
}

#[test]
fn a_shard_lies_beside_the_index_and_nowhere_else() {
    for name in [
        "../one.safetensors",
        "/etc/one.safetensors",
        "sub/one.safetensors",
        ".safetensors",
        "a\\b.safetensors",
        "one.bin",
        "",
        "a\0.safetensors",
    ] {
        let copy = sharded(|index| index["weight_map"]["a"] = json!(name));
        let message = copy.refused();
        assert!(
            message.starts_with("model.safetensors.index.json: weight_map: ")
                && message.ends_with("is not the name of a .safetensors file in the folder"),
            "{message}"
        );
    }
}

#[test]
fn a_tensor_that_the_index_names_twice_is_refused() {
    let copy = sharded(|_| ());
    let twice = r#"{"weight_map":{"a":"one.safetensors","a":"two.safetensors"}}"#;
    fs::write(copy.path().join("model.safetensors.index.json"), twice).unwrap();
    let message = copy.refused();
    assert!(
        message.contains("weight_map: \"a\" occurs twice"),
        "{message}"
    );
}

#[test]
fn a_folder_without_weights_or_configuration_says_so() {
    let copy = Copy::of("llama");
    fs::remove_file(copy.path().join("config.json")).unwrap();
    assert_eq!(copy.refused(), "config.json: file: no such file");
    fs::remove_file(copy.path().join("model.safetensors")).unwrap();
    let message = copy.refused();
    assert!(message.ends_with(
        "weights: there is no model.safetensors in the folder, and no model.safetensors.index.json"
    ));
}

#[test]
fn one_file_is_opened_with_what_lies_beside_it() {
    let copy = Copy::of("llama");
    let whole = SafetensorsModel::open(copy.path()).unwrap().tensors().len();
    let other = copy.path().join("other.safetensors");
    fs::rename(copy.path().join("model.safetensors"), &other).unwrap();
    assert_eq!(
        SafetensorsModel::open(&other).unwrap().tensors().len(),
        whole
    );
    // Its own faults come first.
    fs::remove_file(copy.path().join("config.json")).unwrap();
    let twice = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#;
    fs::write(&other, file(twice, 8)).unwrap();
    let error = SafetensorsModel::open(&other).unwrap_err().to_string();
    assert!(
        error.ends_with("other.safetensors: a: occurs twice"),
        "{error}"
    );
}

#[test]
fn a_file_cut_under_us_is_an_error_and_not_a_signal() {
    let copy = Copy::of("llama");
    let model = SafetensorsModel::open(copy.path()).unwrap();
    let path = copy.path().join("model.safetensors");
    let size = fs::metadata(&path).unwrap().len();
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(size / 2)
        .unwrap();
    let errors: Vec<String> = model
        .tensors()
        .iter()
        .filter_map(|tensor| model.read_tensor(tensor, &mut Vec::new()).err())
        .map(|error| error.to_string())
        .collect();
    assert!(!errors.is_empty());
    let sizes = format!(
        "file is truncated: expected at least {size} bytes, has {}",
        size / 2
    );
    assert!(
        errors
            .iter()
            .all(|error| error.contains("model.safetensors: ") && error.ends_with(&sizes)),
        "{errors:?}"
    );
}
