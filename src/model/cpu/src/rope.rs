//! Rotary position embedding over interleaved pairs (dimensions 2i and 2i + 1), as GGUF `llama` files order them.

use crate::lanes::{LANES, Lanes};

/// Positions are computed in steps of this many.
const STEP: usize = 256;

/// Cosines and sines of each position, laid out for whole vectors: `[cos0 cos0 cos1 cos1 ..][-sin0 sin0 -sin1 sin1 ..]`.
#[derive(Debug)]
pub struct Rope {
    head_dim: usize,
    frequencies: Vec<f64>,
    magnitude: f64,
    table: Vec<f32>,
}

impl Rope {
    /// A table for heads of `head_dim` values, all of them rotated, with wave lengths from `2 pi` up to `2 pi base`.
    ///
    /// # Panics
    /// When `head_dim` is no multiple of 16.
    #[must_use]
    pub fn new(head_dim: usize, base: f32) -> Self {
        let exponent = |pair: usize| -2.0 * pair as f64 / head_dim as f64;
        let frequencies = (0..head_dim / 2)
            .map(|pair| f64::from(base).powf(exponent(pair)))
            .collect();
        Self::of_frequencies(frequencies, 1.0)
    }

    /// A table for heads of twice as many values as there are `frequencies`, the angles between one position and the
    /// next; rotated values are also multiplied by `magnitude`.
    ///
    /// # Panics
    /// When the heads' size is no multiple of 16.
    #[must_use]
    pub fn of_frequencies(frequencies: Vec<f64>, magnitude: f32) -> Self {
        let head_dim = 2 * frequencies.len();
        assert!(head_dim.is_multiple_of(LANES));
        Self {
            head_dim,
            frequencies,
            magnitude: f64::from(magnitude),
            table: Vec::new(),
        }
    }

    /// Makes the table cover at least `positions` positions; what was there stays.
    pub fn cover(&mut self, positions: usize) {
        let known = self.table.len() / (2 * self.head_dim);
        if positions <= known {
            return;
        }
        let positions = positions.next_multiple_of(STEP);
        self.table.reserve((positions - known) * 2 * self.head_dim);
        for position in known..positions {
            let angles = || {
                self.frequencies.iter().map(|f| {
                    let (sin, cos) = (f * position as f64).sin_cos();
                    (sin * self.magnitude, cos * self.magnitude)
                })
            };
            self.table
                .extend(angles().flat_map(|(_, cos)| [cos as f32, cos as f32]));
            self.table
                .extend(angles().flat_map(|(sin, _)| [-sin as f32, sin as f32]));
        }
    }

    /// The `2 * head_dim` factors of `position`.
    ///
    /// # Panics
    /// When the table does not cover it.
    pub(crate) fn factors(&self, position: usize) -> &[f32] {
        &self.table[position * 2 * self.head_dim..][..2 * self.head_dim]
    }

    pub(crate) fn head_dim(&self) -> usize {
        self.head_dim
    }
}

/// Rotates one head by the factors of its position and multiplies by `scale`.
///
/// # Safety
/// L's features exist; `from` and `to` reach `head_dim` values and `factors` twice as many, `head_dim` a multiple of 16.
#[inline(always)]
pub(crate) unsafe fn rotate<L: Lanes>(
    from: *const f32,
    factors: *const f32,
    scale: f32,
    to: *mut f32,
    head_dim: usize,
) {
    for i in (0..head_dim).step_by(LANES) {
        // SAFETY: `i + LANES <= head_dim`.
        unsafe {
            let x = L::load(from.add(i));
            let cos = L::load(factors.add(i));
            let sin = L::load(factors.add(head_dim + i));
            x.mul(cos)
                .add(x.swap_pairs().mul(sin))
                .mul(L::splat(scale))
                .store(to.add(i));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::Plain;

    #[test]
    fn rotates_each_pair_by_its_angle() {
        let mut rope = Rope::new(32, 10_000.0);
        rope.cover(300);
        let x: Vec<f32> = (0..32).map(|i| (i as f32 - 10.0) / 7.0).collect();
        for position in [0, 1, 17, 299] {
            let mut out = vec![0.0; 32];
            // SAFETY: the portable lanes need no features; the buffers have the lengths asked for.
            unsafe {
                rotate::<Plain>(
                    x.as_ptr(),
                    rope.factors(position).as_ptr(),
                    0.5,
                    out.as_mut_ptr(),
                    32,
                )
            };
            for pair in 0..16 {
                let angle = position as f64 * 10_000f64.powf(-(pair as f64) / 16.0);
                let (a, b) = (f64::from(x[2 * pair]), f64::from(x[2 * pair + 1]));
                let want = [
                    a * angle.cos() - b * angle.sin(),
                    a * angle.sin() + b * angle.cos(),
                ];
                for (got, want) in out[2 * pair..].iter().zip(want) {
                    assert!((f64::from(*got) - 0.5 * want).abs() < 1e-6);
                }
            }
        }
    }

    #[test]
    fn given_frequencies_turn_and_the_magnitude_scales() {
        let mut rope =
            Rope::of_frequencies((0..8).map(|pair| f64::from(pair) / 5.0).collect(), 1.25);
        rope.cover(4);
        let (cos, sin) = rope.factors(3).split_at(16);
        for pair in 0..8 {
            let angle = 3.0 * pair as f64 / 5.0;
            assert_eq!(cos[2 * pair], (1.25 * angle.cos()) as f32);
            assert_eq!(cos[2 * pair + 1], cos[2 * pair]);
            assert_eq!(sin[2 * pair + 1], (1.25 * angle.sin()) as f32);
            assert_eq!(sin[2 * pair], -sin[2 * pair + 1]);
        }
    }

    #[test]
    fn a_grown_table_equals_one_made_at_once() {
        let mut grown = Rope::new(16, 500.0);
        grown.cover(1);
        grown.cover(STEP + 1);
        let mut whole = Rope::new(16, 500.0);
        whole.cover(2 * STEP);
        assert_eq!(grown.table, whole.table);
    }
}
