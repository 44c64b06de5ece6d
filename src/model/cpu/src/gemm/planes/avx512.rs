//! AVX-512 VNNI: a register holds four inputs of each of the tile's 16 rows, their bits put together from the planes
//! once for all tokens of a step.

use std::arch::x86_64::*;

use super::super::Tile;
use super::scales_of;
use crate::activations::{Lane, PANEL};
use crate::matrix::TILE_ROWS;
use crate::quant::BLOCK;
use crate::quant::planes::{Factors, LINE, LOW_LINES, Planes};

/// Steps of four inputs per unit.
const STEPS: usize = BLOCK / 4;

/// Tokens computed together where a token has one integer and one float sum.
const TOKENS: usize = 12;

/// Tokens computed together where each half of a unit has an integer sum.
const TOKENS_OF_HALVES: usize = 8;

/// How far ahead of its use a tile is fetched, bytes: what memory delivers in its latency.
const AHEAD: usize = 8192;

/// # Safety
/// Pointers of `tile` are valid for its units, its tokens exist, nobody else writes their outputs, and the processor
/// has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) unsafe fn tile<P: Planes>(tile: &Tile<'_>) {
    let most = match P::FACTORS {
        Factors::Halves => TOKENS_OF_HALVES,
        _ => TOKENS,
    };
    for (token, count) in tile.steps(most) {
        // SAFETY: the tokens are of one panel and of the tile's range.
        unsafe {
            match count {
                1 => tokens::<P, 1>(tile, token),
                2 => tokens::<P, 2>(tile, token),
                3 => tokens::<P, 3>(tile, token),
                4 => tokens::<P, 4>(tile, token),
                5 => tokens::<P, 5>(tile, token),
                6 => tokens::<P, 6>(tile, token),
                7 => tokens::<P, 7>(tile, token),
                8 => tokens::<P, 8>(tile, token),
                9 => tokens::<P, 9>(tile, token),
                10 => tokens::<P, 10>(tile, token),
                11 => tokens::<P, 11>(tile, token),
                _ => tokens::<P, TOKENS>(tile, token),
            }
        }
    }
}

/// # Safety
/// `token .. token + T` are of one panel and of the tile's range.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn tokens<P: Planes, const T: usize>(tile: &Tile<'_>, token: usize) {
    let lane = tile.input.lane(token);
    let mut y = [_mm512_setzero_ps(); T];
    for unit in 0..tile.blocks {
        fetch::<P>(tile, unit);
        let place = unit * PANEL;
        let (block, factors) = scales_of::<P>(tile, unit);
        // SAFETY: the unit exists, and a panel holds `PANEL` entries for each unit.
        unsafe {
            let quants = tile.quants.add(unit * P::UNIT);
            let sums = match P::FACTORS {
                Factors::Halves => halves::<P, T>(quants, factors, &lane, place),
                _ => dots::<P, T>(quants, &lane, place),
            };
            let mut scales = numbers(block);
            if P::FACTORS == Factors::ScaleAndMin {
                scales = _mm512_mul_ps(scales, bytes(factors));
            }
            for (t, y) in y.iter_mut().enumerate() {
                let factor = _mm512_mul_ps(scales, _mm512_set1_ps(*lane.scales.add(place + t)));
                *y = _mm512_fmadd_ps(factor, _mm512_cvtepi32_ps(sums[t]), *y);
            }
            if P::MIN {
                let mut mins = numbers(block.add(32));
                if P::FACTORS == Factors::ScaleAndMin {
                    let negative = _mm512_sub_ps(_mm512_set1_ps(-0.0), mins);
                    mins = _mm512_mul_ps(negative, bytes(factors.add(16)));
                }
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

/// 16 halves as numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn numbers(halves: *const u8) -> __m512 {
    // SAFETY: the caller's pointer is valid for 32 bytes.
    unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(halves.cast())) }
}

/// 16 unsigned bytes as numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn bytes(bytes: *const u8) -> __m512 {
    // SAFETY: the caller's pointer is valid for 16 bytes.
    unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(bytes.cast()))) }
}

/// The unsigned quants of one step: four inputs of each row.
///
/// # Safety
/// `quants` is valid for a unit.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn weights<P: Planes>(quants: *const u8, step: usize) -> __m512i {
    // SAFETY: the caller's pointer is valid for all lines of a unit.
    let mut low = unsafe { line(quants, step % LOW_LINES) };
    if step >= LOW_LINES {
        low = _mm512_srli_epi16::<4>(low);
    }
    low = _mm512_and_si512(low, _mm512_set1_epi8(15));
    if P::HIGH == 0 {
        return low;
    }
    let per_line = STEPS / P::HIGH;
    // SAFETY: as above.
    let high = unsafe { line(quants, LOW_LINES + step / per_line) };
    // The step's bits go to where the fifth begins; what else is in the bytes is masked away.
    let high = match step % per_line * P::HIGH {
        0 => _mm512_slli_epi16::<4>(high),
        1 => _mm512_slli_epi16::<3>(high),
        2 => _mm512_slli_epi16::<2>(high),
        3 => _mm512_slli_epi16::<1>(high),
        4 => high,
        5 => _mm512_srli_epi16::<1>(high),
        6 => _mm512_srli_epi16::<2>(high),
        _ => _mm512_srli_epi16::<3>(high),
    };
    let mask = _mm512_set1_epi8(if P::HIGH == 1 { 0x10 } else { 0x30 });
    _mm512_or_si512(low, _mm512_and_si512(high, mask))
}

