//! Products with F32 and F16 weights.
//!
//! Whatever the vector width, an output is four sums, of the inputs `k` with `k % 4` = 0, 1, 2, 3 in ascending order,
//! each step a multiplication and an addition, and then `(s0 + s1) + (s2 + s3)`.

use std::ops::Range;

use super::OutView;
use super::isa::Path;
use crate::activations::Activations;
use crate::matrix::{Matrix, TILE_ROWS};
use crate::quant::WeightKind;
use crate::quant::half::to_f32;

/// Independent sums per output.
const SUMS: usize = 4;

/// Tokens that are computed together, so that each weight is read and converted once for all of them.
const TOKENS: usize = 4;

type Column = [f32; TILE_ROWS];

/// # Safety
/// The ranges exist, the input is float, every output has a place, nobody else writes it, and the processor has what
/// `path` needs.
pub(super) unsafe fn multiply(
    path: Path,
    weights: &Matrix,
    tiles: Range<usize>,
    input: &Activations,
    tokens: Range<usize>,
    out: &OutView<'_>,
) {
    let f16 = weights.kind() == WeightKind::F16;
    for tile in tiles {
        let bytes = weights.tile(tile);
        let row = tile * TILE_ROWS;
        let rows = TILE_ROWS.min(weights.rows() - row);
        let mut token = tokens.start;
        while token < tokens.end {
            let count = TOKENS.min(tokens.end - token);
            // A missing token repeats the first; its result is not stored.
            let inputs =
                std::array::from_fn(|t| input.numbers(token + if t < count { t } else { 0 }));
            // SAFETY: a path is only made when the processor has its instructions.
            let sums = unsafe {
                match path {
                    Path::Portable if f16 => sums(bytes, &inputs, half_column),
                    Path::Portable => sums(bytes, &inputs, single_column),
                    #[cfg(target_arch = "x86_64")]
                    _ if f16 => x86::half(bytes, &inputs),
                    #[cfg(target_arch = "x86_64")]
                    _ => x86::single(bytes, &inputs),
                }
            };
            for (t, column) in sums.iter().enumerate().take(count) {
                // SAFETY: the tile's existing rows have places for every token of the range.
                unsafe {
                    let place = out.start.add((token + t) * out.stride + row);
                    std::ptr::copy_nonoverlapping(column.as_ptr(), place, rows);
                }
            }
            token += count;
        }
    }
}

#[inline(always)]
fn sums<const SIZE: usize>(
    bytes: &[u8],
    inputs: &[&[f32]; TOKENS],
    load: impl Fn(&[[u8; SIZE]; TILE_ROWS]) -> Column,
) -> [Column; TOKENS] {
    let (numbers, _) = bytes.as_chunks::<SIZE>();
    let (columns, _) = numbers.as_chunks::<TILE_ROWS>();
    let mut sums = [[[0.0_f32; TILE_ROWS]; SUMS]; TOKENS];
    for (k, column) in columns.iter().enumerate().take(inputs[0].len()) {
        let weights = load(column);
        for (sums, input) in sums.iter_mut().zip(inputs) {
            for (sum, weight) in sums[k % SUMS].iter_mut().zip(weights) {
                *sum += weight * input[k];
            }
        }
    }
    sums.map(|[a, b, c, d]| std::array::from_fn(|row| (a[row] + b[row]) + (c[row] + d[row])))
}

#[inline(always)]
fn single_column(bytes: &[[u8; 4]; TILE_ROWS]) -> Column {
    bytes.map(f32::from_le_bytes)
}

#[inline(always)]
fn half_column(bytes: &[[u8; 2]; TILE_ROWS]) -> Column {
    bytes.map(|bytes| to_f32(u16::from_le_bytes(bytes)))
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! The same code, compiled for wider vectors.

    use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};

    use super::{Column, TILE_ROWS, TOKENS, single_column, sums};

    #[target_feature(enable = "avx2,f16c")]
    pub(super) fn single(bytes: &[u8], inputs: &[&[f32]; TOKENS]) -> [Column; TOKENS] {
        sums(bytes, inputs, single_column)
    }

    #[target_feature(enable = "avx2,f16c")]
    pub(super) fn half(bytes: &[u8], inputs: &[&[f32]; TOKENS]) -> [Column; TOKENS] {
        sums(bytes, inputs, |bytes: &[[u8; 2]; TILE_ROWS]| {
            let mut column = [0.0; TILE_ROWS];
            for (bytes, column) in bytes
                .as_chunks::<8>()
                .0
                .iter()
                .zip(column.as_chunks_mut::<8>().0)
            {
                // SAFETY: both are 8 elements long, and neither access asks for alignment.
                unsafe {
                    let halves = _mm_loadu_si128(bytes.as_ptr().cast());
                    _mm256_storeu_ps(column.as_mut_ptr(), _mm256_cvtph_ps(halves));
                }
            }
            column
        })
    }
}
