//! Blocks against the reference's, and a quantised model against the plain one.

use std::path::Path;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::model::gguf::GgufFile;
use crate::model::gguf::testing::GgufBuilder;
use crate::model::safetensors::SafetensorsModel;

const KINDS: [TensorKind; 3] = [TensorKind::Q8_0, TensorKind::Q4_0, TensorKind::Q4_1];

fn bytes(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().unwrap();
    let pairs = (0..hex.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

#[test]
fn blocks_are_those_of_the_reference_quantiser() {
    let fixture: Value =
        serde_json::from_str(include_str!("../../../tests/fixtures/blocks.json")).unwrap();
    for kind in KINDS {
        let numbers = fixture["numbers"].as_array().unwrap();
        for (row, numbers) in numbers.iter().enumerate() {
            let numbers: Vec<f32> = Float::F32.numbers(&bytes(numbers)).collect();
            let expected = bytes(&fixture[kind.name()][row]);
            let mut block = vec![0xaa; expected.len()];
            assert!(blocks::write(
                kind,
                numbers.as_slice().try_into().unwrap(),
                &mut block
            ));
            assert_eq!(block, expected, "row {row} as {kind}");
        }
    }
}

/// What a block stands for.
fn restored(kind: TensorKind, block: &[u8]) -> Vec<f32> {
    let half =
        |at: usize| crate::model::float::from_half(u16::from_le_bytes([block[at], block[at + 1]]));
    let nibbles = |bytes: &[u8]| -> Vec<f32> {
        let low = bytes.iter().map(|byte| f32::from(byte & 15));
        low.chain(bytes.iter().map(|byte| f32::from(byte >> 4)))
            .collect()
    };
    match kind {
        TensorKind::Q8_0 => block[2..]
            .iter()
            .map(|quant| f32::from(*quant as i8) * half(0))
            .collect(),
        TensorKind::Q4_0 => nibbles(&block[2..])
            .iter()
            .map(|quant| (quant - 8.0) * half(0))
            .collect(),
        _ => nibbles(&block[4..])
            .iter()
            .map(|quant| quant * half(0) + half(2))
            .collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    /// No number moves further than its step allows, wherever the numbers lie.
    #[test]
    fn numbers_stay_within_a_step(numbers in prop::array::uniform32(-1.0_f32..1.0), power in -10..10_i32, shift in -2.0_f32..2.0) {
        let numbers = numbers.map(|x| (x + shift) * 2.0_f32.powi(power));
        let size = numbers.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let (least, most) = numbers.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(a, b), x| (a.min(*x), b.max(*x)));
        // Half a step; a whole one for the far end of a block whose largest number is on the other side. The scale is
        // rounded to a half, which the last of its steps feels most; the least of halves are 2^-24 apart.
        for (kind, step) in [(TensorKind::Q8_0, size / 254.0), (TensorKind::Q4_0, size / 8.0), (TensorKind::Q4_1, (most - least) / 30.0)] {
            let mut block = vec![0; kind.block_bytes() as usize];
            prop_assert!(blocks::write(kind, &numbers, &mut block));
            for (before, after) in numbers.iter().zip(restored(kind, &block)) {
                let apart = (before - after).abs();
                prop_assert!(apart <= step * 1.001 + size / 1024.0 + 4e-6, "{before} became {after} as {kind}");
            }
        }
    }
}

#[test]
fn what_has_no_block_is_refused_with_its_row() {
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30] {
        for quantise in Quantise::ALL {
            let mut numbers = vec![0.5; 3 * 64];
            numbers[2 * 64 + 40] = wrong;
            let folder = tempfile::tempdir().unwrap();
            let path = GgufBuilder::new()
                .f32_tensor("w", &[64, 3], &numbers)
                .write(folder.path());
            let file = GgufFile::open(&path).unwrap();
            let shown = Quantised::new(&file, quantise).unwrap();
            let tensor = shown.tensor("w").unwrap();
            let error = shown
                .read_tensor(tensor, &mut Vec::new())
                .unwrap_err()
                .to_string();
            let kind = quantise.kind();
            assert!(
                error.ends_with(&format!(
                    "w: row 2 holds a number too large for {kind}, or none"
                )),
                "{error}"
            );
        }
    }
}

#[test]
fn matrices_that_cannot_be_quantised_are_named() {
    let shown = |file: GgufBuilder| {
        let folder = tempfile::tempdir().unwrap();
        let file = GgufFile::open(&file.write(folder.path())).unwrap();
        Quantised::new(&file, Quantise::Q8_0)
            .map(drop)
            .map_err(|error| error.to_string())
    };
    let already = GgufBuilder::new().tensor("w", &[32, 1], TensorKind::Q4_1, vec![0; 20]);
    let error = shown(already).unwrap_err();
    assert!(
        error.ends_with("w: quantising weights of kind Q4_1 to q8_0 is not supported"),
        "{error}"
    );
    let partial = GgufBuilder::new().f32_tensor("w", &[33, 1], &[0.0; 33]);
    let error = shown(partial).unwrap_err();
    assert!(
        error.ends_with("w: rows of 33 are not whole blocks of Q8_0"),
        "{error}"
    );
    shown(GgufBuilder::new().f32_tensor("norm", &[33], &[0.0; 33])).unwrap();
}

fn tiny() -> SafetensorsModel {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny/llama-llama3");
    SafetensorsModel::open(&folder).unwrap()
}

/// A file of the same model, quantised by somebody else and stored.
fn stored(model: &dyn Checkpoint, quantise: Quantise) -> GgufBuilder {
    let mut file = GgufBuilder::new();
    for (key, value) in model.metadata().iter() {
        file = file.value(key, value.clone());
    }
    for tensor in model.tensors() {
        let mut bytes = Vec::new();
        model.read_tensor(tensor, &mut bytes).unwrap();
        if tensor.dims.len() < 2 {
            file = file.tensor(&tensor.name, &tensor.dims, tensor.kind, bytes);
            continue;
        }
        let kind = quantise.kind_of(&tensor.name);
        let numbers: Vec<f32> = Float::of(tensor.kind).unwrap().numbers(&bytes).collect();
        let mut data = Vec::new();
        for block in numbers.chunks(32) {
            let start = data.len();
            data.resize(start + kind.block_bytes() as usize, 0);
            assert!(blocks::write(
                kind,
                block.try_into().unwrap(),
                &mut data[start..]
            ));
        }
        file = file.tensor(&tensor.name, &tensor.dims, kind, data);
    }
    file
}

#[test]
fn quantised_while_read_is_quantised_beforehand() {
    let model = tiny();
    for quantise in Quantise::ALL {
        let folder = tempfile::tempdir().unwrap();
        let file = GgufFile::open(&stored(&model, quantise).write(folder.path())).unwrap();
        let shown = Quantised::new(&model, quantise).unwrap();
        for tensor in shown.tensors() {
            let other = file.tensor(&tensor.name).unwrap();
            assert_eq!((tensor.kind, &tensor.dims), (other.kind, &other.dims));
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            shown.read_tensor(tensor, &mut ours).unwrap();
            file.read_tensor(other, &mut theirs).unwrap();
            assert_eq!(ours, theirs, "{} as {quantise}", tensor.name);
        }
        assert_eq!(
            shown.tensor("token_embd.weight").unwrap().kind,
            TensorKind::Q8_0
        );
    }
}

#[test]
fn names_are_read_and_others_refused() {
    for quantise in Quantise::ALL {
        assert_eq!(quantise.name().parse(), Ok(quantise));
    }
    let error = "Q8_0".parse::<Quantise>().unwrap_err();
    assert_eq!(error, "\"Q8_0\" is none of q8_0, q4_0, q4_1");
}
