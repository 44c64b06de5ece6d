//! [`Lanes`] on AVX2 (two registers) and AVX-512 (one).

use std::arch::x86_64::*;

use crate::lanes::{Lanes, larger};

/// Sixteen lanes as two 256-bit registers.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(__m256, __m256);

/// Sixteen lanes as one 512-bit register.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(__m512);

/// Order of the lanes in each pair, for a shuffle within 128 bits: 1 0 3 2.
const PAIRS: i32 = 0b10_11_00_01;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Asks for the second-level cache, since the first is full of what is being computed.
#[inline(always)]
fn fetch_lines(from: *const u8, len: usize) {
    for offset in (0..len).step_by(LINE) {
        // SAFETY: a prefetch reads nothing, so any address will do.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(from.wrapping_add(offset).cast()) }
    }
}

#[inline(always)]
unsafe fn sum8(lanes: __m256) -> f32 {
    // SAFETY: AVX2 by the caller's features.
    unsafe {
        let four = _mm_add_ps(
            _mm256_castps256_ps128(lanes),
            _mm256_extractf128_ps::<1>(lanes),
        );
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
    }
}

#[inline(always)]
unsafe fn largest8(lanes: __m256) -> f32 {
    // SAFETY: AVX2 by the caller's features.
    unsafe {
        let four = _mm_max_ps(
            _mm256_castps256_ps128(lanes),
            _mm256_extractf128_ps::<1>(lanes),
        );
        let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
        larger(_mm_cvtss_f32(two), _mm_cvtss_f32(_mm_movehdup_ps(two)))
    }
}

// SAFETY (of every method): the trait's contract is that AVX2 and F16C exist and pointers reach 16 elements.
impl Lanes for Avx2 {
    const ROWS: usize = 3;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(_mm256_set1_ps(value), _mm256_set1_ps(value)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: see the impl.
        unsafe {
            _mm256_storeu_ps(to, self.0);
            _mm256_storeu_ps(to.add(8), self.1);
        }
    }

    #[inline(always)]
    unsafe fn load_half(from: *const u16) -> Self {
        // SAFETY: see the impl.
        unsafe {
            Self(
                _mm256_cvtph_ps(_mm_loadu_si128(from.cast())),
                _mm256_cvtph_ps(_mm_loadu_si128(from.add(8).cast())),
            )
        }
    }

    #[inline(always)]
    unsafe fn store_half(self, to: *mut u16) {
        // SAFETY: see the impl.
        unsafe {
            _mm_storeu_si128(
                to.cast(),
                _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0),
            );
            _mm_storeu_si128(
                to.add(8).cast(),
                _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.1),
            );
        }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see the impl.
        unsafe {
            Self(
                _mm256_add_ps(self.0, other.0),
                _mm256_add_ps(self.1, other.1),
            )
        }
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: see the impl.
        unsafe {
            Self(
                _mm256_sub_ps(self.0, other.0),
                _mm256_sub_ps(self.1, other.1),
            )
        }
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: see the impl.
        unsafe {
            Self(
                _mm256_mul_ps(self.0, other.0),
                _mm256_mul_ps(self.1, other.1),
            )
        }
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, other: Self) -> Self {
        // SAFETY: see the impl.
        unsafe {
            Self(
                _mm256_fmadd_ps(self.0, factor.0, other.0),
                _mm256_fmadd_ps(self.1, factor.1, other.1),
            )
        }
    }

    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        // SAFETY: see the impl.
        unsafe {
            Self(
                _mm256_div_ps(self.0, other.0),
                _mm256_div_ps(self.1, other.1),
            )
        }
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        // SAFETY: see the impl.
        unsafe {
            Self(
                _mm256_max_ps(self.0, other.0),
                _mm256_max_ps(self.1, other.1),
            )
        }
    }

    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        // SAFETY: see the impl.
        unsafe {
            Self(
                _mm256_min_ps(self.0, other.0),
                _mm256_min_ps(self.1, other.1),
            )
        }
    }

    #[inline(always)]
    unsafe fn zero_where_less(self, x: Self, limit: f32) -> Self {
        // SAFETY: see the impl.
        unsafe {
            let limit = _mm256_set1_ps(limit);
            Self(
                _mm256_andnot_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(x.0, limit), self.0),
                _mm256_andnot_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(x.1, limit), self.1),
            )
        }
    }

    #[inline(always)]
    unsafe fn exp2_of_rounded(self) -> Self {
        // SAFETY: see the impl.
        unsafe {
            let one = _mm256_castps_si256(_mm256_set1_ps(1.0));
            let power = |x| {
                _mm256_castsi256_ps(_mm256_add_epi32(
                    _mm256_slli_epi32::<23>(_mm256_castps_si256(x)),
                    one,
                ))
            };
            Self(power(self.0), power(self.1))
        }
    }

    #[inline(always)]
    unsafe fn keep_first(self, count: usize, fill: f32) -> Self {
        // SAFETY: see the impl.
        unsafe {
            let count = _mm256_set1_epi32(count as i32);
            let fill = _mm256_set1_ps(fill);
            let low = _mm256_cmpgt_epi32(count, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
            let high = _mm256_cmpgt_epi32(count, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15));
            Self(
                _mm256_blendv_ps(fill, self.0, _mm256_castsi256_ps(low)),
                _mm256_blendv_ps(fill, self.1, _mm256_castsi256_ps(high)),
            )
        }
    }

    #[inline(always)]
    unsafe fn swap_pairs(self) -> Self {
        // SAFETY: see the impl.
        unsafe {
            Self(
                _mm256_permute_ps::<PAIRS>(self.0),
                _mm256_permute_ps::<PAIRS>(self.1),
            )
        }
    }

    #[inline(always)]
    fn fetch(from: *const u8, len: usize) {
        fetch_lines(from, len);
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: see the impl.
        unsafe { sum8(_mm256_add_ps(self.0, self.1)) }
    }

    #[inline(always)]
    unsafe fn largest(self) -> f32 {
        // SAFETY: see the impl.
        unsafe { largest8(_mm256_max_ps(self.0, self.1)) }
    }
}

