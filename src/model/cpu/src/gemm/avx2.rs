//! AVX2: a register holds four inputs of each of eight rows, half a tile. Products of 4-bit quants stay inside 16 bits for a whole
//! block (8 sums of 2 * 15 * 127), so they are widened once; those of bytes are widened at every step.

use std::arch::x86_64::*;

use super::Tile;
use crate::activations::PANEL;
use crate::matrix::TILE_ROWS;
use crate::quant::{BLOCK, Format};

/// Steps of four inputs per block.
const STEPS: usize = BLOCK / 4;

/// Tokens computed together.
const TOKENS: usize = 4;

/// How far ahead of its use a tile is fetched, bytes: what memory delivers in its latency, measured.
const AHEAD: usize = 8192;

/// # Safety
/// Pointers of `tile` are valid for its blocks, its tokens exist, nobody else writes their outputs, and the processor
/// has the features.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn tile<F: Format>(tile: &Tile<'_>) {
    for (token, count) in tile.steps(TOKENS) {
        // SAFETY: the tokens are of one panel and of the tile's range.
        unsafe {
            match count {
                1 => tokens::<F, 1>(tile, token),
                2 => tokens::<F, 2>(tile, token),
                3 => tokens::<F, 3>(tile, token),
                _ => tokens::<F, TOKENS>(tile, token),
            }
        }
    }
}

/// The eight rows of each half of a tile.
type Halves<T> = [T; 2];

/// # Safety
/// `token .. token + T` are of one panel and of the tile's range.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tokens<F: Format, const T: usize>(tile: &Tile<'_>, token: usize) {
    let lane = tile.input.lane(token);
    let mut y = [[_mm256_setzero_ps(); 2]; T];
    for index in 0..tile.blocks {
        fetch::<F>(tile, index);
        let place = index * PANEL;
        // SAFETY: the block exists in the tile, and a panel holds `PANEL` entries for each block.
        unsafe {
            let quants = tile.quants.add(index * F::BLOCK_QUANTS);
            let inputs = lane.quants.add(place).cast::<i32>();
            let sums = if F::BITS == 8 {
                bytes::<T>(quants, inputs)
            } else {
                nibbles::<T>(quants, inputs)
            };
            let scales = numbers(tile.scales.add(index * F::BLOCK_SCALES));
            for (t, y) in y.iter_mut().enumerate() {
                let scale = _mm256_set1_ps(*lane.scales.add(place + t));
                for half in 0..2 {
                    let mut sum = sums[t][half];
                    if F::OFFSET != 0 {
                        const { assert!(F::OFFSET == 0 || F::OFFSET == 8) };
                        sum = _mm256_add_epi32(sum, _mm256_set1_epi32(*lane.shifts.add(place + t)));
                    }
                    let factor = _mm256_mul_ps(scales[half], scale);
                    y[half] = _mm256_fmadd_ps(factor, _mm256_cvtepi32_ps(sum), y[half]);
                }
            }
            if F::MIN {
                let mins = numbers(
                    tile.scales
                        .add(index * F::BLOCK_SCALES + F::BLOCK_SCALES / 2),
                );
                for (t, y) in y.iter_mut().enumerate() {
                    let sum = _mm256_set1_ps(*lane.sums.add(place + t));
                    for half in 0..2 {
                        y[half] = _mm256_fmadd_ps(mins[half], sum, y[half]);
                    }
                }
            }
        }
    }
    for (t, y) in y.into_iter().enumerate() {
        // SAFETY: only rows that exist are stored, and they have their places.
        unsafe { store(y, tile.place(token + t), tile.rows) };
    }
}

/// Stores the first `rows` of 16 numbers.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn store(y: Halves<__m256>, out: *mut f32, rows: usize) {
    // SAFETY: the caller's `out` has place for `rows`.
    unsafe {
        if rows == TILE_ROWS {
            _mm256_storeu_ps(out, y[0]);
            _mm256_storeu_ps(out.add(8), y[1]);
        } else {
            let mut numbers = [0.0_f32; TILE_ROWS];
            _mm256_storeu_ps(numbers.as_mut_ptr(), y[0]);
            _mm256_storeu_ps(numbers.as_mut_ptr().add(8), y[1]);
            std::ptr::copy_nonoverlapping(numbers.as_ptr(), out, rows);
        }
    }
}

