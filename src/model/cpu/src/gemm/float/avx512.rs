//! Float products with AVX-512: a register holds the whole column of a tile.

use std::arch::x86_64::*;

use super::x86::{Halves, Singles, UpperHalves};
use super::{Column, SUMS};
use crate::matrix::TILE_ROWS;

/// Tokens that are computed together: two sums of each fill half of the 32 registers.
pub(super) const TOKENS: usize = 8;

/// How far ahead of its use a tile is fetched, bytes.
const AHEAD: usize = 8192;

/// How a tile's numbers become vectors.
pub(super) trait Columns: super::x86::Numbers {
    /// # Safety
    /// The processor has AVX-512F, and 16 numbers lie at `column`.
    unsafe fn column(column: *const u8) -> __m512;
}

impl Columns for Singles {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn column(column: *const u8) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_ps(column.cast()) }
    }
}

impl Columns for Halves {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn column(column: *const u8) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(column.cast())) }
    }
}

impl Columns for UpperHalves {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn column(column: *const u8) -> __m512 {
        // SAFETY: the caller's promise.
        let wide = _mm512_cvtepu16_epi32(unsafe { _mm256_loadu_si256(column.cast()) });
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
    }
}

/// # Panics
/// When the tile is shorter than the inputs ask for, or the inputs differ in length.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn sums<N: Columns, const T: usize>(tile: &[u8], inputs: [&[f32]; T]) -> [Column; T] {
    let cols = inputs[0].len();
    assert!(
        tile.len() >= cols * TILE_ROWS * N::SIZE && inputs.iter().all(|input| input.len() == cols)
    );
    let inputs = inputs.map(<[f32]>::as_ptr);
    let mut sums = [[_mm512_setzero_ps(); T]; SUMS];
    // `SUMS` at a time, so that each sum is a register known at compile time; no closure and no function, which would
    // not always be inlined.
    for first in (0..cols).step_by(SUMS) {
        for (k, sums) in (first..cols).zip(&mut sums) {
            let column = tile.as_ptr().wrapping_add(k * TILE_ROWS * N::SIZE);
            _mm_prefetch::<_MM_HINT_T0>(column.wrapping_add(AHEAD).cast());
            // SAFETY: column and inputs exist, by the assertion, since `k` is below `cols`.
            unsafe {
                let weights = N::column(column);
                for (sum, input) in sums.iter_mut().zip(inputs) {
                    *sum = _mm512_fmadd_ps(weights, _mm512_set1_ps(*input.add(k)), *sum);
                }
            }
        }
    }
    let [even, odd] = sums;
    let mut columns = [[0.0; TILE_ROWS]; T];
    for (t, column) in columns.iter_mut().enumerate() {
        // SAFETY: a column has 16 places.
        unsafe { _mm512_storeu_ps(column.as_mut_ptr(), _mm512_add_ps(even[t], odd[t])) };
    }
    columns
}
