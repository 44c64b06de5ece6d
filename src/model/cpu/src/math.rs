//! Exponential and SwiGLU of our own: the same bits with every [`Isa`], close to one unit in the last place.

use crate::gemm::isa::Isa;
use crate::lanes::{LANES, Lanes, ROUND, dispatch};

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// High part of ln 2: few enough bits that its product with an exponent is exact.
const LN_2_HIGH: f32 = 355.0 / 512.0;
/// The rest of ln 2.
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// Taylor coefficients of exp from r^7 down to r^2: on |r| < 0.35 the rest is below 1e-8.
const COEFFICIENTS: [f32; 6] = [
    1.0 / 5040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
];
/// Outside of this the result leaves the normal numbers.
const RANGE: (f32, f32) = (-87.0, 88.0);
/// Softmax weights below `e^-64` of the largest are zero: they are far below a unit in the last place of the sum, and
/// products with them would become subnormal, which some processors compute a hundred times slower.
const NEGLIGIBLE: f32 = -64.0;

/// `e^x` for x within [`RANGE`].
#[inline(always)]
pub(crate) unsafe fn exp<L: Lanes>(x: L) -> L {
    // SAFETY: the caller has L's features; there are no pointers.
    unsafe {
        let rounded = x.mul_add(L::splat(LOG2_E), L::splat(ROUND));
        let n = rounded.sub(L::splat(ROUND));
        let r = n.mul_add(L::splat(-LN_2_LOW), n.mul_add(L::splat(-LN_2_HIGH), x));
        let mut p = L::splat(COEFFICIENTS[0]);
        for c in &COEFFICIENTS[1..] {
            p = p.mul_add(r, L::splat(*c));
        }
        let p = p.mul(r).mul_add(r, r).add(L::splat(1.0));
        p.mul(rounded.exp2_of_rounded())
    }
}

/// Softmax weight `e^x` for x up to 0, zero where negligible.
#[inline(always)]
pub(crate) unsafe fn weight<L: Lanes>(x: L) -> L {
    // SAFETY: the caller has L's features; there are no pointers.
    unsafe { exp(x).zero_where_less(x, NEGLIGIBLE) }
}

/// [`weight`] of one number, the same bits.
#[inline(always)]
pub(crate) fn weight_of(x: f32) -> f32 {
    if x < NEGLIGIBLE {
        return 0.0;
    }
    let rounded = x.mul_add(LOG2_E, ROUND);
    let n = rounded - ROUND;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, x));
    let mut p = COEFFICIENTS[0];
    for c in &COEFFICIENTS[1..] {
        p = p.mul_add(r, *c);
    }
    let p = (p * r).mul_add(r, r) + 1.0;
    p * f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0f32.to_bits()))
}

/// `gate <- silu(gate) * up`, element by element.
///
/// # Panics
/// When the lengths differ or are no multiple of 16.
pub fn swiglu(isa: Isa, gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len());
    assert_eq!(gate.len() % LANES, 0);
    let (gate, up, len) = (gate.as_mut_ptr(), up.as_ptr(), gate.len());
    // SAFETY: both pointers reach `len` elements, a multiple of the lanes.
    unsafe { dispatch!(isa, swiglu_body(gate: *mut f32, up: *const f32, len: usize)) }
}

#[inline(always)]
unsafe fn swiglu_body<L: Lanes>(gate: *mut f32, up: *const f32, len: usize) {
    for i in (0..len).step_by(LANES) {
        // SAFETY: `i + LANES <= len`, and both pointers reach `len` elements.
        unsafe {
            let g = L::load(gate.add(i));
            let negated = L::splat(0.0)
                .sub(g)
                .max(L::splat(RANGE.0))
                .min(L::splat(RANGE.1));
            let silu = g.div(L::splat(1.0).add(exp(negated)));
            silu.mul(L::load(up.add(i))).store(gate.add(i));
        }
    }
}

/// Twice the square root of 2 / pi, for which the usual form has a hyperbolic tangent.
const GELU_SLOPE: f32 = 1.595_769;
/// What the cube is multiplied with.
const GELU_CUBE: f32 = 0.044_715;

/// `gate <- gelu(gate) * up`, element by element, with the approximation
/// `gelu(x) = x / (1 + exp(-2 sqrt(2 / pi) (x + 0.044715 x^3)))`, which is the one by a hyperbolic tangent.
///
/// # Panics
/// When the lengths differ or are no multiple of 16.
pub fn geglu(isa: Isa, gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len());
    assert_eq!(gate.len() % LANES, 0);
    let (gate, up, len) = (gate.as_mut_ptr(), up.as_ptr(), gate.len());
    // SAFETY: both pointers reach `len` elements, a multiple of the lanes.
    unsafe { dispatch!(isa, geglu_body(gate: *mut f32, up: *const f32, len: usize)) }
}

