//! What a well-formed file gives back.

use super::testing::GgufBuilder;
use super::*;

fn open(builder: &GgufBuilder) -> Result<GgufFile, ModelFileError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    GgufFile::open(&builder.write(folder.path()))
}

#[test]
fn a_written_file_reads_back() {
    let builder = GgufBuilder::new()
        .text("general.name", "tiny")
        .u32("llama.block_count", 2)
        .f32("llama.rope.freq_base", 1e5)
        .f32_tensor("a", &[3], &[1.0, 2.0, 3.0])
        .tensor("b", &[32, 2], TensorKind::Q8_0, (0..68).collect());
    let file = open(&builder).expect("a valid file");
    assert_eq!(file.name(), Some("tiny"));
    assert_eq!(file.metadata().u32("llama.block_count").unwrap(), 2);
    assert_eq!(file.metadata().f32("llama.rope.freq_base").unwrap(), 1e5);
    let tensor = file.tensor("b").expect("b exists");
    assert_eq!(
        (tensor.dims.as_slice(), tensor.kind, tensor.bytes),
        ([32, 2].as_slice(), TensorKind::Q8_0, 68)
    );
    let mut bytes = vec![9; 3];
    file.read_tensor(tensor, &mut bytes).unwrap();
    assert_eq!(bytes, (0..68).collect::<Vec<u8>>());
    let mut piece = [0; 4];
    file.read_range(tensor, 64, &mut piece).unwrap();
    assert_eq!(piece, [64, 65, 66, 67]);
    assert!(file.tensor("c").is_none());
}
