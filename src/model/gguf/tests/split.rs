//! Models in several files.

use std::fs;
use std::path::Path;

use super::super::testing::{GgufBuilder, write_parts};
use super::*;

fn model() -> GgufBuilder {
    GgufBuilder::new()
        .text("general.name", "tiny")
        .f32_tensor("a", &[2], &[1.0, 2.0])
        .f32_tensor("b", &[1], &[3.0])
        .f32_tensor("c", &[1], &[4.0])
        .f32_tensor("d", &[1], &[5.0])
}

/// Opens a model of three parts after a change to one of them.
fn open_changed(
    part: usize,
    change: impl Fn(GgufBuilder) -> GgufBuilder,
) -> Result<GgufFile, ModelFileError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut parts = model().split(3);
    parts[part - 1] = change(parts[part - 1].clone());
    GgufFile::open(&write_parts(folder.path(), &parts))
}

/// Checks that a change to a part is refused, naming that file, the field and the reason.
#[track_caller]
fn refused_change(
    part: usize,
    field: &str,
    reason: &str,
    change: impl Fn(GgufBuilder) -> GgufBuilder,
) {
    let error = open_changed(part, change).expect_err("the part is refused");
    let end = format!("model-0000{part}-of-00003.gguf: {field}: {reason}");
    assert!(error.to_string().ends_with(&end), "{error}, not {end}");
}

#[test]
fn the_first_part_opens_all() {
    let folder = tempfile::tempdir().unwrap();
    let first = write_parts(folder.path(), &model().alignment(64).split(3));
    let file = GgufFile::open(&first).unwrap();
    assert_eq!(file.name(), Some("tiny"));
    for (name, expected) in [("a", 1.0_f32), ("b", 3.0), ("c", 4.0), ("d", 5.0)] {
        let mut bytes = [0; 4];
        let tensor = file.tensor(name).expect("a tensor of some part");
        file.read_range(tensor, 0, &mut bytes).unwrap();
        assert_eq!(f32::from_le_bytes(bytes), expected, "{name}");
    }
    let sizes: u64 = file
        .parts()
        .map(|(path, ..)| fs::metadata(path).unwrap().len())
        .sum();
    assert_eq!(file.size(), sizes);
    let tensors: Vec<usize> = file.parts().map(|(.., tensors)| tensors).collect();
    assert_eq!(tensors, [2, 1, 1]);
    let text = describe(&file);
    assert!(
        text.contains("parts:           3\n    model-00001-of-00003.gguf, "),
        "{text}"
    );
    assert!(
        text.contains("    model-00003-of-00003.gguf, 0.2 kB, 1 tensors\n"),
        "{text}"
    );
    assert!(text.contains("parameters:      5 in 4 tensors\n"), "{text}");
}

#[test]
fn a_first_part_without_tensors_is_fine() {
    let folder = tempfile::tempdir().unwrap();
    let mut parts = vec![GgufBuilder::new().text("general.name", "tiny")];
    parts.push(GgufBuilder::new().f32_tensor("a", &[1], &[1.0]));
    let parts: Vec<_> = (0..)
        .zip(parts)
        .map(|(number, part)| {
            part.u32("split.no", number)
                .u32("split.count", 2)
                .u32("split.tensors.count", 1)
        })
        .collect();
    let file = GgufFile::open(&write_parts(folder.path(), &parts)).unwrap();
    assert_eq!(file.tensors().len(), 1);
}

#[test]
fn one_file_may_say_that_it_is_the_only_one() {
    for count in [0, 1] {
        let file = open(&model().u32("split.count", count).u32("split.no", 0)).unwrap();
        assert_eq!(file.parts().len(), 1);
        assert!(!describe(&file).contains("parts:"));
    }
}

#[test]
fn a_part_that_is_not_there_is_named() {
    for missing in [2, 3] {
        let folder = tempfile::tempdir().unwrap();
        let first = write_parts(folder.path(), &model().split(3));
        let name = format!("model-0000{missing}-of-00003.gguf");
        fs::remove_file(folder.path().join(&name)).unwrap();
        let error = GgufFile::open(&first).unwrap_err().to_string();
        let end = format!("{name}: file: no such file; it is part {missing} of 3");
        assert!(error.ends_with(&end), "{error}");
    }
}

