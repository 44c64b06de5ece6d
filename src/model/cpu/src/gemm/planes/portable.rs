//! The plain path: the definition that the others must match bit for bit.

use super::super::Tile;
use crate::activations::PANEL;
use crate::matrix::TILE_ROWS;
use crate::quant::BLOCK;
use crate::quant::planes::{Planes, RowFactors, factors, quant};

/// One unit of one row, unpacked.
struct Row {
    weights: [i16; BLOCK],
    factors: RowFactors,
}

/// # Safety
/// Pointers of `tile` are valid for its units, its tokens exist, and nobody else writes their outputs.
pub(super) unsafe fn tile<P: Planes>(tile: &Tile<'_>) {
    for (token, count) in tile.steps(PANEL) {
        let lane = tile.input.lane(token);
        let mut sums = [[0.0_f32; TILE_ROWS]; PANEL];
        for unit in 0..tile.blocks {
            // SAFETY: the unit exists.
            let rows: [Row; TILE_ROWS] =
                std::array::from_fn(|row| unsafe { unpack::<P>(tile, unit, row) });
            for (t, sums) in sums.iter_mut().enumerate().take(count) {
                let place = unit * PANEL + t;
                // SAFETY: a panel holds `PANEL` entries for each unit.
                let (input, scale, sum) = unsafe {
                    (
                        &*lane.quants.add(place),
                        *lane.scales.add(place),
                        *lane.sums.add(place),
                    )
                };
                for (row, y) in rows.iter().zip(sums.iter_mut()) {
                    *y = (row.factors.scale * scale).mul_add(row.dot(input) as f32, *y);
                    if P::MIN {
                        *y = row.factors.min.mul_add(sum, *y);
                    }
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

impl Row {
    fn dot(&self, input: &[i8; BLOCK]) -> i32 {
        let halves = self
            .weights
            .chunks_exact(BLOCK / 2)
            .zip(input.chunks_exact(BLOCK / 2))
            .zip(self.factors.halves);
        halves
            .map(|((weights, input), factor)| {
                let products = weights.iter().zip(input);
                let sum: i32 = products.map(|(w, a)| i32::from(*w) * i32::from(*a)).sum();
                factor * sum
            })
            .sum()
    }
}

/// # Safety
/// `unit` is one of the tile's.
unsafe fn unpack<P: Planes>(tile: &Tile<'_>, unit: usize, row: usize) -> Row {
    let blocks = tile.blocks / P::UNITS;
    // SAFETY: a tile holds this many bytes for each of its units and blocks.
    let (quants, scales) = unsafe {
        (
            std::slice::from_raw_parts(tile.quants.add(unit * P::UNIT), P::UNIT),
            std::slice::from_raw_parts(tile.scales, blocks * P::BLOCK_SCALES),
        )
    };
    Row {
        weights: std::array::from_fn(|k| (quant::<P>(quants, row, k) - P::OFFSET) as i16),
        factors: factors::<P>(scales, unit, row),
    }
}
