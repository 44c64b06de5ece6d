//! What a well-formed file gives back, and that every other file is refused.

mod describe;
mod layout;
mod malformed;
mod property;
mod split;
mod tokenizer;

use super::testing::GgufBuilder;
use super::*;

/// Opens what `builder` writes.
fn open(builder: &GgufBuilder) -> Result<GgufFile, ModelFileError> {
    open_bytes(&builder.build())
}

/// Opens a file of these bytes.
fn open_bytes(bytes: &[u8]) -> Result<GgufFile, ModelFileError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    GgufFile::open(&testing::write(folder.path(), bytes))
}

/// Opens a file that must be refused; checks that the message starts with file and field.
fn refused(bytes: &[u8], field: &str) -> ModelFileError {
    let error = open_bytes(bytes).expect_err("the file is refused");
    assert!(
        error
            .to_string()
            .contains(&format!("model.gguf: {field}: ")),
        "{error}"
    );
    error
}

/// Metadata of a vocabulary of three.
fn with_vocabulary(builder: GgufBuilder) -> GgufBuilder {
    builder
        .text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", "smollm")
        .strings("tokenizer.ggml.tokens", &["<|end|>", "a", "\u{120}b"])
        .i32s("tokenizer.ggml.token_type", &[3, 1, 1])
        .strings("tokenizer.ggml.merges", &["\u{120} b"])
        .u32("tokenizer.ggml.eos_token_id", 0)
}

#[test]
fn a_written_file_reads_back() {
    for version in [2, 3] {
        let builder = GgufBuilder::new()
            .version(version)
            .text("general.name", "tiny")
            .u32("llama.block_count", 2)
            .f32("llama.rope.freq_base", 1e5)
            .f32_tensor("a", &[3], &[1.0, 2.0, 3.0])
            .tensor("b", &[32, 2], TensorKind::Q8_0, (0..68).collect());
        let file = open(&builder).expect("a valid file");
        assert_eq!(file.version(), version);
        assert_eq!(file.name(), Some("tiny"));
        assert_eq!(file.metadata().u32("llama.block_count").unwrap(), 2);
        assert_eq!(file.metadata().f32("llama.rope.freq_base").unwrap(), 1e5);
        let tensor = file.tensor("b").expect("b exists");
        assert_eq!(tensor.dims, [32, 2]);
        assert_eq!(
            (tensor.kind, tensor.bytes, tensor.elements()),
            (TensorKind::Q8_0, 68, 64)
        );
        let mut bytes = vec![9; 3];
        file.read_tensor(tensor, &mut bytes).unwrap();
        assert_eq!(bytes, (0..68).collect::<Vec<u8>>());
        let mut piece = [0; 4];
        file.read_range(tensor, 64, &mut piece).unwrap();
        assert_eq!(piece, [64, 65, 66, 67]);
        assert!(file.tensor("c").is_none());
        let names: Vec<_> = file
            .tensors()
            .iter()
            .map(|tensor| tensor.name.as_str())
            .collect();
        assert_eq!(names, ["a", "b"]);
    }
}

#[test]
fn an_integer_of_any_width_is_taken_where_it_fits() {
    let builder = GgufBuilder::new()
        .value("u8", Value::U8(7))
        .value("i64", Value::I64(7))
        .value("large", Value::U64(1 << 40))
        .value("negative", Value::I32(-1));
    let file = open(&builder).unwrap();
    let metadata = file.metadata();
    assert_eq!(metadata.u32("u8").unwrap(), 7);
    assert_eq!(metadata.u32("i64").unwrap(), 7);
    assert_eq!(metadata.u64("large").unwrap(), 1 << 40);
    assert!(matches!(
        metadata.u32("large").unwrap_err().fault,
        Fault::Invalid(_)
    ));
    assert!(matches!(
        metadata.u64("negative").unwrap_err().fault,
        Fault::Invalid(_)
    ));
}

