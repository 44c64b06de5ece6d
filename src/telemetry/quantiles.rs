//! Rolling quantiles to three digits: a ring of HDR histograms, merged over the last minute and five minutes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{MetricFamily, Quantile, Summary};

use super::export::{descs, family, labelled};

/// Time that one histogram of the ring covers.
const SLOT: Duration = Duration::from_secs(10);
/// Label and number of slots of each window.
const WINDOWS: [(&str, usize); 2] = [("1m", 6), ("5m", 30)];
/// Slots of the longest window.
const SLOTS: usize = WINDOWS[1].1;
const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];
/// Values are kept in units of ten microseconds, so that 5 ms still has three digits.
const UNITS_PER_SECOND: f64 = 100_000.0;
/// Longer values count as this, which bounds the memory of a slot.
const LONGEST: Duration = Duration::from_secs(3600);

struct Ring {
    slots: Vec<Histogram<u32>>,
    /// Number of the newest slot since `start`.
    newest: u64,
    count: u64,
    sum: f64,
}

/// Quantiles of a duration over rolling windows.
#[derive(Clone)]
pub(super) struct Quantiles {
    name: &'static str,
    start: Instant,
    ring: Arc<Mutex<Ring>>,
    descs: Vec<Desc>,
}

impl Quantiles {
    pub(super) fn new(name: &'static str, start: Instant) -> Self {
        let slot = || Histogram::new(3).expect("three digits are a valid precision");
        Self {
            name,
            start,
            ring: Arc::new(Mutex::new(Ring {
                slots: (0..SLOTS).map(|_| slot()).collect(),
                newest: 0,
                count: 0,
                sum: 0.0,
            })),
            descs: descs(&[name]),
        }
    }

    /// Adds one value that was measured at `now`.
    pub(super) fn record(&self, value: Duration, now: Instant) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        self.rotate(&mut ring, now);
        ring.count += 1;
        ring.sum += value.as_secs_f64();
        let slot = index(ring.newest);
        let micros = value.as_micros().min(LONGEST.as_micros());
        let units = u64::try_from(micros / 10).expect("an hour fits");
        ring.slots[slot]
            .record(units.max(1))
            .expect("a histogram that resizes takes an hour");
    }

    /// Forgets the slots that time has passed over.
    fn rotate(&self, ring: &mut Ring, now: Instant) {
        let current = now.saturating_duration_since(self.start).as_secs() / SLOT.as_secs();
        let passed = current.saturating_sub(ring.newest).min(SLOTS as u64);
        for step in 0..passed {
            let slot = index(current - step);
            ring.slots[slot].reset();
        }
        ring.newest = ring.newest.max(current);
    }

    /// `(window, quantile, seconds)`; NaN where a window holds nothing, as Prometheus expects.
    fn values(&self, ring: &Ring) -> Vec<(&'static str, [f64; 3])> {
        let window = |(name, slots): (&'static str, usize)| {
            let mut merged = Histogram::<u32>::new(3).expect("three digits are a valid precision");
            for back in 0..(slots as u64).min(ring.newest + 1) {
                merged
                    .add(&ring.slots[index(ring.newest - back)])
                    .expect("a histogram that resizes takes any other");
            }
            let values = QUANTILES.map(|quantile| {
                if merged.is_empty() {
                    return f64::NAN;
                }
                let units = merged.value_at_quantile(quantile) as f64;
                units / UNITS_PER_SECOND
            });
            (name, values)
        };
        WINDOWS.map(window).to_vec()
    }

    fn collect_at(&self, now: Instant) -> MetricFamily {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        self.rotate(&mut ring, now);
        let metrics = self.values(&ring).into_iter().map(|(window, values)| {
            let quantiles = QUANTILES.iter().zip(values).map(|(quantile, value)| {
                let mut pair = Quantile::default();
                pair.set_quantile(*quantile);
                pair.set_value(value);
                pair
            });
            let mut summary = Summary::default();
            summary.set_quantile(quantiles.collect());
            summary.set_sample_count(ring.count);
            summary.set_sample_sum(ring.sum);
            let mut metric = labelled(&[("window", window)]);
            metric.set_summary(summary);
            metric
        });
        family(self.name, metrics.collect())
    }
}

impl Collector for Quantiles {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        vec![self.collect_at(Instant::now())]
    }
}

fn index(slot: u64) -> usize {
    usize::try_from(slot % SLOTS as u64).expect("a ring index is small")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(quantiles: &Quantiles, now: Instant, window: usize) -> Vec<f64> {
        let family = quantiles.collect_at(now);
        let summary = family.get_metric()[window].get_summary();
        summary
            .get_quantile()
            .iter()
            .map(|pair| pair.value())
            .collect()
    }

    #[test]
    fn quantiles_have_three_digits_from_milliseconds_to_minutes() {
        let start = Instant::now();
        for scale in [5e-6, 1e-3, 1e-1] {
            let quantiles = Quantiles::new("avatar_response_latency_seconds", start);
            for value in 1..=1000 {
                quantiles.record(Duration::from_secs_f64(f64::from(value) * scale), start);
            }
            for (got, want) in read(&quantiles, start, 0).iter().zip([500.0, 950.0, 990.0]) {
                let want = want * scale;
                assert!(
                    (got - want).abs() <= want * 0.002 + 1e-5,
                    "{got} is not {want}"
                );
            }
        }
    }

    #[test]
    fn a_value_leaves_each_window_when_its_time_is_over() {
        let start = Instant::now();
        let quantiles = Quantiles::new("avatar_response_latency_seconds", start);
        quantiles.record(Duration::from_secs(2), start);
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!((read(&quantiles, at(49), 0)[0] - 2.0).abs() < 0.01);
        assert!(read(&quantiles, at(70), 0)[0].is_nan());
        assert!((read(&quantiles, at(289), 1)[0] - 2.0).abs() < 0.01);
        assert!(read(&quantiles, at(310), 1)[0].is_nan());
        quantiles.record(Duration::from_secs(1), at(10_000));
        assert!((read(&quantiles, at(10_000), 1)[2] - 1.0).abs() < 0.01);
    }

    #[test]
    fn count_and_sum_never_fall() {
        let start = Instant::now();
        let quantiles = Quantiles::new("avatar_response_latency_seconds", start);
        quantiles.record(Duration::from_secs(2), start);
        let family = quantiles.collect_at(start + Duration::from_secs(3600));
        let summary = family.get_metric()[0].get_summary();
        assert_eq!(summary.sample_count(), 1);
        assert!((summary.sample_sum() - 2.0).abs() < 1e-9);
    }
}
