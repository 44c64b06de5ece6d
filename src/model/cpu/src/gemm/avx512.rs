//! AVX-512 VNNI: a register holds four inputs of each of the tile's 16 rows, and one instruction multiplies them with
//! four inputs of a token.

use std::arch::x86_64::*;

use super::Tile;
use crate::activations::PANEL;
use crate::quant::{BLOCK, Format};

/// Steps of four inputs per block.
const STEPS: usize = BLOCK / 4;

/// Tokens computed together: an integer and a float sum of each fill most of the 32 registers.
const TOKENS: usize = 12;

/// How far ahead of its use a tile is fetched, bytes: what memory delivers in its latency, measured.
const AHEAD: usize = 8192;

/// # Safety
/// Pointers of `tile` are valid for its blocks, its tokens exist, nobody else writes their outputs, and the processor
/// has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) unsafe fn tile<F: Format>(tile: &Tile<'_>) {
    for (token, count) in tile.steps(TOKENS) {
        // SAFETY: the tokens are of one panel and of the tile's range.
        unsafe {
            match count {
                1 => tokens::<F, 1>(tile, token),
                2 => tokens::<F, 2>(tile, token),
                3 => tokens::<F, 3>(tile, token),
                4 => tokens::<F, 4>(tile, token),
                5 => tokens::<F, 5>(tile, token),
                6 => tokens::<F, 6>(tile, token),
                7 => tokens::<F, 7>(tile, token),
                8 => tokens::<F, 8>(tile, token),
                9 => tokens::<F, 9>(tile, token),
                10 => tokens::<F, 10>(tile, token),
                11 => tokens::<F, 11>(tile, token),
                _ => tokens::<F, TOKENS>(tile, token),
            }
        }
    }
}

/// # Safety
/// `token .. token + T` are of one panel and of the tile's range.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn tokens<F: Format, const T: usize>(tile: &Tile<'_>, token: usize) {
    let lane = tile.input.lane(token);
    let mut y = [_mm512_setzero_ps(); T];
    for index in 0..tile.blocks {
        fetch::<F>(tile, index);
        let place = index * PANEL;
        // SAFETY: the block exists, and a panel holds `PANEL` entries for each block.
        unsafe {
            let sums = dots::<F, T>(
                tile.quants.add(index * F::BLOCK_QUANTS),
                lane.quants.add(place),
                lane.shifts.add(place),
            );
            let halves = tile.scales.add(index * F::BLOCK_SCALES).cast::<__m256i>();
            let scales = _mm512_cvtph_ps(_mm256_loadu_si256(halves));
            for (t, y) in y.iter_mut().enumerate() {
                let factor = _mm512_mul_ps(scales, _mm512_set1_ps(*lane.scales.add(place + t)));
                *y = _mm512_fmadd_ps(factor, _mm512_cvtepi32_ps(sums[t]), *y);
            }
            if F::MIN {
                let mins = _mm512_cvtph_ps(_mm256_loadu_si256(halves.add(1)));
                for (t, y) in y.iter_mut().enumerate() {
                    let sum = _mm512_set1_ps(*lane.sums.add(place + t));
                    *y = _mm512_fmadd_ps(mins, sum, *y);
                }
            }
        }
    }
    let mask = (u32::MAX >> (32 - tile.rows)) as __mmask16;
    for (t, y) in y.into_iter().enumerate() {
        // SAFETY: the mask leaves the rows that exist, which have their places.
        unsafe { _mm512_mask_storeu_ps(tile.place(token + t), mask, y) };
    }
}

/// The 16 rows' sums of products with one block of each of `T` tokens.
///
/// # Safety
/// The pointers are valid for a block of the tile and for one of each token.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn dots<F: Format, const T: usize>(
    quants: *const u8,
    inputs: *const [i8; BLOCK],
    shifts: *const i32,
) -> [__m512i; T] {
    // One sum per token waits for itself unless there are many tokens.
    let chains = if T < 6 { 2 } else { 1 };
    let mut sums = [[_mm512_setzero_si512(); T]; 2];
    for (t, sum) in sums[0].iter_mut().enumerate() {
        // The instruction wants unsigned weights, so signed bytes are moved up by 128, 16 times what `shifts` is for.
        *sum = match F::OFFSET + if F::BITS == 8 { 128 } else { 0 } {
            0 => _mm512_setzero_si512(),
            // SAFETY: one entry per token.
            8 => unsafe { _mm512_set1_epi32(*shifts.add(t)) },
            // SAFETY: as above.
            _ => unsafe { _mm512_slli_epi32::<4>(_mm512_set1_epi32(*shifts.add(t))) },
        };
    }
    let low = _mm512_set1_epi8(15);
    for step in 0..STEPS {
        // SAFETY: the caller's pointers are valid for all steps of a block.
        unsafe {
            let line = |index: usize| _mm512_loadu_si512(quants.add(64 * index).cast());
            let weights = if F::BITS == 8 {
                _mm512_xor_si512(line(step), _mm512_set1_epi8(-128))
            } else if step < STEPS / 2 {
                _mm512_and_si512(line(step), low)
            } else {
                _mm512_and_si512(_mm512_srli_epi16::<4>(line(step - STEPS / 2)), low)
            };
            for (t, sum) in sums[step % chains].iter_mut().enumerate() {
                let input = _mm512_set1_epi32(*inputs.cast::<i32>().add(t * STEPS + step));
                *sum = _mm512_dpbusd_epi32(*sum, weights, input);
            }
        }
    }
    if chains == 1 {
        return sums[0];
    }
    // A plain loop: a closure here is not always inlined, and then every sum goes through memory.
    let [mut all, other] = sums;
    for t in 0..T {
        all[t] = _mm512_add_epi32(all[t], other[t]);
    }
    all
}

/// Asks for what comes some blocks later: tiles follow each other, so the end of one leads to the next.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn fetch<F: Format>(tile: &Tile<'_>, index: usize) {
    let quants = tile.quants.wrapping_add(index * F::BLOCK_QUANTS + AHEAD);
    for line in 0..F::BLOCK_QUANTS / 64 {
        _mm_prefetch::<_MM_HINT_T0>(quants.wrapping_add(64 * line).cast());
    }
    let scales = tile.scales.wrapping_add(index * F::BLOCK_SCALES + AHEAD);
    _mm_prefetch::<_MM_HINT_T0>(scales.cast());
}