/// Sums of one block of 4-bit quants for `T` tokens: in each 32-bit lane that of a row.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn nibbles<const T: usize>(quants: *const u8, inputs: *const i32) -> [Halves<__m256i>; T] {
    let mut sums = [[_mm256_setzero_si256(); 2]; T];
    let low = _mm256_set1_epi8(15);
    for step in 0..STEPS {
        // SAFETY: the pointers are valid for a block.
        unsafe {
            let line = quants.add(64 * (step % (STEPS / 2)));
            let mut weights = [
                _mm256_loadu_si256(line.cast()),
                _mm256_loadu_si256(line.add(32).cast()),
            ];
            for weights in &mut weights {
                if step >= STEPS / 2 {
                    *weights = _mm256_srli_epi16::<4>(*weights);
                }
                *weights = _mm256_and_si256(*weights, low);
            }
            for (t, sum) in sums.iter_mut().enumerate() {
                let input = _mm256_set1_epi32(*inputs.add(t * STEPS + step));
                for half in 0..2 {
                    sum[half] =
                        _mm256_add_epi16(sum[half], _mm256_maddubs_epi16(weights[half], input));
                }
            }
        }
    }
    // A plain loop: a closure here is not always inlined, and then every sum goes through memory.
    let ones = _mm256_set1_epi16(1);
    for sum in &mut sums {
        for half in sum {
            *half = _mm256_madd_epi16(*half, ones);
        }
    }
    sums
}

/// As [`nibbles`], for signed bytes. The instruction wants one unsigned side, so weights give their sign to the inputs;
/// 2 * 128 * 127 is just inside 16 bits.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn bytes<const T: usize>(quants: *const u8, inputs: *const i32) -> [Halves<__m256i>; T] {
    let mut sums = [[_mm256_setzero_si256(); 2]; T];
    for step in 0..STEPS {
        // SAFETY: the pointers are valid for a block.
        unsafe {
            let line = quants.add(64 * step);
            let weights = [
                _mm256_loadu_si256(line.cast()),
                _mm256_loadu_si256(line.add(32).cast()),
            ];
            let magnitudes = [_mm256_abs_epi8(weights[0]), _mm256_abs_epi8(weights[1])];
            for (t, sum) in sums.iter_mut().enumerate() {
                let input = _mm256_set1_epi32(*inputs.add(t * STEPS + step));
                for half in 0..2 {
                    let pairs = _mm256_maddubs_epi16(
                        magnitudes[half],
                        _mm256_sign_epi8(input, weights[half]),
                    );
                    sum[half] =
                        _mm256_add_epi32(sum[half], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
                }
            }
        }
    }
    sums
}

/// 16 halves as numbers.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn numbers(halves: *const u8) -> Halves<__m256> {
    let halves = halves.cast::<__m128i>();
    // SAFETY: the caller's pointer is valid for 32 bytes.
    unsafe {
        [
            _mm256_cvtph_ps(_mm_loadu_si128(halves)),
            _mm256_cvtph_ps(_mm_loadu_si128(halves.add(1))),
        ]
    }
}

/// Asks for what comes some blocks later: tiles follow each other, so the end of one leads to the next.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn fetch<F: Format>(tile: &Tile<'_>, index: usize) {
    let quants = tile.quants.wrapping_add(index * F::BLOCK_QUANTS + AHEAD);
    for line in 0..F::BLOCK_QUANTS / 64 {
        _mm_prefetch::<_MM_HINT_T0>(quants.wrapping_add(64 * line).cast());
    }
    let scales = tile.scales.wrapping_add(index * F::BLOCK_SCALES + AHEAD);
    _mm_prefetch::<_MM_HINT_T0>(scales.cast());
}
