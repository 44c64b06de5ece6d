//! Products with weights kept in planes.
//!
//! Units of 32 inputs are added in ascending order, each as `y = y + (w * a) * sum` and, for kinds with a minimum, then
//! `y = y + min * sum_a`. Where a unit's halves have factors, `sum` is the halves' sums times these, still as integers:
//! at most 2 * 16 * 32 * 127 * 128, which an f32 holds exactly. Where scale and minimum have factors, `w` and `min` are
//! their products, exact too.

mod portable;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use std::ops::Range;

use super::isa::Path;
use super::{OutView, Tile, chunks};
use crate::activations::Activations;
use crate::matrix::{Matrix, TILE_ROWS};
use crate::quant::BLOCK;
use crate::quant::planes::Planes;

/// # Safety
/// The ranges exist, the input is int8, every output has a place, and nobody else writes it.
pub(super) unsafe fn multiply<P: Planes>(
    path: Path,
    weights: &Matrix,
    tiles: Range<usize>,
    input: &Activations,
    tokens: Range<usize>,
    out: &OutView<'_>,
) {
    let layout = weights.layout();
    let parts =
        chunks(tokens).flat_map(|tokens| tiles.clone().map(move |tile| (tokens.clone(), tile)));
    for (tokens, index) in parts {
        let bytes = weights.tile(index);
        let row = index * TILE_ROWS;
        let tile = Tile {
            quants: bytes.as_ptr(),
            scales: bytes[layout.scales..].as_ptr(),
            blocks: weights.cols() / BLOCK,
            input,
            tokens,
            out: out.start.wrapping_add(row),
            stride: out.stride,
            rows: TILE_ROWS.min(weights.rows() - row),
        };
        // SAFETY: tokens and outputs exist by the caller's promise; a path is only made when the processor has its
        // instructions.
        unsafe {
            match path {
                Path::Portable => portable::tile::<P>(&tile),
                #[cfg(target_arch = "x86_64")]
                Path::Avx2 => avx2::tile::<P>(&tile),
                #[cfg(target_arch = "x86_64")]
                Path::Avx512 => avx512::tile::<P>(&tile),
            }
        }
    }
}

/// Where the scales of a unit lie: those of its block, and its own factors.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn scales_of<P: Planes>(tile: &Tile<'_>, unit: usize) -> (*const u8, *const u8) {
    let block = tile.scales.wrapping_add(unit / P::UNITS * P::BLOCK_SCALES);
    let factors = P::HEADER + unit % P::UNITS * 2 * TILE_ROWS;
    (block, block.wrapping_add(factors))
}
