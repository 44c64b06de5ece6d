//! AVX2: a register holds four inputs of each of eight rows, half a tile. Products of unsigned quants are added in 16
//! bits as long as they fit (2 * 15 * 127 eight times, 2 * 31 * 127 four times, 2 * 63 * 127 twice), then widened.

use std::arch::x86_64::*;

use super::super::Tile;
use super::scales_of;
use crate::activations::{Lane, PANEL};
use crate::matrix::TILE_ROWS;
use crate::quant::BLOCK;
use crate::quant::planes::{Factors, LINE, LOW_LINES, Planes};

/// Steps of four inputs per unit.
const STEPS: usize = BLOCK / 4;

/// Tokens computed together.
const TOKENS: usize = 4;

/// How far ahead of its use a tile is fetched, bytes: what memory delivers in its latency.
const AHEAD: usize = 8192;

/// The eight rows of each half of a tile.
type Halves<T> = [T; 2];

/// # Safety
/// Pointers of `tile` are valid for its units, its tokens exist, nobody else writes their outputs, and the processor
/// has the features.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn tile<P: Planes>(tile: &Tile<'_>) {
    for (token, count) in tile.steps(TOKENS) {
        // SAFETY: the tokens are of one panel and of the tile's range.
        unsafe {
            match count {
                1 => tokens::<P, 1>(tile, token),
                2 => tokens::<P, 2>(tile, token),
                3 => tokens::<P, 3>(tile, token),
                _ => tokens::<P, TOKENS>(tile, token),
            }
        }
    }
}

/// # Safety
/// `token .. token + T` are of one panel and of the tile's range.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tokens<P: Planes, const T: usize>(tile: &Tile<'_>, token: usize) {
    let lane = tile.input.lane(token);
    let mut y = [[_mm256_setzero_ps(); 2]; T];
    for unit in 0..tile.blocks {
        fetch::<P>(tile, unit);
        let place = unit * PANEL;
        let (block, factors) = scales_of::<P>(tile, unit);
        // SAFETY: the unit exists in the tile, and a panel holds `PANEL` entries for each unit.
        unsafe {
            let quants = tile.quants.add(unit * P::UNIT);
            let sums = dots::<P, T>(quants, factors, &lane, place);
            let mut scales = numbers(block);
            if P::FACTORS == Factors::ScaleAndMin {
                scales = times(scales, bytes(factors));
            }
            for (t, y) in y.iter_mut().enumerate() {
                let scale = _mm256_set1_ps(*lane.scales.add(place + t));
                for half in 0..2 {
                    let factor = _mm256_mul_ps(scales[half], scale);
                    y[half] = _mm256_fmadd_ps(factor, _mm256_cvtepi32_ps(sums[t][half]), y[half]);
                }
            }
            if P::MIN {
                let mut mins = numbers(block.add(32));
                if P::FACTORS == Factors::ScaleAndMin {
                    let zero = _mm256_set1_ps(-0.0);
                    let negative = [_mm256_sub_ps(zero, mins[0]), _mm256_sub_ps(zero, mins[1])];
                    mins = times(negative, bytes(factors.add(16)));
                }
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
    let mut numbers = [0.0_f32; TILE_ROWS];
    // SAFETY: the caller's `out` has place for `rows`.
    unsafe {
        _mm256_storeu_ps(numbers.as_mut_ptr(), y[0]);
        _mm256_storeu_ps(numbers.as_mut_ptr().add(8), y[1]);
        std::ptr::copy_nonoverlapping(numbers.as_ptr(), out, rows);
    }
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

/// 16 unsigned bytes as numbers.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn bytes(bytes: *const u8) -> Halves<__m256> {
    // SAFETY: the caller's pointer is valid for 16 bytes.
    let bytes = unsafe { _mm_loadu_si128(bytes.cast()) };
    // No closure: it would not be inlined.
    [
        _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
        _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128::<8>(bytes))),
    ]
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn times(a: Halves<__m256>, b: Halves<__m256>) -> Halves<__m256> {
    [_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])]
}

/// The unsigned quants of one step: four inputs of each row.
///
/// # Safety
/// `quants` is valid for a unit.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn weights<P: Planes>(quants: *const u8, step: usize) -> Halves<__m256i> {
    // SAFETY: the caller's pointer is valid for all lines of a unit.
    let mut low = unsafe { line(quants, step % LOW_LINES) };
    for low in &mut low {
        if step >= LOW_LINES {
            *low = _mm256_srli_epi16::<4>(*low);
        }
        *low = _mm256_and_si256(*low, _mm256_set1_epi8(15));
    }
    if P::HIGH == 0 {
        return low;
    }
    let per_line = STEPS / P::HIGH;
    let mask = _mm256_set1_epi8(if P::HIGH == 1 { 0x10 } else { 0x30 });
    // SAFETY: as above.
    let high = unsafe { line(quants, LOW_LINES + step / per_line) };
    for (low, high) in low.iter_mut().zip(high) {
        // The step's bits go to where the fifth begins; what else is in the bytes is masked away.
        let high = match step % per_line * P::HIGH {
            0 => _mm256_slli_epi16::<4>(high),
            1 => _mm256_slli_epi16::<3>(high),
            2 => _mm256_slli_epi16::<2>(high),
            3 => _mm256_slli_epi16::<1>(high),
            4 => high,
            5 => _mm256_srli_epi16::<1>(high),
            6 => _mm256_srli_epi16::<2>(high),
            _ => _mm256_srli_epi16::<3>(high),
        };
        *low = _mm256_or_si256(*low, _mm256_and_si256(high, mask));
    }
    low
}

