//! Weights as numbers, straight from the bytes of a file by the definition of each type, and those that the format's
//! reference package gives for the same bytes.

use crate::quant::half::to_f32;
use crate::{Matrix, WeightKind};

/// One row as the file format defines it.
pub(super) fn definition(kind: WeightKind, row: &[u8]) -> Vec<f64> {
    row.chunks_exact(kind.block_bytes())
        .flat_map(|block| numbers(kind, block))
        .collect()
}

fn half(bytes: &[u8]) -> f64 {
    f64::from(to_f32(u16::from_le_bytes([bytes[0], bytes[1]])))
}

fn numbers(kind: WeightKind, block: &[u8]) -> Vec<f64> {
    let nibble = |bytes: &[u8], k: usize| {
        f64::from(if k < 16 {
            bytes[k] & 15
        } else {
            bytes[k - 16] >> 4
        })
    };
    let fifth = |bytes: &[u8], k: usize| {
        let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        f64::from((word >> k & 1) * 16)
    };
    let d = half(block);
    match kind {
        WeightKind::F32 => vec![f64::from(f32::from_le_bytes([
            block[0], block[1], block[2], block[3],
        ]))],
        WeightKind::F16 => vec![d],
        WeightKind::BF16 => vec![f64::from(f32::from_le_bytes([0, 0, block[0], block[1]]))],
        WeightKind::Q8_0 => block[2..].iter().map(|q| d * f64::from(*q as i8)).collect(),
        WeightKind::Q4_0 => (0..32)
            .map(|k| d * (nibble(&block[2..], k) - 8.0))
            .collect(),
        WeightKind::Q4_1 => (0..32)
            .map(|k| d * nibble(&block[4..], k) + half(&block[2..]))
            .collect(),
        WeightKind::Q5_0 => (0..32)
            .map(|k| d * (nibble(&block[6..], k) + fifth(&block[2..], k) - 16.0))
            .collect(),
        WeightKind::Q5_1 => (0..32)
            .map(|k| d * (nibble(&block[8..], k) + fifth(&block[4..], k)) + half(&block[2..]))
            .collect(),
        WeightKind::Q4_K => with_six_bit_factors(block, &block[16..], None),
        WeightKind::Q5_K => with_six_bit_factors(block, &block[48..], Some(&block[16..48])),
        WeightKind::Q6_K => six_bits(block),
    }
}

/// 256 weights whose low bits are `low` and whose fifth ones, if any, are in `high`.
fn with_six_bit_factors(block: &[u8], low: &[u8], high: Option<&[u8]>) -> Vec<f64> {
    let factors = &block[4..16];
    (0..256)
        .map(|i| {
            let (sub, k) = (i / 32, i % 32);
            let (scale, min) = if sub < 4 {
                (factors[sub] % 64, factors[sub + 4] % 64)
            } else {
                (
                    factors[sub + 4] % 16 + 16 * (factors[sub - 4] / 64),
                    factors[sub + 4] / 16 + 16 * (factors[sub] / 64),
                )
            };
            let byte = low[i / 64 * 32 + k];
            let nibble = if sub % 2 == 0 { byte % 16 } else { byte / 16 };
            let fifth = high.map_or(0, |high| high[k] >> sub & 1);
            half(block) * f64::from(scale) * f64::from(nibble + 16 * fifth)
                - half(&block[2..]) * f64::from(min)
        })
        .collect()
}

fn six_bits(block: &[u8]) -> Vec<f64> {
    (0..256)
        .map(|i| {
            let (part, within) = (i / 128, i % 128);
            let byte = block[64 * part + within % 64];
            let nibble = if within < 64 { byte % 16 } else { byte / 16 };
            let high = block[128 + 32 * part + within % 32] >> (within / 32 * 2) & 3;
            let scale = f64::from(block[192 + i / 16] as i8);
            half(&block[208..]) * scale * (f64::from(nibble + 16 * high) - 32.0)
        })
        .collect()
}

/// Blocks of every kind and their numbers, made by `make_blocks.py` with the reference package: for each kind an
/// id of one byte, a count of numbers (u16), the blocks, the numbers (f32).
const BLOCKS: &[u8] = include_bytes!("../../../fixtures/blocks.bin");

#[test]
fn numbers_are_those_of_the_reference_package() {
    let kinds = [
        (0, WeightKind::F32),
        (1, WeightKind::F16),
        (2, WeightKind::Q4_0),
        (3, WeightKind::Q4_1),
        (6, WeightKind::Q5_0),
        (7, WeightKind::Q5_1),
        (8, WeightKind::Q8_0),
        (12, WeightKind::Q4_K),
        (13, WeightKind::Q5_K),
        (14, WeightKind::Q6_K),
        (30, WeightKind::BF16),
    ];
    let mut rest = BLOCKS;
    for (id, kind) in kinds {
        assert_eq!(rest[0], id, "{kind:?}");
        let cols = usize::from(u16::from_le_bytes([rest[1], rest[2]]));
        let (blocks, after) = rest[3..].split_at(cols / kind.block() * kind.block_bytes());
        let (expected, after) = after.split_at(4 * cols);
        rest = after;
        let expected = expected
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes));
        let mut row = vec![0.0; cols];
        Matrix::pack(kind, 1, cols, blocks)
            .unwrap()
            .row(0, &mut row);
        let defined = definition(kind, blocks);
        for (k, ((got, defined), want)) in row.iter().zip(defined).zip(expected).enumerate() {
            let close = f64::from(want.abs()) * 3e-7 + 1e-9;
            assert!(
                (f64::from(got - want)).abs() <= close,
                "{kind:?} {k}: {got} for {want}"
            );
            assert!(
                (defined - f64::from(want)).abs() <= close,
                "{kind:?} {k}: {defined} for {want}"
            );
        }
    }
    assert!(rest.is_empty());
}
