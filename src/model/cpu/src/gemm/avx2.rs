//! AVX2: a register holds four inputs of each of eight rows. Products of 4-bit quants stay inside 16 bits for a whole
//! block (8 sums of 2 * 15 * 127), so they are widened once; those of bytes are widened at every step.

use std::arch::x86_64::*;

use super::Tile;
use super::scratch::Scratch;
use crate::activations::PANEL;
use crate::matrix::TILE_ROWS;
use crate::quant::{BLOCK, Format};

/// Steps of four inputs per block.
const STEPS: usize = BLOCK / 4;

/// Tokens computed together.
const TOKENS: usize = 4;

/// # Safety
/// Pointers of `tile` are valid for its blocks, its tokens exist, nobody else writes their outputs, and the processor
/// has the features.
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn tile<F: Format>(tile: &Tile<'_>, _scratch: &mut Scratch) {
    for (token, count) in tile.steps(TOKENS) {
        for half in [0, TILE_ROWS / 2] {
            // SAFETY: the tokens are of one panel and of the tile's range.
            unsafe {
                match count {
                    1 => tokens::<F, 1>(tile, token, half),
                    2 => tokens::<F, 2>(tile, token, half),
                    3 => tokens::<F, 3>(tile, token, half),
                    _ => tokens::<F, TOKENS>(tile, token, half),
                }
            }
        }
    }
}

/// Computes `T` tokens for the eight rows from `half`.
///
/// # Safety
/// `token .. token + T` are of one panel and of the tile's range.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn tokens<F: Format, const T: usize>(tile: &Tile<'_>, token: usize, half: usize) {
    let lane = tile.input.lane(token);
    let mut y = [_mm256_setzero_ps(); T];
    for block in 0..tile.blocks {
        let place = block * PANEL;
        // SAFETY: the block exists in the tile, and a panel holds `PANEL` entries for each block.
        unsafe {
            let quants = tile.quants.add(block * F::BLOCK_QUANTS + 4 * half);
            let inputs = lane.quants.add(place).cast::<i32>();
            let sums = if F::BITS == 8 {
                bytes::<T>(quants, inputs)
            } else {
                nibbles::<T>(quants, inputs)
            };
            let scales = tile.scales.add(block * F::BLOCK_SCALES + 2 * half);
            let scale = halves(scales);
            for (t, y) in y.iter_mut().enumerate() {
                let mut sum = sums[t];
                if F::OFFSET != 0 {
                    const { assert!(F::OFFSET == 0 || F::OFFSET == 8) };
                    sum = _mm256_add_epi32(sum, _mm256_set1_epi32(*lane.shifts.add(place + t)));
                }
                let factor = _mm256_mul_ps(scale, _mm256_set1_ps(*lane.scales.add(place + t)));
                *y = _mm256_add_ps(*y, _mm256_mul_ps(factor, _mm256_cvtepi32_ps(sum)));
                if F::MIN {
                    let sum = _mm256_set1_ps(*lane.sums.add(place + t));
                    *y = _mm256_add_ps(*y, _mm256_mul_ps(halves(scales.add(2 * TILE_ROWS)), sum));
                }
            }
        }
    }
    let rows = tile.rows.saturating_sub(half).min(8);
    for (t, y) in y.into_iter().enumerate() {
        let out = tile.place(token + t).wrapping_add(half);
        // SAFETY: only rows that exist are stored, and they have their places.
        unsafe {
            if rows == 8 {
                _mm256_storeu_ps(out, y);
            } else {
                let mut numbers = [0.0_f32; 8];
                _mm256_storeu_ps(numbers.as_mut_ptr(), y);
                std::ptr::copy_nonoverlapping(numbers.as_ptr(), out, rows);
            }
        }
    }
}

/// Sums of one block of 4-bit quants for `T` tokens: in each 32-bit lane that of a row.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn nibbles<const T: usize>(quants: *const u8, inputs: *const i32) -> [__m256i; T] {
    let mut sums = [_mm256_setzero_si256(); T];
    for step in 0..STEPS / 2 {
        // SAFETY: the pointers are valid for a block.
        unsafe {
            let line = _mm256_loadu_si256(quants.add(64 * step).cast());
            let low = _mm256_and_si256(line, _mm256_set1_epi8(15));
            let high = _mm256_and_si256(_mm256_srli_epi16::<4>(line), _mm256_set1_epi8(15));
            for (t, sum) in sums.iter_mut().enumerate() {
                let input = inputs.add(t * STEPS + step);
                let first = _mm256_maddubs_epi16(low, _mm256_set1_epi32(*input));
                let second = _mm256_maddubs_epi16(high, _mm256_set1_epi32(*input.add(STEPS / 2)));
                *sum = _mm256_add_epi16(*sum, _mm256_add_epi16(first, second));
            }
        }
    }
    sums.map(|sum| _mm256_madd_epi16(sum, _mm256_set1_epi16(1)))
}

/// As [`nibbles`], for signed bytes. The instruction wants one unsigned side, so weights give their sign to the inputs;
/// 2 * 128 * 127 is just inside 16 bits.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn bytes<const T: usize>(quants: *const u8, inputs: *const i32) -> [__m256i; T] {
    let mut sums = [_mm256_setzero_si256(); T];
    for step in 0..STEPS {
        // SAFETY: the pointers are valid for a block.
        unsafe {
            let line = _mm256_loadu_si256(quants.add(64 * step).cast());
            let magnitude = _mm256_abs_epi8(line);
            for (t, sum) in sums.iter_mut().enumerate() {
                let input = _mm256_set1_epi32(*inputs.add(t * STEPS + step));
                let pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(input, line));
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
            }
        }
    }
    sums
}

/// 8 halves as numbers.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn halves(scales: *const u8) -> __m256 {
    // SAFETY: the caller's pointer is valid for 16 bytes.
    _mm256_cvtph_ps(unsafe { _mm_loadu_si128(scales.cast()) })
}