/// A line of a unit.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn line(quants: *const u8, index: usize) -> Halves<__m256i> {
    // SAFETY: the caller's pointer is valid for this line.
    unsafe {
        let line = quants.add(LINE * index).cast::<__m256i>();
        [_mm256_loadu_si256(line), _mm256_loadu_si256(line.add(1))]
    }
}

/// Sums of one unit for `T` tokens, times the factors of its halves where there are any.
///
/// # Safety
/// The pointers are valid for a unit of the tile, for its factors, and for a unit of each token.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn dots<P: Planes, const T: usize>(
    quants: *const u8,
    factors: *const u8,
    lane: &Lane,
    place: usize,
) -> [Halves<__m256i>; T] {
    let mut all = [[_mm256_setzero_si256(); 2]; T];
    // SAFETY: the caller's pointers are valid for all steps of a unit.
    unsafe {
        let mut sums = starts::<P, T>(lane, place, 0);
        let mut pairs = [[_mm256_setzero_si256(); 2]; T];
        // One loop of a known length, so that it is unrolled and every step's shifts are constants.
        for step in 0..STEPS {
            let weights = weights::<P>(quants, step);
            let inputs = lane.quants.add(place).cast::<i32>().add(step);
            for (t, pairs) in pairs.iter_mut().enumerate() {
                let input = _mm256_set1_epi32(*inputs.add(t * STEPS));
                for half in 0..2 {
                    let products = _mm256_maddubs_epi16(weights[half], input);
                    pairs[half] = _mm256_add_epi16(pairs[half], products);
                }
            }
            if (step + 1) % (STEPS >> P::HIGH) == 0 {
                widen(&mut sums, &mut pairs);
            }
            if P::FACTORS == Factors::Halves && step + 1 == STEPS / 2 {
                fold(&mut all, &sums, factors);
                sums = starts::<P, T>(lane, place, 1);
            }
        }
        if P::FACTORS != Factors::Halves {
            return sums;
        }
        fold(&mut all, &sums, factors.add(TILE_ROWS));
    }
    all
}

/// What the sums of a part of a unit begin with: the shift for weights that are moved up by the offset.
///
/// # Safety
/// There are `T` tokens from `place` on.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn starts<P: Planes, const T: usize>(
    lane: &Lane,
    place: usize,
    part: usize,
) -> [Halves<__m256i>; T] {
    let mut sums = [[_mm256_setzero_si256(); 2]; T];
    if P::OFFSET != 0 {
        for (t, sums) in sums.iter_mut().enumerate() {
            // SAFETY: one entry per token.
            let (both, first) =
                unsafe { (*lane.shifts.add(place + t), *lane.firsts.add(place + t)) };
            let shift = match (P::FACTORS, part) {
                (Factors::Halves, 0) => first,
                (Factors::Halves, _) => both - first,
                _ => both,
            };
            *sums = [_mm256_set1_epi32(shift * (P::OFFSET / 8)); 2];
        }
    }
    sums
}

/// Adds what is in 16 bits to the sums, and begins again.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn widen<const T: usize>(sums: &mut [Halves<__m256i>; T], pairs: &mut [Halves<__m256i>; T]) {
    let ones = _mm256_set1_epi16(1);
    for t in 0..T {
        for half in 0..2 {
            let wide = _mm256_madd_epi16(pairs[t][half], ones);
            sums[t][half] = _mm256_add_epi32(sums[t][half], wide);
            pairs[t][half] = _mm256_setzero_si256();
        }
    }
}

/// Adds the sums times a factor for each row.
///
/// # Safety
/// `factors` is valid for 16 bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn fold<const T: usize>(
    all: &mut [Halves<__m256i>; T],
    sums: &[Halves<__m256i>; T],
    factors: *const u8,
) {
    // SAFETY: the caller's promise.
    let bytes = unsafe { _mm_loadu_si128(factors.cast()) };
    let factors = [
        _mm256_cvtepi8_epi32(bytes),
        _mm256_cvtepi8_epi32(_mm_srli_si128::<8>(bytes)),
    ];
    for t in 0..T {
        for half in 0..2 {
            let product = _mm256_mullo_epi32(sums[t][half], factors[half]);
            all[t][half] = _mm256_add_epi32(all[t][half], product);
        }
    }
}

/// Asks for what comes some units later: tiles follow each other, so the end of one leads to the next.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn fetch<P: Planes>(tile: &Tile<'_>, unit: usize) {
    let quants = tile.quants.wrapping_add(unit * P::UNIT + AHEAD);
    for line in 0..P::UNIT / LINE {
        _mm_prefetch::<_MM_HINT_T0>(quants.wrapping_add(LINE * line).cast());
    }
    let (_, factors) = scales_of::<P>(tile, unit);
    _mm_prefetch::<_MM_HINT_T0>(factors.wrapping_add(AHEAD).cast());
}
