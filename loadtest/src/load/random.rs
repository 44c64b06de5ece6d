//! Random numbers that are the same for the same seed on every machine: Steele, Lea and Flood's `SplitMix64`.

/// A stream of numbers.
pub(crate) struct Random(u64);

impl Random {
    /// The stream of `seed`; other purposes of one seed take other `stream`s.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed);
        let start = random.next() ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93);
        Self(start)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Evenly from 0 up to 1, without 1.
    #[allow(clippy::cast_precision_loss, reason = "53 bits fit exactly")]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Evenly from 0 up to `bound`, without it; 0 where `bound` is.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.next()) * bound as u128;
        usize::try_from(wide >> 64).expect("below a usize")
    }

    /// The time to the next of events that come at `rate` a second and know nothing of each other, in seconds.
    pub(crate) fn exponential(&mut self, rate: f64) -> f64 {
        -(1.0 - self.unit()).ln() / rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_from_seed_and_stream_alone() {
        let take = |seed, stream| -> Vec<u64> {
            let mut random = Random::new(seed, stream);
            (0..4).map(|_| random.next()).collect()
        };
        assert_eq!(take(1, 1), take(1, 1));
        assert_ne!(take(1, 1), take(1, 2));
        assert_ne!(take(1, 1), take(2, 1));
    }

    #[test]
    fn numbers_stay_in_their_range_and_fill_it() {
        let mut random = Random::new(7, 0);
        let mut counts = [0; 8];
        for _ in 0..8000 {
            assert!((0.0..1.0).contains(&random.unit()));
            counts[random.below(8)] += 1;
        }
        assert!(
            counts.iter().all(|count| (850..1150).contains(count)),
            "{counts:?}"
        );
        assert_eq!(random.below(0), 0);
    }
}
