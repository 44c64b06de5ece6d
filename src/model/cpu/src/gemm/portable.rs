//! The plain path: the definition that the others must match bit for bit.

use std::ops::Range;

use super::Piece;
use crate::activations::PANEL;
use crate::matrix::{TILE_ROWS, half_at, quant};
use crate::quant::{BLOCK, Format};

/// Quants of one block, unpacked: `[row of the tile][input]`.
type Block = [[i16; BLOCK]; TILE_ROWS];

/// # Safety
/// Pointers of `piece` are valid for its blocks and for the tokens `lanes`, and nobody else writes their outputs.
pub(super) unsafe fn tile<F: Format>(piece: &Piece, lanes: Range<usize>) {
    let mut sums = [[0.0_f32; TILE_ROWS]; PANEL];
    for block in 0..piece.blocks {
        // SAFETY: the block exists.
        let (weights, scales, mins) = unsafe { unpack::<F>(piece, block) };
        for lane in lanes.clone() {
            let place = block * PANEL + lane;
            // SAFETY: the panel holds `PANEL` entries for each block.
            let (input, scale, sum) = unsafe {
                let input = &*piece.panel.quants.add(place * BLOCK).cast::<[i8; BLOCK]>();
                (
                    input,
                    *piece.panel.scales.add(place),
                    *piece.panel.sums.add(place),
                )
            };
            for row in 0..TILE_ROWS {
                let products = weights[row]
                    .iter()
                    .zip(input)
                    .map(|(w, a)| i32::from(*w) * i32::from(*a));
                let y = &mut sums[lane][row];
                *y += (scales[row] * scale) * products.sum::<i32>() as f32;
                if F::MIN {
                    *y += mins[row] * sum;
                }
            }
        }
    }
    for lane in lanes {
        // SAFETY: outputs of the tile's existing rows have their places.
        unsafe {
            let out = piece.out.wrapping_add(lane * piece.stride);
            std::ptr::copy_nonoverlapping(sums[lane].as_ptr(), out, piece.rows);
        }
    }
}

/// # Safety
/// `block` is one of the piece's.
unsafe fn unpack<F: Format>(
    piece: &Piece,
    block: usize,
) -> (Block, [f32; TILE_ROWS], [f32; TILE_ROWS]) {
    let block_quants = TILE_ROWS * BLOCK * F::BITS / 8;
    let block_scales = if F::MIN { 4 * TILE_ROWS } else { 2 * TILE_ROWS };
    // SAFETY: a tile holds this many bytes for each of its blocks.
    let (quants, scales) = unsafe {
        (
            std::slice::from_raw_parts(piece.quants.add(block * block_quants), block_quants),
            std::slice::from_raw_parts(piece.scales.add(block * block_scales), block_scales),
        )
    };
    let mut weights = [[0; BLOCK]; TILE_ROWS];
    for (row, weights) in weights.iter_mut().enumerate() {
        for (k, weight) in weights.iter_mut().enumerate() {
            *weight = (quant::<F>(quants, row, k) - F::OFFSET) as i16;
        }
    }
    let mins = std::array::from_fn(|row| {
        if F::MIN {
            half_at(scales, TILE_ROWS + row)
        } else {
            0.0
        }
    });
    (
        weights,
        std::array::from_fn(|row| half_at(scales, row)),
        mins,
    )
}