#[inline(always)]
unsafe fn upper(lanes: __m512) -> __m256 {
    // SAFETY: AVX-512 F by the caller's features.
    unsafe { _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(lanes))) }
}

// SAFETY (of every method): the trait's contract is that AVX-512 F, BW and VL exist and pointers reach 16 elements.
impl Lanes for Avx512 {
    const ROWS: usize = 6;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(_mm512_set1_ps(value)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(_mm512_loadu_ps(from)) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: see the impl.
        unsafe { _mm512_storeu_ps(to, self.0) }
    }

    #[inline(always)]
    unsafe fn load_half(from: *const u16) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(_mm512_cvtph_ps(_mm256_loadu_si256(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn store_half(self, to: *mut u16) {
        // SAFETY: see the impl.
        unsafe {
            _mm256_storeu_si256(
                to.cast(),
                _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0),
            )
        }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(_mm512_add_ps(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(_mm512_sub_ps(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(_mm512_mul_ps(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, other: Self) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(_mm512_fmadd_ps(self.0, factor.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(_mm512_div_ps(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(_mm512_max_ps(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(_mm512_min_ps(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn zero_where_less(self, x: Self, limit: f32) -> Self {
        // SAFETY: see the impl.
        unsafe {
            let less = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(x.0, _mm512_set1_ps(limit));
            Self(_mm512_maskz_mov_ps(!less, self.0))
        }
    }

    #[inline(always)]
    unsafe fn exp2_of_rounded(self) -> Self {
        // SAFETY: see the impl.
        unsafe {
            let one = _mm512_castps_si512(_mm512_set1_ps(1.0));
            let shifted = _mm512_slli_epi32::<23>(_mm512_castps_si512(self.0));
            Self(_mm512_castsi512_ps(_mm512_add_epi32(shifted, one)))
        }
    }

    #[inline(always)]
    unsafe fn keep_first(self, count: usize, fill: f32) -> Self {
        let keep = if count >= 16 {
            u16::MAX
        } else {
            (1 << count) - 1
        };
        // SAFETY: see the impl.
        unsafe { Self(_mm512_mask_mov_ps(_mm512_set1_ps(fill), keep, self.0)) }
    }

    #[inline(always)]
    unsafe fn swap_pairs(self) -> Self {
        // SAFETY: see the impl.
        unsafe { Self(_mm512_permute_ps::<PAIRS>(self.0)) }
    }

    #[inline(always)]
    fn fetch(from: *const u8, len: usize) {
        fetch_lines(from, len);
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: see the impl.
        unsafe {
            let high = upper(self.0);
            sum8(_mm256_add_ps(_mm512_castps512_ps256(self.0), high))
        }
    }

    #[inline(always)]
    unsafe fn largest(self) -> f32 {
        // SAFETY: see the impl.
        unsafe {
            let high = upper(self.0);
            largest8(_mm256_max_ps(_mm512_castps512_ps256(self.0), high))
        }
    }
}