#[test]
fn a_getter_names_file_and_key_of_what_is_missing_or_of_another_type() {
    let builder = GgufBuilder::new().text("text", "x").u32("number", 1);
    let file = open(&builder).unwrap();
    let metadata = file.metadata();
    let missing = metadata.u32("absent").unwrap_err();
    assert!(
        missing.to_string().ends_with("model.gguf: absent: missing"),
        "{missing}"
    );
    let wrong = metadata.u32("text").unwrap_err().to_string();
    assert!(
        wrong.ends_with("model.gguf: text: expected an integer of 32 unsigned bits, found string"),
        "{wrong}"
    );
    assert!(matches!(
        metadata.f32("number").unwrap_err().fault,
        Fault::WrongType { .. }
    ));
    assert!(matches!(
        metadata.opt_str("number").unwrap_err().fault,
        Fault::WrongType { .. }
    ));
    assert!(matches!(
        metadata.bool("number").unwrap_err().fault,
        Fault::WrongType { .. }
    ));
    assert_eq!(metadata.opt_u32("absent").unwrap(), None);
}

#[test]
fn all_missing_hyper_parameters_are_listed_at_once() {
    let file = open(&GgufBuilder::new().u32("llama.block_count", 1)).unwrap();
    let keys = [
        "llama.context_length",
        "llama.block_count",
        "llama.embedding_length",
    ];
    let error = file
        .metadata()
        .require("llama", &keys)
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("llama: missing llama.context_length, llama.embedding_length"),
        "{error}"
    );
    assert!(
        file.metadata()
            .require("llama", &["llama.block_count"])
            .is_ok()
    );
}

#[test]
fn a_key_for_people_of_another_type_is_left_out() {
    let builder = GgufBuilder::new()
        .u32("general.name", 1)
        .text("general.file_type", "Q4_K_M");
    let file = open(&builder).expect("such a key does not make the file unusable");
    assert_eq!(file.name(), None);
}

#[test]
fn a_file_truncated_after_opening_gives_sizes_and_no_signal() {
    let folder = tempfile::tempdir().unwrap();
    let path = GgufBuilder::new()
        .f32_tensor("a", &[4], &[1.0; 4])
        .write(folder.path());
    let file = GgufFile::open(&path).unwrap();
    let size = file.size();
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(size - 1)
        .unwrap();
    let error = file
        .read_tensor(&file.tensors()[0], &mut Vec::new())
        .unwrap_err();
    let Fault::Truncated { expected, actual } = error.fault else {
        panic!("{error}");
    };
    assert_eq!((expected, actual), (size, size - 1));
}

#[test]
fn a_range_outside_its_tensor_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = GgufBuilder::new()
        .f32_tensor("a", &[4], &[1.0; 4])
        .write(folder.path());
    let file = GgufFile::open(&path).unwrap();
    let tensor = &file.tensors()[0];
    for (start, length) in [(0, 17), (16, 1), (u64::MAX, 1)] {
        let error = file
            .read_range(tensor, start, &mut vec![0; length])
            .unwrap_err();
        assert!(matches!(error.fault, Fault::Invalid(_)), "{error}");
    }
    assert!(file.read_range(tensor, 16, &mut []).is_ok());
}

#[test]
fn what_cannot_be_opened_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let reason = |path: &Path| GgufFile::open(path).unwrap_err().to_string();
    assert!(
        reason(&folder.path().join("absent.gguf")).ends_with("absent.gguf: file: no such file")
    );
    assert!(reason(folder.path()).ends_with("file: is a directory, not a model file"));
    assert!(reason(Path::new("/dev/null")).ends_with("file: is not a regular file"));
    let denied = Fault::Io(io::ErrorKind::PermissionDenied.into());
    assert_eq!(denied.to_string(), "permission denied");
}

#[test]
fn every_kind_is_known_by_its_number_only() {
    for kind in TensorKind::ALL {
        assert_eq!(TensorKind::from_id(kind.id()), Some(*kind));
        assert_eq!(
            kind.bytes(&[kind.block_elements(), 3]),
            Some(kind.block_bytes() * 3)
        );
    }
    // Numbers of layouts that were withdrawn.
    for id in [4, 5, 31, 32, 33, 36, 37, 38, 43, u32::MAX] {
        assert_eq!(TensorKind::from_id(id), None);
    }
}
