//! Products with F32, F16 and BF16 weights.
//!
//! Whatever the vector width, an output is two sums, of the even and of the odd inputs in ascending order, each step a
//! fused multiply-add; then the two are added.

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::ops::Range;

use super::OutView;
use super::isa::Path;
use crate::activations::Activations;
use crate::matrix::{Matrix, TILE_ROWS, bf16};
use crate::quant::WeightKind;
use crate::quant::half::to_f32;

/// Independent sums per output.
const SUMS: usize = 2;

/// Tokens that are computed together, except by AVX-512: as many as have room for their sums in 16 registers of 256 bits.
const TOKENS: usize = 3;

/// One number for each row of a tile.
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
    let most = match path {
        #[cfg(target_arch = "x86_64")]
        Path::Avx512 => avx512::TOKENS,
        _ => TOKENS,
    };
    for index in tiles {
        let tile = Tile {
            path,
            weights,
            index,
            input,
            out,
        };
        for token in tokens.clone().step_by(most) {
            // SAFETY: the caller's promise.
            unsafe {
                match most.min(tokens.end - token) {
                    1 => tile.tokens::<1>(token),
                    2 => tile.tokens::<2>(token),
                    3 => tile.tokens::<3>(token),
                    4 => tile.tokens::<4>(token),
                    5 => tile.tokens::<5>(token),
                    6 => tile.tokens::<6>(token),
                    7 => tile.tokens::<7>(token),
                    _ => tile.tokens::<8>(token),
                }
            }
        }
    }
}

/// A tile, and what it is multiplied with.
struct Tile<'a> {
    path: Path,
    weights: &'a Matrix,
    index: usize,
    input: &'a Activations,
    out: &'a OutView<'a>,
}

impl Tile<'_> {
    /// # Safety
    /// The tokens from `token` on exist, their outputs have places that nobody else writes, and the processor has what
    /// the path needs.
    unsafe fn tokens<const T: usize>(&self, token: usize) {
        let row = self.index * TILE_ROWS;
        let rows = TILE_ROWS.min(self.weights.rows() - row);
        let inputs = std::array::from_fn(|t| self.input.numbers(token + t));
        let numbers = self.weights.tile(self.index);
        // SAFETY: the processor has what the path needs; the tile is as long as its columns take.
        let columns = unsafe { sums::<T>(self.path, self.weights.kind(), numbers, inputs) };
        for (t, column) in columns.iter().enumerate() {
            let place = (token + t) * self.out.stride + row;
            // SAFETY: the tile's existing rows have places for every token.
            unsafe {
                let place = self.out.start.wrapping_add(place);
                std::ptr::copy_nonoverlapping(column.as_ptr(), place, rows);
            }
        }
    }
}

/// # Safety
/// The processor has what `path` needs.
unsafe fn sums<const T: usize>(
    path: Path,
    kind: WeightKind,
    numbers: &[u8],
    inputs: [&[f32]; T],
) -> [Column; T] {
    match (path, kind) {
        (Path::Portable, WeightKind::F16) => {
            portable(numbers, inputs, |bytes| to_f32(u16::from_le_bytes(bytes)))
        }
        (Path::Portable, WeightKind::BF16) => portable(numbers, inputs, bf16),
        (Path::Portable, _) => portable(numbers, inputs, f32::from_le_bytes),
        // SAFETY: the caller's promise.
        #[cfg(target_arch = "x86_64")]
        (Path::Avx512, WeightKind::F16) => unsafe {
            avx512::sums::<x86::Halves, T>(numbers, inputs)
        },
        // SAFETY: the caller's promise.
        #[cfg(target_arch = "x86_64")]
        (Path::Avx512, WeightKind::BF16) => unsafe {
            avx512::sums::<x86::UpperHalves, T>(numbers, inputs)
        },
        // SAFETY: the caller's promise.
        #[cfg(target_arch = "x86_64")]
        (Path::Avx512, _) => unsafe { avx512::sums::<x86::Singles, T>(numbers, inputs) },
        // SAFETY: the caller's promise.
        #[cfg(target_arch = "x86_64")]
        (_, WeightKind::F16) => unsafe { x86::sums::<x86::Halves, T>(numbers, inputs) },
        // SAFETY: the caller's promise.
        #[cfg(target_arch = "x86_64")]
        (_, WeightKind::BF16) => unsafe { x86::sums::<x86::UpperHalves, T>(numbers, inputs) },
        // SAFETY: the caller's promise.
        #[cfg(target_arch = "x86_64")]
        _ => unsafe { x86::sums::<x86::Singles, T>(numbers, inputs) },
    }
}

fn portable<const SIZE: usize, const T: usize>(
    numbers: &[u8],
    inputs: [&[f32]; T],
    number: impl Fn([u8; SIZE]) -> f32,
) -> [Column; T] {
    let mut sums = [[[0.0_f32; TILE_ROWS]; SUMS]; T];
    let (numbers, _) = numbers.as_chunks::<SIZE>();
    let (columns, _) = numbers.as_chunks::<TILE_ROWS>();
    for (k, column) in columns.iter().enumerate().take(inputs[0].len()) {
        let weights = column.map(&number);
        for (sums, input) in sums.iter_mut().zip(inputs) {
            for (sum, weight) in sums[k % SUMS].iter_mut().zip(weights) {
                *sum = weight.mul_add(input[k], *sum);
            }
        }
    }
    sums.map(|[even, odd]| std::array::from_fn(|row| even[row] + odd[row]))
}