/// A line of a unit.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn line(quants: *const u8, index: usize) -> __m512i {
    // SAFETY: the caller's pointer is valid for this line.
    unsafe { _mm512_loadu_si512(quants.add(LINE * index).cast()) }
}

/// The 16 rows' sums of products with one unit of each of `T` tokens.
///
/// # Safety
/// The pointers are valid for a unit of the tile and for one of each token.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn dots<P: Planes, const T: usize>(
    quants: *const u8,
    lane: &Lane,
    place: usize,
) -> [__m512i; T] {
    // One sum per token waits for itself unless there are many tokens.
    let chains = if T < 6 { 2 } else { 1 };
    let mut sums = [[_mm512_setzero_si512(); T]; 2];
    if P::OFFSET != 0 {
        for (t, sum) in sums[0].iter_mut().enumerate() {
            // SAFETY: one entry per token.
            *sum = offset::<P>(unsafe { *lane.shifts.add(place + t) });
        }
    }
    for step in 0..STEPS {
        // SAFETY: the caller's pointers are valid for all steps of a unit.
        unsafe {
            let weights = weights::<P>(quants, step);
            let inputs = lane.quants.add(place).cast::<i32>().add(step);
            for (t, sum) in sums[step % chains].iter_mut().enumerate() {
                let input = _mm512_set1_epi32(*inputs.add(t * STEPS));
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

/// What a sum begins with, given the shift for weights moved up by 8.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn offset<P: Planes>(shift: i32) -> __m512i {
    let shift = _mm512_set1_epi32(shift);
    match P::OFFSET {
        0 => _mm512_setzero_si512(),
        16 => _mm512_slli_epi32::<1>(shift),
        _ => _mm512_slli_epi32::<2>(shift),
    }
}

/// As [`dots`], where each half of the unit has a factor.
///
/// # Safety
/// As [`dots`]; `factors` is valid for 32 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn halves<P: Planes, const T: usize>(
    quants: *const u8,
    factors: *const u8,
    lane: &Lane,
    place: usize,
) -> [__m512i; T] {
    let mut all = [_mm512_setzero_si512(); T];
    // SAFETY: the caller's pointers are valid for all steps of a unit.
    unsafe {
        let mut sums = starts::<P, T>(lane, place, 0);
        // One loop of a known length, so that it is unrolled and every step's shifts are constants.
        for step in 0..STEPS {
            let weights = weights::<P>(quants, step);
            let inputs = lane.quants.add(place).cast::<i32>().add(step);
            for (t, sum) in sums.iter_mut().enumerate() {
                let input = _mm512_set1_epi32(*inputs.add(t * STEPS));
                *sum = _mm512_dpbusd_epi32(*sum, weights, input);
            }
            if step + 1 == STEPS / 2 {
                fold(&mut all, &sums, factors);
                sums = starts::<P, T>(lane, place, 1);
            }
        }
        fold(&mut all, &sums, factors.add(TILE_ROWS));
    }
    all
}

/// What the sums of a half of a unit begin with.
///
/// # Safety
/// There are `T` tokens from `place` on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn starts<P: Planes, const T: usize>(
    lane: &Lane,
    place: usize,
    half: usize,
) -> [__m512i; T] {
    let mut sums = [_mm512_setzero_si512(); T];
    for (t, sum) in sums.iter_mut().enumerate() {
        // SAFETY: one entry per token.
        let (both, first) = unsafe { (*lane.shifts.add(place + t), *lane.firsts.add(place + t)) };
        *sum = offset::<P>(if half == 0 { first } else { both - first });
    }
    sums
}

/// Adds the sums times a factor for each row.
///
/// # Safety
/// `factors` is valid for 16 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn fold<const T: usize>(all: &mut [__m512i; T], sums: &[__m512i; T], factors: *const u8) {
    // SAFETY: the caller's promise.
    let factors = _mm512_cvtepi8_epi32(unsafe { _mm_loadu_si128(factors.cast()) });
    for t in 0..T {
        all[t] = _mm512_add_epi32(all[t], _mm512_mullo_epi32(sums[t], factors));
    }
}

/// Asks for what comes some units later: tiles follow each other, so the end of one leads to the next.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn fetch<P: Planes>(tile: &Tile<'_>, unit: usize) {
    let quants = tile.quants.wrapping_add(unit * P::UNIT + AHEAD);
    for line in 0..P::UNIT / LINE {
        _mm_prefetch::<_MM_HINT_T0>(quants.wrapping_add(LINE * line).cast());
    }
    let (_, factors) = scales_of::<P>(tile, unit);
    _mm_prefetch::<_MM_HINT_T0>(factors.wrapping_add(AHEAD).cast());
}