#[test]
fn a_later_part_points_to_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let first = write_parts(folder.path(), &model().split(3));
    let second = folder.path().join("model-00002-of-00003.gguf");
    let error = GgufFile::open(&second).unwrap_err().to_string();
    let end = format!("split.no: part 2 of 3; open {}", first.display());
    assert!(error.ends_with(&end), "{error}");
}

#[test]
fn a_part_under_another_name_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let first = write_parts(folder.path(), &model().split(3));
    for name in [
        "model.gguf",
        "model-00001-of-00004.gguf",
        "model-00002-of-00003.gguf",
    ] {
        let path = folder.path().join(name);
        fs::copy(&first, &path).unwrap();
        let error = GgufFile::open(&path).unwrap_err().to_string();
        let end = format!("{name}: split.no: the name does not end in -00001-of-00003.gguf");
        assert!(error.ends_with(&end), "{error}");
    }
}

#[test]
fn parts_that_do_not_belong_together_are_refused_by_key() {
    let say = |key: &'static str, value: u32| {
        move |part: GgufBuilder| part.replace(key, Value::U32(value))
    };
    let says = |found: u32, expected: u32| {
        format!("{found} where the name and the first part say {expected}")
    };
    refused_change(2, "split.count", &says(4, 3), say("split.count", 4));
    refused_change(3, "split.no", &says(1, 2), say("split.no", 1));
    refused_change(
        2,
        "split.tensors.count",
        &says(9, 4),
        say("split.tensors.count", 9),
    );
    refused_change(1, "split.no", "3 in a model of 3 parts", say("split.no", 3));
    refused_change(
        1,
        "split.count",
        "70000 exceeds 512",
        say("split.count", 70_000),
    );
    refused_change(
        1,
        "split.tensors.count",
        "70000 exceeds 65536",
        say("split.tensors.count", 70_000),
    );
    refused_change(
        2,
        "general.name",
        "is not what the first part says",
        |part| part.text("general.name", "other"),
    );
    refused_change(3, "a", "occurs twice", |part| {
        part.without_tensor("c").f32_tensor("a", &[1], &[1.0])
    });
    for key in ["split.no", "split.tensors.count"] {
        refused_change(1, key, "missing", |part| part.without(key));
        refused_change(2, key, "missing", |part| part.without(key));
    }
    refused_change(
        2,
        "split.no",
        "expected an integer of 32 unsigned bits, found string",
        |part| part.replace("split.no", Value::Text("1".to_owned())),
    );
}

#[test]
fn tensors_that_are_missing_or_too_many_are_counted() {
    let promise = |total: &str| {
        format!("split.tensors.count: 4 tensors are promised, the parts have {total}")
    };
    let fewer = open_changed(3, |part| part.without_tensor("c")).unwrap_err();
    assert!(fewer.to_string().ends_with(&promise("3")), "{fewer}");
    let more = open_changed(2, |part| part.f32_tensor("e", &[1], &[1.0])).unwrap_err();
    assert!(more.to_string().ends_with(&promise("5")), "{more}");
}

#[test]
fn a_malformed_part_names_itself() {
    let folder = tempfile::tempdir().unwrap();
    let first = write_parts(folder.path(), &model().split(3));
    let cut = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
    };
    cut(&folder.path().join("model-00002-of-00003.gguf"));
    let error = GgufFile::open(&first).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("model-00002-of-00003.gguf: b: file is truncated"),
        "{error}"
    );
}

#[test]
fn an_error_about_a_tensor_names_the_file_that_it_lies_in() {
    let folder = tempfile::tempdir().unwrap();
    let first = write_parts(folder.path(), &model().split(3));
    let file = GgufFile::open(&first).unwrap();
    let third = folder.path().join("model-00003-of-00003.gguf");
    assert_eq!(file.error("c", Fault::Missing).path, third);
    assert_eq!(file.error("nobody", Fault::Missing).path, first);
    fs::write(&third, b"GGUF").unwrap();
    let error = file
        .read_tensor(file.tensor("c").unwrap(), &mut Vec::new())
        .unwrap_err();
    assert_eq!(error.path, third);
    assert!(
        matches!(error.fault, Fault::Truncated { actual: 4, .. }),
        "{error}"
    );
}
