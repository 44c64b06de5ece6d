//! Types whose quants are taken apart into planes: the low four bits of each as in a 4-bit type, the bits above in lines
//! of their own, so that memory holds no more bits than the file.
//!
//! A unit is 32 inputs of the 16 rows of a tile: four lines of 64 bytes with inputs `k` in the low and `k + 16` in the
//! high nibbles, then a line for each bit above the fourth. There a byte holds those bits of the inputs at the same
//! place of four in successive groups of four inputs. The scales of a block of the file are 16 f16, 16 f16 minima where
//! the type has them, and for blocks of 256, for each unit, two lines of 16 bytes: factors of scale and minimum, or
//! factors of the scale for the first and the second half of the unit.

use crate::matrix::{TILE_ROWS, half_at};
use crate::quant::BLOCK;

/// Bytes of a line.
pub(crate) const LINE: usize = 4 * TILE_ROWS;

/// Lines of a unit that hold the low four bits.
pub(crate) const LOW_LINES: usize = 4;

/// What the bytes of a unit's factors mean.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Factors {
    /// There are none: scale and minimum are those of the block.
    None,
    /// Unsigned: of the scale, and of the minimum, which is subtracted.
    ScaleAndMin,
    /// Signed: of the scale, for each half of the unit.
    Halves,
}

/// What a kernel must know of a type at compile time. A weight is `scale * factor * (q - OFFSET) + min`.
pub(crate) trait Planes {
    /// Bits of a quant above the fourth.
    const HIGH: usize;
    /// Subtracted from every quant.
    const OFFSET: i32;
    /// Whether there is a minimum.
    const MIN: bool;
    /// Factors of a unit.
    const FACTORS: Factors;
    /// Bytes of a block in the file.
    const FILE_BYTES: usize;

    /// Units of a block in the file.
    const UNITS: usize = if matches!(Self::FACTORS, Factors::None) {
        1
    } else {
        8
    };
    /// Bytes of a unit's quants.
    const UNIT: usize = LINE * (LOW_LINES + Self::HIGH);
    /// Bytes of a block's f16 numbers in a tile.
    const HEADER: usize = TILE_ROWS * if Self::MIN { 4 } else { 2 };
    /// Bytes of a block's scales, minima and factors in a tile.
    const BLOCK_SCALES: usize = Self::HEADER
        + if matches!(Self::FACTORS, Factors::None) {
            0
        } else {
            Self::UNITS * 2 * TILE_ROWS
        };

    /// Takes a block of the file apart.
    fn read(block: &[u8]) -> Block;
}

/// A block of one row.
pub(crate) struct Block {
    /// Scale and minimum, f16.
    pub(crate) header: [[u8; 2]; 2],
    /// For each unit.
    pub(crate) factors: [[u8; 2]; 8],
    /// In the order of the inputs; types with one unit a block fill the first 32.
    pub(crate) quants: [u8; 8 * BLOCK],
}

impl Block {
    fn new(scale: &[u8], min: &[u8]) -> Self {
        Self {
            header: [[scale[0], scale[1]], [min[0], min[1]]],
            factors: [[0; 2]; 8],
            quants: [0; 8 * BLOCK],
        }
    }
}

/// Bytes of a block's quants and of its scales in a tile.
pub(crate) const fn sizes<P: Planes>() -> (usize, usize) {
    (P::UNITS * P::UNIT, P::BLOCK_SCALES)
}

pub(crate) struct Q5_0;
pub(crate) struct Q5_1;
#[allow(non_camel_case_types, reason = "the names that GGUF gives its types")]
pub(crate) struct Q4_K;
#[allow(non_camel_case_types, reason = "the names that GGUF gives its types")]
pub(crate) struct Q5_K;
#[allow(non_camel_case_types, reason = "the names that GGUF gives its types")]
pub(crate) struct Q6_K;

