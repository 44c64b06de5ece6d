//! Tensor tables that do not fit together or not into the file.

use super::super::testing::GgufBuilder;
use super::*;

#[test]
fn an_alignment_that_is_no_power_of_two_is_refused() {
    for alignment in [0, 3, 48, u32::MAX] {
        let file = GgufBuilder::new()
            .text("general.name", "align-test")
            .u32("general.alignment", alignment);
        refused(&file.build(), "general.alignment");
    }
}

#[test]
fn an_alignment_of_another_type_is_refused() {
    for value in [
        Value::I32(32),
        Value::U64(32),
        Value::Text("32".to_owned()),
        Value::F32(32.0),
    ] {
        let file = GgufBuilder::new().value("general.alignment", value);
        assert!(matches!(
            refused(&file.build(), "general.alignment").fault,
            Fault::WrongType { .. }
        ));
    }
}

#[test]
fn every_alignment_that_is_a_power_of_two_places_the_data() {
    for alignment in [1, 8, 32, 4096] {
        let builder = GgufBuilder::new()
            .alignment(alignment)
            .f32_tensor("a", &[1], &[1.0])
            .f32_tensor("b", &[1], &[2.0]);
        let file = open(&builder).unwrap();
        let tensor = file.tensor("b").unwrap();
        assert!(tensor.offset.is_multiple_of(u64::from(alignment)));
        assert_eq!(tensor.bytes, 4);
    }
    // No tensors, so nothing to place, whatever the alignment.
    open(&GgufBuilder::new().alignment(1 << 31)).unwrap();
}

/// Products that wrap around 64 bits to a size that is in the file.
#[test]
fn axes_whose_product_overflows_are_refused() {
    let wrapping: [&[u64]; 5] = [
        &[64, (1 << 58) + 1],
        &[1 << 62, 16],
        &[u64::MAX],
        &[1 << 32, 1 << 32, 1],
        &[2, 2, 1 << 31, (1 << 31) + 1],
    ];
    for dims in wrapping {
        let file = GgufBuilder::new().raw_tensor("token_embd.weight", dims, 0, vec![0; 256], None);
        refused(&file.build(), "token_embd.weight");
    }
}

#[test]
fn a_size_beyond_the_file_is_refused_with_both_sizes() {
    for dims in [&[65_u64][..], &[64, 1 << 57], &[1 << 40]] {
        let file = GgufBuilder::new().raw_tensor("t", dims, 0, vec![0; 256], None);
        let error = refused(&file.build(), "t");
        assert!(
            matches!(error.fault, Fault::Truncated { .. } | Fault::Invalid(_)),
            "{error}"
        );
    }
}

#[test]
fn axes_that_are_zero_or_too_many_are_refused() {
    for dims in [&[0_u64][..], &[0, 4], &[4, 0], &[1, 1, 1, 0]] {
        let file = GgufBuilder::new().raw_tensor("t", dims, 0, vec![0; 64], None);
        assert!(refused(&file.build(), "t").to_string().contains("is zero"));
    }
    let file = GgufBuilder::new().raw_tensor("t", &[1; 5], 0, vec![0; 64], None);
    assert!(
        refused(&file.build(), "t")
            .to_string()
            .contains("5 axes, more than 4")
    );
    open(&GgufBuilder::new().f32_tensor("t", &[1; 4], &[0.0])).unwrap();
    open(&GgufBuilder::new().f32_tensor("scalar", &[], &[0.0])).unwrap();
}

#[test]
fn rows_that_are_no_whole_blocks_are_refused() {
    for (kind, axis) in [
        (TensorKind::Q8_0, 33),
        (TensorKind::Q4_K, 32),
        (TensorKind::Q4_0, 1),
    ] {
        let file = GgufBuilder::new().tensor("t", &[axis, 32], kind, vec![0; 8192]);
        assert!(
            refused(&file.build(), "t")
                .to_string()
                .contains("is not a multiple of")
        );
    }
}

#[test]
fn offsets_that_are_misaligned_outside_or_overflow_are_refused() {
    for offset in [1, 31, 33] {
        let file = GgufBuilder::new().raw_tensor("t", &[1], 0, vec![0; 64], Some(offset));
        assert!(
            refused(&file.build(), "t")
                .to_string()
                .contains("alignment")
        );
    }
    for offset in [64, 1 << 40, u64::MAX - 31] {
        let file = GgufBuilder::new().raw_tensor("t", &[16], 0, vec![0; 64], Some(offset));
        refused(&file.build(), "t");
    }
}

#[test]
fn tensors_that_share_bytes_are_refused() {
    let file = GgufBuilder::new()
        .raw_tensor("first", &[16], 0, vec![0; 64], None)
        .raw_tensor("second", &[16], 0, vec![0; 64], Some(32));
    assert!(
        refused(&file.build(), "second")
            .to_string()
            .contains("shares bytes with first")
    );
    let same = GgufBuilder::new()
        .raw_tensor("first", &[16], 0, vec![0; 64], None)
        .raw_tensor("second", &[16], 0, vec![0; 64], Some(0));
    assert!(
        refused(&same.build(), "second")
            .to_string()
            .contains("shares bytes")
    );
}

#[test]
fn tensors_may_lie_in_another_order_than_their_table() {
    let file = GgufBuilder::new()
        .raw_tensor("late", &[1], 0, 1_f32.to_le_bytes().to_vec(), Some(32))
        .raw_tensor("early", &[1], 0, 2_f32.to_le_bytes().to_vec(), Some(0));
    let folder = tempfile::tempdir().unwrap();
    let file = GgufFile::open(&file.write(folder.path())).unwrap();
    let mut bytes = Vec::new();
    file.read_tensor(file.tensor("late").unwrap(), &mut bytes)
        .unwrap();
    assert_eq!(bytes, 2_f32.to_le_bytes());
}
