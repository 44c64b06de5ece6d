//! Float products with AVX2.

use std::arch::x86_64::*;

use super::{Column, SUMS};
use crate::matrix::TILE_ROWS;

/// The eight rows of each half of a tile.
type Pair = [__m256; 2];

/// How a tile's numbers become vectors.
pub(super) trait Numbers {
    /// Bytes of a number.
    const SIZE: usize;

    /// # Safety
    /// The processor has AVX2, FMA and F16C, and 16 numbers lie at `column`.
    unsafe fn load(column: *const u8) -> Pair;
}

pub(super) struct Singles;
pub(super) struct Halves;
pub(super) struct UpperHalves;

impl Numbers for Singles {
    const SIZE: usize = 4;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load(column: *const u8) -> Pair {
        let column = column.cast::<f32>();
        // SAFETY: the caller's promise.
        unsafe { [_mm256_loadu_ps(column), _mm256_loadu_ps(column.add(8))] }
    }
}

impl Numbers for Halves {
    const SIZE: usize = 2;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load(column: *const u8) -> Pair {
        let column = column.cast::<__m128i>();
        // SAFETY: the caller's promise.
        unsafe {
            [
                _mm256_cvtph_ps(_mm_loadu_si128(column)),
                _mm256_cvtph_ps(_mm_loadu_si128(column.add(1))),
            ]
        }
    }
}

impl Numbers for UpperHalves {
    const SIZE: usize = 2;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load(column: *const u8) -> Pair {
        let column = column.cast::<__m128i>();
        // SAFETY: the caller's promise.
        unsafe {
            let low = _mm256_cvtepu16_epi32(_mm_loadu_si128(column));
            let high = _mm256_cvtepu16_epi32(_mm_loadu_si128(column.add(1)));
            [
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(low)),
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(high)),
            ]
        }
    }
}

/// How far ahead of its use a tile is fetched, bytes.
const AHEAD: usize = 8192;

/// # Panics
/// When the tile is shorter than the inputs ask for, or the inputs differ in length.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn sums<N: Numbers, const T: usize>(tile: &[u8], inputs: [&[f32]; T]) -> [Column; T] {
    let cols = inputs[0].len();
    assert!(
        tile.len() >= cols * TILE_ROWS * N::SIZE && inputs.iter().all(|input| input.len() == cols)
    );
    let inputs = inputs.map(<[f32]>::as_ptr);
    let mut sums = [[[_mm256_setzero_ps(); 2]; T]; SUMS];
    // `SUMS` at a time, so that each sum is a register known at compile time; no closure and no function, which would
    // not always be inlined.
    for first in (0..cols).step_by(SUMS) {
        for (k, sums) in (first..cols).zip(&mut sums) {
            let column = tile.as_ptr().wrapping_add(k * TILE_ROWS * N::SIZE);
            _mm_prefetch::<_MM_HINT_T0>(column.wrapping_add(AHEAD).cast());
            // SAFETY: column and inputs exist, by the assertion, since `k` is below `cols`.
            unsafe {
                let weights = N::load(column);
                for (sums, input) in sums.iter_mut().zip(inputs) {
                    let x = _mm256_set1_ps(*input.add(k));
                    for half in 0..2 {
                        sums[half] = _mm256_fmadd_ps(weights[half], x, sums[half]);
                    }
                }
            }
        }
    }
    let [even, odd] = sums;
    let mut columns = [[0.0; TILE_ROWS]; T];
    for (t, column) in columns.iter_mut().enumerate() {
        for half in 0..2 {
            let place = column[8 * half..].as_mut_ptr();
            // SAFETY: a half has eight places.
            unsafe { _mm256_storeu_ps(place, _mm256_add_ps(even[t][half], odd[t][half])) };
        }
    }
    columns
}
