//! Root-mean-square normalisation, with the residual addition that comes before it.

use crate::gemm::isa::Isa;
use crate::lanes::{LANES, Lanes, dispatch};

/// `x <- x + delta`, then `delta <- x / rms(x) * weight`. All of one width, a multiple of 16.
///
/// # Panics
/// When the lengths differ or are no multiple of 16.
pub fn add_and_normalise(isa: Isa, x: &mut [f32], delta: &mut [f32], weight: &[f32], epsilon: f32) {
    let width = x.len();
    assert!(width.is_multiple_of(LANES) && weight.len() == width && delta.len() == width);
    let row = Row {
        x: x.as_mut_ptr(),
        delta: delta.as_mut_ptr(),
        weight: weight.as_ptr(),
        width,
        epsilon,
    };
    // SAFETY: every pointer of the row reaches `width` elements, a multiple of the lanes.
    unsafe { dispatch!(isa, normalise_body(row: Row)) }
}

/// `x <- x / rms(x) * weight`, of one width, a multiple of 16.
///
/// # Panics
/// When the lengths differ or are no multiple of 16.
pub fn normalise(isa: Isa, x: &mut [f32], weight: &[f32], epsilon: f32) {
    let width = x.len();
    assert!(width.is_multiple_of(LANES) && weight.len() == width);
    let (x, weight) = (x.as_mut_ptr(), weight.as_ptr());
    // SAFETY: both pointers reach `width` elements, a multiple of the lanes.
    unsafe {
        dispatch!(isa, in_place(x: *mut f32, weight: *const f32, width: usize, epsilon: f32));
    }
}

/// [`normalise`] for code that has chosen its lanes.
///
/// # Safety
/// L's features exist; `x` and `weight` reach `width` elements, a multiple of the lanes.
#[inline(always)]
pub(crate) unsafe fn in_place<L: Lanes>(
    x: *mut f32,
    weight: *const f32,
    width: usize,
    epsilon: f32,
) {
    // SAFETY: all offsets are below `width`.
    unsafe {
        let mut squares = L::splat(0.0);
        for i in (0..width).step_by(LANES) {
            let x = L::load(x.add(i));
            squares = squares.add(x.mul(x));
        }
        let mean = squares.sum() / width as f32;
        let factor = L::splat(1.0 / (mean + epsilon).sqrt());
        for i in (0..width).step_by(LANES) {
            L::load(x.add(i))
                .mul(factor)
                .mul(L::load(weight.add(i)))
                .store(x.add(i));
        }
    }
}

#[derive(Clone, Copy)]
struct Row {
    x: *mut f32,
    delta: *mut f32,
    weight: *const f32,
    width: usize,
    epsilon: f32,
}

#[inline(always)]
unsafe fn normalise_body<L: Lanes>(row: Row) {
    // SAFETY: all offsets are below `width`, which every pointer reaches in steps of the lanes.
    unsafe {
        let mut squares = L::splat(0.0);
        for i in (0..row.width).step_by(LANES) {
            let x = L::load(row.x.add(i)).add(L::load(row.delta.add(i)));
            x.store(row.x.add(i));
            squares = x.mul_add(x, squares);
        }
        let mean = squares.sum() / row.width as f32;
        let factor = L::splat(1.0 / (mean + row.epsilon).sqrt());
        for i in (0..row.width).step_by(LANES) {
            let x = L::load(row.x.add(i)).mul(factor);
            x.mul(L::load(row.weight.add(i))).store(row.delta.add(i));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalises_and_keeps_the_sum_with_every_instruction_set() {
        let width = 96;
        let x: Vec<f32> = (0..width).map(|i| ((i * 7) % 23) as f32 - 11.0).collect();
        let delta: Vec<f32> = (0..width).map(|i| i as f32 / 64.0).collect();
        let weight: Vec<f32> = (0..width).map(|i| 1.0 + i as f32 / 100.0).collect();
        let sums: Vec<f32> = x.iter().zip(&delta).map(|(a, b)| a + b).collect();
        let squares = sums.iter().map(|&s| f64::from(s).powi(2)).sum::<f64>();
        let rms = (squares / width as f64 + 1e-5).sqrt();
        let mut first: Option<Vec<f32>> = None;
        for isa in Isa::available() {
            let (mut x, mut out) = (x.clone(), delta.clone());
            add_and_normalise(isa, &mut x, &mut out, &weight, 1e-5);
            assert_eq!(x, sums);
            for i in 0..width {
                let want = f64::from(sums[i]) / rms * f64::from(weight[i]);
                assert!((f64::from(out[i]) - want).abs() < 1e-5 * want.abs().max(1.0));
            }
            assert_eq!(first.get_or_insert_with(|| out.clone()), &out, "{isa:?}");
            let mut alone = sums.clone();
            normalise(isa, &mut alone, &weight, 1e-5);
            assert_eq!(alone, out, "{isa:?}");
        }
    }
}
