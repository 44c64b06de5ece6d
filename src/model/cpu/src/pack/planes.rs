//! Repacking of the types that are kept in planes.

use crate::matrix::{Matrix, TILE_ROWS};
use crate::quant::BLOCK;
use crate::quant::planes::{Factors, Planes, put_quants};

/// Puts one row of the file among those of its tile.
pub(super) fn put<P: Planes>(matrix: &mut Matrix, row: usize, bytes: &[u8]) {
    let lane = row % TILE_ROWS;
    let layout = matrix.layout();
    let tile = matrix.tile_mut(row / TILE_ROWS);
    let (quants, scales) = tile.split_at_mut(layout.scales);
    let places = quants
        .chunks_exact_mut(layout.block_quants)
        .zip(scales.chunks_exact_mut(layout.block_scales));
    for (block, (quants, scales)) in bytes.chunks_exact(P::FILE_BYTES).zip(places) {
        let block = P::read(block);
        let (header, factors) = scales.split_at_mut(P::HEADER);
        for (line, number) in header.chunks_exact_mut(2 * TILE_ROWS).zip(block.header) {
            line[2 * lane..][..2].copy_from_slice(&number);
        }
        if P::FACTORS != Factors::None {
            let bytes = block.factors.as_flattened();
            for (line, byte) in factors.chunks_exact_mut(TILE_ROWS).zip(bytes) {
                line[lane] = *byte;
            }
        }
        let units = quants.chunks_exact_mut(P::UNIT);
        for (lines, quants) in units.zip(block.quants.chunks_exact(BLOCK)) {
            put_quants::<P>(lines, lane, quants);
        }
    }
}