#[inline(always)]
unsafe fn geglu_body<L: Lanes>(gate: *mut f32, up: *const f32, len: usize) {
    for i in (0..len).step_by(LANES) {
        // SAFETY: `i + LANES <= len`, and both pointers reach `len` elements.
        unsafe {
            let g = L::load(gate.add(i));
            let cube = g.mul(g).mul(g).mul(L::splat(GELU_CUBE));
            let negated = g
                .add(cube)
                .mul(L::splat(-GELU_SLOPE))
                .max(L::splat(RANGE.0))
                .min(L::splat(RANGE.1));
            let gelu = g.div(L::splat(1.0).add(exp(negated)));
            gelu.mul(L::load(up.add(i))).store(gate.add(i));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::Plain;

    fn exp_all(x: [f32; LANES]) -> [f32; LANES] {
        let mut out = [0.0; LANES];
        // SAFETY: the portable lanes need no features, the arrays have 16 elements.
        unsafe { exp(Plain::load(x.as_ptr())).store(out.as_mut_ptr()) };
        out
    }

    #[test]
    fn exp_is_close_to_the_true_one() {
        let mut worst = 0.0f64;
        for step in 0..200_000 {
            let x = -87.0 + 175.0 * step as f32 / 200_000.0;
            let ours = f64::from(exp_all([x; LANES])[0]);
            worst = worst.max((ours / f64::from(x).exp() - 1.0).abs());
        }
        assert!(worst < 1.5e-7, "relative error {worst}");
    }

    #[test]
    fn one_weight_has_the_bits_of_sixteen() {
        for step in 0..20_000 {
            let x = -70.0 * step as f32 / 20_000.0;
            let mut lanes = [0.0; LANES];
            // SAFETY: the portable lanes need no features, the array has 16 elements.
            unsafe { weight(Plain::splat(x)).store(lanes.as_mut_ptr()) };
            assert_eq!(lanes[3].to_bits(), weight_of(x).to_bits(), "at {x}");
        }
        assert_eq!(weight_of(f32::NEG_INFINITY), 0.0);
        assert_eq!(weight_of(0.0), 1.0);
    }

    #[test]
    fn geglu_is_close_and_the_same_with_every_instruction_set() {
        let gate: Vec<f32> = (0..4096).map(|i| (i as f32 - 2048.0) / 128.0).collect();
        let up: Vec<f32> = (0..4096)
            .map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0)
            .collect();
        let mut plain = gate.clone();
        geglu(Isa::available()[0], &mut plain, &up);
        for ((&g, &u), &y) in gate.iter().zip(&up).zip(&plain) {
            let (g, u) = (f64::from(g), f64::from(u));
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (g + 0.044_715 * g * g * g);
            let want = 0.5 * g * (1.0 + inner.tanh()) * u;
            assert!(
                (f64::from(y) - want).abs() <= 1e-6 * (g * u).abs() + 1e-30,
                "{g} {u}: {y} {want}"
            );
        }
        for isa in Isa::available() {
            let mut other = gate.clone();
            geglu(isa, &mut other, &up);
            let same = other
                .iter()
                .zip(&plain)
                .all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{isa:?}");
        }
        let mut far = vec![1e30; LANES];
        far[1] = -1e30;
        geglu(Isa::best(), &mut far, &[1.0; LANES]);
        assert!(far[0] == 1e30 && far[1].abs() < 1e-7, "{far:?}");
    }

    #[test]
    fn swiglu_is_close_and_the_same_with_every_instruction_set() {
        let gate: Vec<f32> = (0..4096).map(|i| (i as f32 - 2048.0) / 16.0).collect();
        let up: Vec<f32> = (0..4096)
            .map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0)
            .collect();
        let mut plain = gate.clone();
        swiglu(Isa::available()[0], &mut plain, &up);
        for ((&g, &u), &y) in gate.iter().zip(&up).zip(&plain) {
            let (g, u) = (f64::from(g), f64::from(u));
            let want = g / (1.0 + (-g).exp()) * u;
            assert!(
                (f64::from(y) - want).abs() <= 1e-6 * want.abs() + 1e-30,
                "{g} {u}: {y} {want}"
            );
        }
        for isa in Isa::available() {
            let mut other = gate.clone();
            swiglu(isa, &mut other, &up);
            assert!(
                other
                    .iter()
                    .zip(&plain)
                    .all(|(a, b)| a.to_bits() == b.to_bits()),
                "{isa:?}"
            );
        }
    }
}
