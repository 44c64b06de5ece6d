//! AVX-512 VNNI: a register holds four inputs of each of the tile's 16 rows, and one instruction multiplies them with
//! four inputs of a token.

use std::arch::x86_64::*;
use std::ops::Range;

use super::Piece;
use crate::activations::PANEL;
use crate::matrix::TILE_ROWS;
use crate::quant::{BLOCK, Format};

/// Steps of four inputs per block.
const STEPS: usize = BLOCK / 4;

/// # Safety
/// Pointers of `piece` are valid for its blocks and for the tokens `lanes`, nobody else writes their outputs, and the
/// processor has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) unsafe fn tile<F: Format>(piece: &Piece, lanes: Range<usize>) {
    let mut lane = lanes.start;
    while lane < lanes.end {
        // SAFETY: the lanes are of the caller's range.
        lane += unsafe {
            match lanes.end - lane {
                16.. => tokens::<F, 16>(piece, lane),
                8.. => tokens::<F, 8>(piece, lane),
                4.. => tokens::<F, 4>(piece, lane),
                2.. => tokens::<F, 2>(piece, lane),
                _ => tokens::<F, 1>(piece, lane),
            }
        };
    }
}

/// Computes `T` tokens and returns `T`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn tokens<F: Format, const T: usize>(piece: &Piece, lane: usize) -> usize {
    let mut y = [_mm512_setzero_ps(); T];
    for block in 0..piece.blocks {
        // SAFETY: the block exists in the tile and in the panel, and `lane + T` is at most `PANEL`.
        unsafe {
            let weights = unpack::<F>(piece.quants.add(block * (TILE_ROWS * BLOCK * F::BITS / 8)));
            let scales = piece
                .scales
                .add(block * if F::MIN { 4 * TILE_ROWS } else { 2 * TILE_ROWS });
            let scale = halves(scales);
            let min = if F::MIN {
                halves(scales.add(2 * TILE_ROWS))
            } else {
                _mm512_setzero_ps()
            };
            let place = block * PANEL + lane;
            let inputs = piece.panel.quants.add(place * BLOCK).cast::<i32>();
            for (t, y) in y.iter_mut().enumerate() {
                let offset = if offset::<F>() == 0 {
                    0
                } else {
                    -offset::<F>() * *piece.panel.totals.add(place + t)
                };
                let mut even = _mm512_set1_epi32(offset);
                let mut odd = _mm512_setzero_si512();
                for step in (0..STEPS).step_by(2) {
                    let input = inputs.add(t * STEPS + step);
                    even = _mm512_dpbusd_epi32(even, weights[step], _mm512_set1_epi32(*input));
                    odd = _mm512_dpbusd_epi32(
                        odd,
                        weights[step + 1],
                        _mm512_set1_epi32(*input.add(1)),
                    );
                }
                let sum = _mm512_cvtepi32_ps(_mm512_add_epi32(even, odd));
                let factor =
                    _mm512_mul_ps(scale, _mm512_set1_ps(*piece.panel.scales.add(place + t)));
                *y = _mm512_add_ps(*y, _mm512_mul_ps(factor, sum));
                if F::MIN {
                    let sum = _mm512_set1_ps(*piece.panel.sums.add(place + t));
                    *y = _mm512_add_ps(*y, _mm512_mul_ps(min, sum));
                }
            }
        }
    }
    let mask = (u32::MAX >> (32 - piece.rows)) as __mmask16;
    for (t, y) in y.into_iter().enumerate() {
        let out = piece.out.wrapping_add((lane + t) * piece.stride);
        // SAFETY: the mask leaves the rows that exist, which have their places.
        unsafe { _mm512_mask_storeu_ps(out, mask, y) };
    }
    T
}

/// What the products are too large by, per unit of the activations' sum: the instruction wants unsigned weights, so
/// signed ones are moved up by 128.
const fn offset<F: Format>() -> i32 {
    if F::BITS == 8 {
        F::OFFSET + 128
    } else {
        F::OFFSET
    }
}

/// The quants of one block: `[step]`, in each 32-bit lane the four of a row.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn unpack<F: Format>(quants: *const u8) -> [__m512i; STEPS] {
    // SAFETY: the caller's pointer is valid for the lines of a block.
    let line = |index: usize| unsafe { _mm512_loadu_si512(quants.add(64 * index).cast()) };
    let mut steps = [_mm512_setzero_si512(); STEPS];
    for (index, step) in steps.iter_mut().enumerate() {
        *step = if F::BITS == 8 {
            _mm512_xor_si512(line(index), _mm512_set1_epi8(-128))
        } else if index < STEPS / 2 {
            _mm512_and_si512(line(index), _mm512_set1_epi8(15))
        } else {
            let high = _mm512_srli_epi16::<4>(line(index - STEPS / 2));
            _mm512_and_si512(high, _mm512_set1_epi8(15))
        };
    }
    steps
}

/// 16 halves as numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn halves(scales: *const u8) -> __m512 {
    // SAFETY: the caller's pointer is valid for 32 bytes.
    _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(scales.cast()) })
}
