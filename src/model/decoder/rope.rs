//! Rotary position embeddings as models describe them, and the angles that come of it.

use std::f64::consts::PI;

use compere_cpu::Rope;

/// How positions are turned into angles.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeSpec {
    /// Wave lengths go from 2 pi up to 2 pi times this.
    pub base: f32,
    /// How the waves were stretched after training on shorter texts.
    pub scaling: RopeScaling,
    /// What each frequency is divided by, `[head_dim / 2]`, where a file lists it.
    pub divisors: Option<Vec<f32>>,
}

/// Ways to stretch the waves.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// None.
    None,
    /// All waves by the same factor.
    Linear {
        /// How much longer.
        factor: f32,
    },
    /// Long waves by the factor, short ones not, and between them gradually, by how often they fit the original context
    /// (Llama 3.1).
    Bands {
        /// How much longer the long waves are.
        factor: f32,
        /// Waves that fit less often are long.
        low: f32,
        /// Waves that fit more often are short.
        high: f32,
        /// Positions of the original context.
        original: usize,
    },
    /// The same with the ramp over the dimensions, and values scaled (YaRN, arXiv 2309.00071).
    Yarn {
        /// How much longer the long waves are.
        factor: f32,
        /// Positions of the original context.
        original: usize,
        /// Turns within the original context from which on a wave is short.
        fast: f32,
        /// Turns up to which it is long.
        slow: f32,
        /// What rotated values are multiplied with; [`RopeScaling::yarn_magnitude`] is the usual.
        magnitude: f32,
    },
}

impl RopeScaling {
    /// The magnitude that YaRN recommends for a factor.
    #[must_use]
    pub fn yarn_magnitude(factor: f32) -> f32 {
        if factor > 1.0 {
            (0.1 * f64::from(factor).ln() + 1.0) as f32
        } else {
            1.0
        }
    }
}

impl RopeSpec {
    /// Plain rotation.
    #[must_use]
    pub fn plain(base: f32) -> Self {
        Self {
            base,
            scaling: RopeScaling::None,
            divisors: None,
        }
    }

    /// The tables' source for heads of `head_dim` numbers, a multiple of 16.
    pub(super) fn build(&self, head_dim: usize) -> Rope {
        let magnitude = match self.scaling {
            RopeScaling::Yarn { magnitude, .. } => magnitude,
            _ => 1.0,
        };
        Rope::of_frequencies(self.frequencies(head_dim), magnitude)
    }

    /// Angles between one position and the next, `[head_dim / 2]`.
    pub(crate) fn frequencies(&self, head_dim: usize) -> Vec<f64> {
        let plain = |pair: usize| {
            let exponent = -2.0 * pair as f64 / head_dim as f64;
            f64::from(self.base).powf(exponent)
        };
        let divisor = |pair: usize| {
            let listed = self.divisors.as_ref().and_then(|list| list.get(pair));
            listed.map_or(1.0, |&divisor| f64::from(divisor))
        };
        (0..head_dim / 2)
            .map(|pair| plain(pair) * self.stretch(pair, plain(pair), head_dim) / divisor(pair))
            .collect()
    }

    /// What the frequency of a pair is multiplied with.
    fn stretch(&self, pair: usize, frequency: f64, head_dim: usize) -> f64 {
        let between = |factor: f32, kept: f64| (1.0 - kept) / f64::from(factor) + kept;
        match self.scaling {
            RopeScaling::None => 1.0,
            RopeScaling::Linear { factor } => between(factor, 0.0),
            RopeScaling::Bands {
                factor,
                low,
                high,
                original,
            } => {
                let turns = original as f64 * frequency / (2.0 * PI);
                let (low, high) = (f64::from(low), f64::from(high));
                between(factor, ((turns - low) / (high - low)).clamp(0.0, 1.0))
            }
            RopeScaling::Yarn {
                factor,
                original,
                fast,
                slow,
                ..
            } => {
                let pair_of = |turns: f32| {
                    let waves = original as f64 / (f64::from(turns) * 2.0 * PI);
                    head_dim as f64 * waves.ln() / (2.0 * f64::from(self.base).ln())
                };
                let first = pair_of(fast).floor().max(0.0);
                let last = pair_of(slow).ceil().min(head_dim as f64 - 1.0);
                let ramp = (pair as f64 - first) / (last - first).max(0.001);
                between(factor, 1.0 - ramp.clamp(0.0, 1.0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretches(scaling: RopeScaling, base: f32, head_dim: usize) -> Vec<f64> {
        let spec = |scaling| RopeSpec {
            scaling,
            ..RopeSpec::plain(base)
        };
        let plain = spec(RopeScaling::None).frequencies(head_dim);
        let scaled = spec(scaling).frequencies(head_dim);
        scaled.iter().zip(plain).map(|(a, b)| a / b).collect()
    }

    #[test]
    fn long_waves_are_stretched_and_short_ones_are_not() {
        let bands = RopeScaling::Bands {
            factor: 8.0,
            low: 1.0,
            high: 4.0,
            original: 8192,
        };
        let yarn = RopeScaling::Yarn {
            factor: 8.0,
            original: 8192,
            fast: 32.0,
            slow: 1.0,
            magnitude: 1.2,
        };
        for scaling in [bands, yarn] {
            let all = stretches(scaling, 500_000.0, 128);
            assert!(
                (all[0] - 1.0).abs() < 1e-12 && (all[63] - 0.125).abs() < 1e-12,
                "{all:?}"
            );
            assert!(all.windows(2).all(|pair| pair[1] <= pair[0]), "{all:?}");
            let between = all.iter().filter(|x| (0.126..0.999).contains(*x)).count();
            assert!(between > 2, "{all:?}");
        }
        let all = stretches(RopeScaling::Linear { factor: 4.0 }, 10_000.0, 64);
        assert!(all.iter().all(|x| (x - 0.25).abs() < 1e-12), "{all:?}");
    }

    #[test]
    fn listed_divisors_divide() {
        let spec = RopeSpec {
            divisors: Some((1..=8).map(|i| i as f32).collect()),
            ..RopeSpec::plain(100.0)
        };
        let plain = RopeSpec::plain(100.0).frequencies(16);
        for (pair, frequency) in spec.frequencies(16).iter().enumerate() {
            assert_eq!(*frequency, plain[pair] / (pair + 1) as f64);
        }
    }

    #[test]
    fn yarn_scales_values_by_the_logarithm_of_its_factor() {
        assert!((RopeScaling::yarn_magnitude(4.0) - 1.138_629_4).abs() < 1e-6);
        assert_eq!(RopeScaling::yarn_magnitude(0.5), 1.0);
    }
}
