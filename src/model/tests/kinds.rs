//! A model computes with weights of every kind, alone and mixed.

use compere_cpu::Isa;

use super::agreement::cosines;
use super::reference::{Inputs, half};
use super::tiny::{TINY, Tiny};
use super::{Piece, alone, bits, forward, runner};
use crate::model::gguf::TensorKind;
use crate::model::gguf::testing::write_parts;

static KINDS: [TensorKind; 11] = [
    TensorKind::F32,
    TensorKind::F16,
    TensorKind::BF16,
    TensorKind::Q8_0,
    TensorKind::Q4_0,
    TensorKind::Q4_1,
    TensorKind::Q5_0,
    TensorKind::Q5_1,
    TensorKind::Q4_K,
    TensorKind::Q5_K,
    TensorKind::Q6_K,
];

/// Every kind alone, and all in turns.
fn mixtures() -> impl Iterator<Item = &'static [TensorKind]> {
    let alone = KINDS.iter().map(std::slice::from_ref);
    alone.chain([KINDS.as_slice()])
}

/// Widths that blocks of 256 divide.
fn wide(kinds: &'static [TensorKind]) -> Tiny {
    Tiny {
        heads: 4,
        kv_heads: 2,
        head_dim: 64,
        width: 256,
        hidden: 512,
        kinds,
        ..TINY
    }
}

fn tokens(count: u32) -> Vec<u32> {
    (0..count)
        .map(|i| (i * 29 + 3) % TINY.vocab as u32)
        .collect()
}

#[test]
fn a_model_of_every_kind_agrees_with_a_plain_decoder() {
    for kinds in mixtures() {
        let folder = tempfile::tempdir().unwrap();
        let path = wide(kinds).builder().write(folder.path());
        for inputs in [Inputs::Exact, Inputs::Rounded] {
            let all = cosines(&path, &tokens(9), inputs);
            assert!(
                all.iter().all(|&x| x > 0.999),
                "{kinds:?} {inputs:?}: {all:?}"
            );
        }
    }
}

#[test]
fn a_model_of_every_kind_gives_the_same_bits_everywhere_and_in_pieces() {
    for kinds in mixtures() {
        let folder = tempfile::tempdir().unwrap();
        let path = wide(kinds).builder().write(folder.path());
        let tokens = tokens(27);
        let want = bits(&alone(
            &mut runner(Isa::available()[0], 1, &path),
            &tokens,
            0,
        ));
        for isa in Isa::available() {
            let mut runner = runner(isa, 2, &path);
            assert_eq!(
                bits(&alone(&mut runner, &tokens, 0)),
                want,
                "{kinds:?} {isa:?}"
            );
            for (position, token) in tokens.iter().enumerate() {
                let piece = Piece {
                    tokens: vec![*token],
                    position,
                    blocks: vec![1],
                };
                let one = bits(&forward(&mut runner, &[piece]));
                assert_eq!(
                    one[0], want[position],
                    "{kinds:?} {isa:?} position {position}"
                );
            }
        }
    }
}

/// Norms are floats in most files, but a file may say otherwise.
#[test]
fn norms_may_be_of_any_kind() {
    let tokens = tokens(5);
    let logits = |kind: TensorKind, data: Vec<u8>| {
        let folder = tempfile::tempdir().unwrap();
        let norm = "output_norm.weight";
        let file = TINY.builder().without_tensor(norm);
        let file = file.tensor(norm, &[TINY.width as u64], kind, data);
        let path = file.write(folder.path());
        bits(&alone(&mut runner(Isa::best(), 1, &path), &tokens, 0))
    };
    let width = TINY.width;
    let twos = logits(TensorKind::F32, 2_f32.to_le_bytes().repeat(width));
    let bf16 = &2_f32.to_le_bytes()[2..];
    assert_eq!(logits(TensorKind::BF16, bf16.repeat(width)), twos);
    assert_eq!(logits(TensorKind::F16, [0, 0x40].repeat(width)), twos);
    let block = [&[0, 0x40][..], &[1; 32]].concat();
    assert_eq!(logits(TensorKind::Q8_0, block.repeat(width / 32)), twos);
}

#[test]
fn a_model_in_several_files_is_the_model_in_one() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = tokens(9);
    let whole = TINY.builder().write(folder.path());
    let first = write_parts(folder.path(), &TINY.builder().split(3));
    let logits = |path| bits(&alone(&mut runner(Isa::best(), 2, path), &tokens, 0));
    assert_eq!(logits(&first), logits(&whole));
}

/// The numbers of a block of a kind that is kept in more than four bits or in blocks of 256.
pub(super) fn numbers(kind: TensorKind, block: &[u8]) -> Vec<f32> {
    let at = |at: usize| half(u16::from_le_bytes([block[at], block[at + 1]]));
    let bit = |bytes: &[u8], index: usize| f32::from(bytes[index / 8] >> (index % 8) & 1);
    let nibble = |bytes: &[u8], index: usize, apart: usize| {
        let byte = bytes[index / (2 * apart) * apart + index % apart];
        let shift = index / apart % 2 * 4;
        f32::from(byte >> shift & 15)
    };
    match kind {
        TensorKind::BF16 => vec![f32::from_le_bytes([0, 0, block[0], block[1]])],
        TensorKind::Q5_0 => (0..32)
            .map(|i| at(0) * (nibble(&block[6..], i, 16) + 16.0 * bit(&block[2..], i) - 16.0))
            .collect(),
        TensorKind::Q5_1 => (0..32)
            .map(|i| at(0) * (nibble(&block[8..], i, 16) + 16.0 * bit(&block[4..], i)) + at(2))
            .collect(),
        TensorKind::Q4_K | TensorKind::Q5_K => (0..256)
            .map(|i| {
                let [scale, min] = six_bits(&block[4..16], i / 32);
                let quant = match kind {
                    TensorKind::Q4_K => nibble(&block[16..], i, 32),
                    _ => {
                        nibble(&block[48..], i, 32) + 16.0 * bit(&block[16..], i % 32 * 8 + i / 32)
                    }
                };
                at(0) * scale * quant - at(2) * min
            })
            .collect(),
        TensorKind::Q6_K => (0..256)
            .map(|i| {
                let two = block[128 + i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
                let quant = nibble(block, i, 64) + 16.0 * f32::from(two) - 32.0;
                at(208) * f32::from(block[192 + i / 16] as i8) * quant
            })
            .collect(),
        other => panic!("no numbers of {other}"),
    }
}

/// Scale and minimum of one of eight sub-blocks.
fn six_bits(bytes: &[u8], index: usize) -> [f32; 2] {
    let [low, middle, high] = [0, 4, 8].map(|at| bytes[at + index % 4]);
    let pair = if index < 4 {
        [low & 63, middle & 63]
    } else {
        [low >> 6 << 4 | high & 15, middle >> 6 << 4 | high >> 4]
    };
    pair.map(f32::from)
}