impl Planes for Q5_0 {
    const HIGH: usize = 1;
    const OFFSET: i32 = 16;
    const MIN: bool = false;
    const FACTORS: Factors = Factors::None;
    const FILE_BYTES: usize = 22;

    fn read(block: &[u8]) -> Block {
        let mut out = Block::new(block, block);
        fives(&block[2..6], &block[6..], &mut out.quants);
        out
    }
}

impl Planes for Q5_1 {
    const HIGH: usize = 1;
    const OFFSET: i32 = 0;
    const MIN: bool = true;
    const FACTORS: Factors = Factors::None;
    const FILE_BYTES: usize = 24;

    fn read(block: &[u8]) -> Block {
        let mut out = Block::new(block, &block[2..]);
        fives(&block[4..8], &block[8..], &mut out.quants);
        out
    }
}

/// Nibbles as in the other types of 32, input `k` with `k + 16`; the fifth bits are a word.
fn fives(high: &[u8], nibbles: &[u8], quants: &mut [u8]) {
    let bit = |k: usize| (high[k / 8] >> (k % 8) & 1) << 4;
    for (k, byte) in nibbles.iter().enumerate().take(BLOCK / 2) {
        quants[k] = byte & 15 | bit(k);
        quants[k + BLOCK / 2] = byte >> 4 | bit(k + BLOCK / 2);
    }
}

impl Planes for Q4_K {
    const HIGH: usize = 0;
    const OFFSET: i32 = 0;
    const MIN: bool = true;
    const FACTORS: Factors = Factors::ScaleAndMin;
    const FILE_BYTES: usize = 144;

    fn read(block: &[u8]) -> Block {
        let mut out = Block::new(block, &block[2..]);
        out.factors = sixes(&block[4..16]);
        pairs(&block[16..], &mut out.quants);
        out
    }
}

impl Planes for Q5_K {
    const HIGH: usize = 1;
    const OFFSET: i32 = 0;
    const MIN: bool = true;
    const FACTORS: Factors = Factors::ScaleAndMin;
    const FILE_BYTES: usize = 176;

    fn read(block: &[u8]) -> Block {
        let mut out = Block::new(block, &block[2..]);
        out.factors = sixes(&block[4..16]);
        pairs(&block[48..], &mut out.quants);
        // Bit `unit` of byte `k` is the fifth of input `k` of that unit.
        for (unit, quants) in out.quants.chunks_exact_mut(BLOCK).enumerate() {
            for (quant, bits) in quants.iter_mut().zip(&block[16..48]) {
                *quant |= (bits >> unit & 1) << 4;
            }
        }
        out
    }
}

/// 32 bytes hold two units, one in the low nibbles and the next in the high ones.
fn pairs(bytes: &[u8], quants: &mut [u8]) {
    for (bytes, quants) in bytes
        .chunks_exact(BLOCK)
        .zip(quants.chunks_exact_mut(2 * BLOCK))
    {
        let (low, high) = quants.split_at_mut(BLOCK);
        for ((byte, low), high) in bytes.iter().zip(low).zip(high) {
            (*low, *high) = (byte & 15, byte >> 4);
        }
    }
}

/// Factors of six bits: those of the first four units lie in the low bits of bytes 0..4 (scales) and 4..8 (minima); the
/// others' low nibbles are bytes 8..12, their two bits above in the tops of bytes 0..8.
fn sixes(bytes: &[u8]) -> [[u8; 2]; 8] {
    std::array::from_fn(|unit| match unit {
        0..4 => [bytes[unit] & 63, bytes[unit + 4] & 63],
        _ => [
            bytes[unit + 4] & 15 | bytes[unit - 4] >> 6 << 4,
            bytes[unit + 4] >> 4 | bytes[unit] >> 6 << 4,
        ],
    })
}

impl Planes for Q6_K {
    const HIGH: usize = 2;
    const OFFSET: i32 = 32;
    const MIN: bool = false;
    const FACTORS: Factors = Factors::Halves;
    const FILE_BYTES: usize = 210;

