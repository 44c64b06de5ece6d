//! When requests are due. Decided before the first is sent, so that no answer can move a request.

use std::time::Duration;

use super::random::Random;

/// The stream of random numbers that arrivals take.
const STREAM: u64 = 1;

/// How requests come.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Arrivals {
    /// One by one, each knowing nothing of the others.
    Poisson,
    /// So many at once; the groups come as a Poisson process, and the rate of requests is the one asked for.
    Bursts(usize),
    /// In equal steps.
    Even,
    /// At these seconds after the start, whatever the rate.
    Trace(Vec<f64>),
}

/// Times after the start at which requests are due, in order, all before `length`.
pub(crate) fn times(arrivals: &Arrivals, rate: f64, length: Duration, seed: u64) -> Vec<Duration> {
    let end = length.as_secs_f64();
    let group = match arrivals {
        Arrivals::Trace(seconds) => {
            let mut seconds = seconds.clone();
            seconds.sort_by(f64::total_cmp);
            let due = seconds.into_iter().filter(|at| *at < end);
            return due.map(Duration::from_secs_f64).collect();
        }
        Arrivals::Bursts(size) => *size,
        Arrivals::Poisson | Arrivals::Even => 1,
    };
    #[allow(clippy::cast_precision_loss, reason = "a burst is small")]
    let groups_per_second = rate / group as f64;
    let mut random = Random::new(seed, STREAM);
    let mut found = Vec::new();
    let mut at = 0.0;
    loop {
        at += match arrivals {
            Arrivals::Even => 1.0 / groups_per_second,
            _ => random.exponential(groups_per_second),
        };
        if at >= end {
            return found;
        }
        found.extend(std::iter::repeat_n(Duration::from_secs_f64(at), group));
    }
}

/// Reads a recorded trace: seconds after its start, one a line; empty lines and those that begin with `#` are none.
///
/// # Errors
/// Names the line that is no time.
pub(crate) fn read_trace(text: &str) -> Result<Vec<f64>, String> {
    let mut times = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.parse::<f64>() {
            Ok(at) if at.is_finite() && at >= 0.0 => times.push(at),
            _ => {
                return Err(format!(
                    "line {}: {line:?} is no number of seconds",
                    index + 1
                ));
            }
        }
    }
    if times.is_empty() {
        return Err("holds no times".to_owned());
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(2000);

    fn gaps(times: &[Duration]) -> Vec<f64> {
        let ends = times.iter();
        let starts = std::iter::once(&Duration::ZERO).chain(times);
        starts
            .zip(ends)
            .map(|(from, to)| (*to - *from).as_secs_f64())
            .collect()
    }

    #[allow(clippy::cast_precision_loss)]
    fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values
            .iter()
            .map(|value| (value - mean).powi(2))
            .sum::<f64>()
            / count;
        (mean, variance.sqrt())
    }

    #[test]
    fn poisson_arrivals_have_exponential_gaps_of_the_asked_mean() {
        for seed in 0..5 {
            let times = times(&Arrivals::Poisson, 4.0, LENGTH, seed);
            let gaps = gaps(&times);
            let (mean, deviation) = mean_and_deviation(&gaps);
            assert!((mean - 0.25).abs() < 0.015, "seed {seed}: mean {mean}");
            // An exponential distribution deviates as much as it means, and 1/e of it is longer than its mean.
            assert!(
                (deviation / mean - 1.0).abs() < 0.06,
                "seed {seed}: {deviation}"
            );
            #[allow(clippy::cast_precision_loss)]
            let longer = gaps.iter().filter(|gap| **gap > 0.25).count() as f64 / gaps.len() as f64;
            assert!((longer - 0.368).abs() < 0.02, "seed {seed}: {longer}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_arrivals_and_another_seed_others() {
        let of = |seed| times(&Arrivals::Poisson, 4.0, LENGTH, seed);
        assert_eq!(of(3), of(3));
        assert_ne!(of(3), of(4));
    }

    #[test]
    fn bursts_keep_the_rate_of_requests() {
        let times = times(&Arrivals::Bursts(10), 4.0, LENGTH, 1);
        assert!((6500..9500).contains(&times.len()), "{}", times.len());
        for group in times.chunks(10) {
            assert!(group.iter().all(|at| *at == group[0]), "{group:?}");
        }
    }

    #[test]
    fn even_arrivals_are_in_equal_steps() {
        let times = times(&Arrivals::Even, 4.0, Duration::from_secs(1), 1);
        assert_eq!(times, [250, 500, 750].map(Duration::from_millis));
    }

    #[test]
    fn a_trace_is_replayed_in_order_up_to_the_end() {
        let trace = read_trace("# seconds\n0\n\n2.5\n 1.25\n9\n").expect("a trace");
        let times = times(&Arrivals::Trace(trace), 1.0, Duration::from_secs(9), 1);
        assert_eq!(times, [0, 1250, 2500].map(Duration::from_millis));
    }

    #[test]
    fn a_line_that_is_no_time_is_named() {
        for (text, wrong) in [
            ("1\nsoon\n", "line 2: \"soon\""),
            ("-1\n", "line 1"),
            ("inf\n", "line 1"),
            ("# none\n", "holds no times"),
        ] {
            let error = read_trace(text).expect_err(text);
            assert!(error.contains(wrong), "{error}");
        }
    }
}
