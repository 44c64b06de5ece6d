//! AVX-512 VNNI: a register holds four inputs of each of the tile's 16 rows, and one instruction multiplies them with
//! four inputs of a token.

use std::arch::x86_64::*;

use super::Tile;
use super::scratch::Scratch;
use crate::activations::PANEL;
use crate::quant::{BLOCK, Format};

/// Steps of four inputs per block.
const STEPS: usize = BLOCK / 4;

/// Tokens computed together: their sums and a block's weights fill the registers.
const TOKENS: usize = 8;

/// How far ahead of its use a tile is fetched when it is read once, bytes: farther than one block takes to compute.
const AHEAD: usize = 2048;

/// One block's weights, unpacked.
#[derive(Clone, Copy)]
struct Block {
    /// In each 32-bit lane four inputs of a row.
    steps: [__m512i; STEPS],
    scales: __m512,
    mins: __m512,
}

/// # Safety
/// Pointers of `tile` are valid for its blocks, its tokens exist, nobody else writes their outputs, and the processor
/// has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) unsafe fn tile<F: Format>(tile: &Tile<'_>, scratch: &mut Scratch) {
    if tile.tokens.len() <= TOKENS {
        // SAFETY: the block exists.
        let block = |index: usize| unsafe {
            fetch::<F>(tile, index);
            unpack::<F>(tile, index)
        };
        // SAFETY: as the caller's.
        return unsafe { all_tokens::<F>(tile, block) };
    }
    let blocks = scratch.take::<Block>(tile.blocks);
    for (index, place) in blocks.iter_mut().enumerate() {
        // SAFETY: the block exists.
        place.write(unsafe { unpack::<F>(tile, index) });
    }
    // SAFETY: every block was written.
    let block = |index: usize| unsafe { blocks.get_unchecked(index).assume_init() };
    // SAFETY: as the caller's.
    unsafe { all_tokens::<F>(tile, block) };
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn all_tokens<F: Format>(tile: &Tile<'_>, block: impl Fn(usize) -> Block) {
    for (token, count) in tile.steps(TOKENS) {
        // SAFETY: the tokens are of one panel and of the tile's range.
        unsafe {
            match count {
                1 => tokens::<F, 1>(tile, token, &block),
                2 => tokens::<F, 2>(tile, token, &block),
                3 => tokens::<F, 3>(tile, token, &block),
                4 => tokens::<F, 4>(tile, token, &block),
                5 => tokens::<F, 5>(tile, token, &block),
                6 => tokens::<F, 6>(tile, token, &block),
                7 => tokens::<F, 7>(tile, token, &block),
                _ => tokens::<F, TOKENS>(tile, token, &block),
            }
        }
    }
}

/// # Safety
/// `token .. token + T` are of one panel and of the tile's range.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn tokens<F: Format, const T: usize>(
    tile: &Tile<'_>,
    token: usize,
    block: &impl Fn(usize) -> Block,
) {
    let lane = tile.input.lane(token);
    let mut y = [_mm512_setzero_ps(); T];
    for index in 0..tile.blocks {
        let block = block(index);
        for (t, y) in y.iter_mut().enumerate() {
            let place = index * PANEL + t;
            // SAFETY: a panel holds `PANEL` entries for each block.
            unsafe {
                let sum = _mm512_cvtepi32_ps(dot::<F>(
                    &block.steps,
                    lane.quants.add(place),
                    lane.shifts.add(place),
                ));
                let factor = _mm512_mul_ps(block.scales, _mm512_set1_ps(*lane.scales.add(place)));
                *y = _mm512_add_ps(*y, _mm512_mul_ps(factor, sum));
                if F::MIN {
                    let sum = _mm512_set1_ps(*lane.sums.add(place));
                    *y = _mm512_add_ps(*y, _mm512_mul_ps(block.mins, sum));
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

/// The 16 rows' sums of products with one block of a token.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn dot<F: Format>(
    steps: &[__m512i; STEPS],
    quants: *const [i8; BLOCK],
    shift: *const i32,
) -> __m512i {
    let inputs = quants.cast::<i32>();
    // SAFETY: the pointers are valid for one block.
    unsafe {
        // The instruction wants unsigned weights, so signed bytes are moved up by 128, 16 times what `shift` is for.
        let mut even = match F::OFFSET + if F::BITS == 8 { 128 } else { 0 } {
            0 => _mm512_setzero_si512(),
            8 => _mm512_set1_epi32(*shift),
            _ => _mm512_slli_epi32::<4>(_mm512_set1_epi32(*shift)),
        };
        let mut odd = _mm512_setzero_si512();
        for step in (0..STEPS).step_by(2) {
            even = _mm512_dpbusd_epi32(even, steps[step], _mm512_set1_epi32(*inputs.add(step)));
            odd = _mm512_dpbusd_epi32(
                odd,
                steps[step + 1],
                _mm512_set1_epi32(*inputs.add(step + 1)),
            );
        }
        _mm512_add_epi32(even, odd)
    }
}

/// # Safety
/// `index` is one of the tile's blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn unpack<F: Format>(tile: &Tile<'_>, index: usize) -> Block {
    let low = _mm512_set1_epi8(15);
    // SAFETY: a tile holds this many bytes for each of its blocks.
    unsafe {
        let quants = tile.quants.add(index * F::BLOCK_QUANTS);
        let line = |index: usize| _mm512_loadu_si512(quants.add(64 * index).cast());
        let mut steps = [_mm512_setzero_si512(); STEPS];
        for (step, place) in steps.iter_mut().enumerate() {
            *place = if F::BITS == 8 {
                _mm512_xor_si512(line(step), _mm512_set1_epi8(-128))
            } else if step < STEPS / 2 {
                _mm512_and_si512(line(step), low)
            } else {
                _mm512_and_si512(_mm512_srli_epi16::<4>(line(step - STEPS / 2)), low)
            };
        }
        let scales = tile.scales.add(index * F::BLOCK_SCALES).cast::<__m256i>();
        Block {
            steps,
            scales: _mm512_cvtph_ps(_mm256_loadu_si256(scales)),
            mins: if F::MIN {
                _mm512_cvtph_ps(_mm256_loadu_si256(scales.add(1)))
            } else {
                _mm512_setzero_ps()
            },
        }
    }
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