    fn read(block: &[u8]) -> Block {
        let scale = &block[208..];
        let mut out = Block::new(scale, scale);
        for (factors, bytes) in out.factors.iter_mut().zip(block[192..208].chunks_exact(2)) {
            factors.copy_from_slice(bytes);
        }
        // Four units at a time share 64 bytes of nibbles and 32 bytes with two bits of each unit.
        for (half, quants) in out.quants.chunks_exact_mut(4 * BLOCK).enumerate() {
            let (low, high) = (&block[64 * half..], &block[128 + 32 * half..]);
            for k in 0..BLOCK {
                let nibbles = [low[k] & 15, low[k + 32] & 15, low[k] >> 4, low[k + 32] >> 4];
                for (unit, nibble) in nibbles.into_iter().enumerate() {
                    quants[unit * BLOCK + k] = nibble | (high[k] >> (2 * unit) & 3) << 4;
                }
            }
        }
        out
    }
}

/// What a unit's quants of one row are multiplied with.
pub(crate) struct RowFactors {
    pub(crate) scale: f32,
    pub(crate) min: f32,
    /// For each half of the unit.
    pub(crate) halves: [i32; 2],
}

/// The factors of `unit` for row `lane` of the tile whose scales are `scales`.
#[inline]
pub(crate) fn factors<P: Planes>(scales: &[u8], unit: usize, lane: usize) -> RowFactors {
    let block = &scales[unit / P::UNITS * P::BLOCK_SCALES..][..P::BLOCK_SCALES];
    let scale = half_at(block, lane);
    let min = if P::MIN {
        half_at(block, TILE_ROWS + lane)
    } else {
        0.0
    };
    let byte = |line: usize| block[P::HEADER + (unit % P::UNITS * 2 + line) * TILE_ROWS + lane];
    match P::FACTORS {
        Factors::None => RowFactors {
            scale,
            min,
            halves: [1; 2],
        },
        // Both products are exact: 11 bits by 6.
        Factors::ScaleAndMin => RowFactors {
            scale: scale * f32::from(byte(0)),
            min: -min * f32::from(byte(1)),
            halves: [1; 2],
        },
        Factors::Halves => RowFactors {
            scale,
            min,
            halves: [0, 1].map(|half| i32::from(byte(half) as i8)),
        },
    }
}

/// Groups of four inputs whose bits above the fourth share a byte.
const fn steps_per_line(high: usize) -> usize {
    match high {
        0 => 8,
        bits => 8 / bits,
    }
}

/// The quant of input `k` in the unit whose lines are `quants`, for one row of the tile.
#[inline]
pub(crate) fn quant<P: Planes>(quants: &[u8], lane: usize, k: usize) -> i32 {
    let place = 4 * lane + k % 4;
    let byte = quants[k / 4 % LOW_LINES * LINE + place];
    let low = if k < BLOCK / 2 { byte & 15 } else { byte >> 4 };
    let steps = steps_per_line(P::HIGH);
    let high = if P::HIGH == 0 {
        0
    } else {
        let line = LOW_LINES + k / 4 / steps;
        quants[line * LINE + place] >> (k / 4 % steps * P::HIGH) & ((1 << P::HIGH) - 1)
    };
    i32::from(low | high << 4)
}

/// Puts one row's quants of a unit to their places among its lines, which are zero there.
pub(crate) fn put_quants<P: Planes>(lines: &mut [u8], lane: usize, quants: &[u8]) {
    let steps = steps_per_line(P::HIGH);
    for (k, quant) in quants.iter().enumerate() {
        let place = 4 * lane + k % 4;
        let nibble = if k < BLOCK / 2 { 0 } else { 4 };
        lines[k / 4 % LOW_LINES * LINE + place] |= (quant & 15) << nibble;
        if P::HIGH > 0 {
            let line = LOW_LINES + k / 4 / steps;
            lines[line * LINE + place] |= (quant >> 4) << (k / 4 % steps * P::HIGH);
        }
    }
}
