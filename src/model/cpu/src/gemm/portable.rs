//! The plain path: the definition that the others must match bit for bit.

use super::Tile;
use crate::activations::PANEL;
use crate::matrix::{TILE_ROWS, half_at, quant};
use crate::quant::{BLOCK, Format};

/// Quants of one block, unpacked: `[row of the tile][input]`.
type Block = [[i16; BLOCK]; TILE_ROWS];

/// # Safety
/// Pointers of `tile` are valid for its blocks, its tokens exist, and nobody else writes their outputs.
pub(super) unsafe fn tile<F: Format>(tile: &Tile<'_>) {
    for (token, count) in tile.steps(PANEL) {
        let lane = tile.input.lane(token);
        let mut sums = [[0.0_f32; TILE_ROWS]; PANEL];
        for block in 0..tile.blocks {
            // SAFETY: the block exists.
            let (weights, scales, mins) = unsafe { unpack::<F>(tile, block) };
            for (t, sums) in sums.iter_mut().enumerate().take(count) {
                let place = block * PANEL + t;
                // SAFETY: a panel holds `PANEL` entries for each block.
                let (input, scale, sum) = unsafe {
                    (
                        &*lane.quants.add(place),
                        *lane.scales.add(place),
                        *lane.sums.add(place),
                    )
                };
                for (row, y) in sums.iter_mut().enumerate() {
                    let dot = dot(&weights[row], input) as f32;
                    *y = (scales[row] * scale).mul_add(dot, *y);
                }
                let mins = if F::MIN { &mins[..] } else { &[] };
                for (y, min) in sums.iter_mut().zip(mins) {
                    *y = min.mul_add(sum, *y);
                }
            }
        }
        for (t, sums) in sums.iter().enumerate().take(count) {
            // SAFETY: outputs of the tile's existing rows have their places.
            unsafe {
                std::ptr::copy_nonoverlapping(sums.as_ptr(), tile.place(token + t), tile.rows)
            };
        }
    }
}

fn dot(weights: &[i16; BLOCK], input: &[i8; BLOCK]) -> i32 {
    weights
        .iter()
        .zip(input)
        .map(|(w, a)| i32::from(*w) * i32::from(*a))
        .sum()
}

/// # Safety
/// `block` is one of the tile's.
unsafe fn unpack<F: Format>(
    tile: &Tile<'_>,
    block: usize,
) -> (Block, [f32; TILE_ROWS], [f32; TILE_ROWS]) {
    // SAFETY: a tile holds this many bytes for each of its blocks.
    let (quants, scales) = unsafe {
        (
            std::slice::from_raw_parts(tile.quants.add(block * F::BLOCK_QUANTS), F::BLOCK_QUANTS),
            std::slice::from_raw_parts(tile.scales.add(block * F::BLOCK_SCALES), F::BLOCK_SCALES),
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
