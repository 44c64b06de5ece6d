//! What changing a harness costs while viewers are answered: the time to go live, the answers around a swap, the streams
//! during one, and turns that fail.

mod content;
mod live;
mod offline;
mod overhead;
mod server;
mod wire;

use std::path::PathBuf;

use crate::Failure;
use crate::figure::{Bound, Figure};

/// What is measured, and with what.
pub(crate) struct Options {
    /// The compere program.
    pub(crate) server: PathBuf,
    /// GGUF file that it serves.
    pub(crate) model: PathBuf,
    /// Compute threads of the server.
    pub(crate) threads: usize,
    /// Swaps with answers on either side of each.
    pub(crate) swaps: usize,
    /// Answers on either side of all those swaps.
    pub(crate) answers: usize,
    /// Swaps under load.
    pub(crate) load_swaps: usize,
}

/// The figures.
pub(crate) fn figures(options: &Options) -> Result<Vec<Figure>, Failure> {
    let (reload, lint) = offline::reload_and_lint(&options.model)?;
    let overhead = overhead::turn_p95_ms(&options.model)?;
    let live = live::measure(options)?;
    Ok(vec![
        Figure::new(
            "reload_100_skills_p95_ms",
            reload,
            "ms",
            Bound::AtMost(300.0),
        ),
        Figure::new(
            "swap_first_segment_p95_ratio",
            live.first_segment_ratio,
            "x",
            Bound::AtMost(1.1),
        ),
        Figure::new(
            "swap_itl_p95_ratio",
            live.itl_ratio,
            "x",
            Bound::AtMost(1.2),
        ),
        Figure::new(
            "failed_turns",
            live.failed_turns,
            "turns",
            Bound::AtMost(0.0),
        ),
        Figure::new("turn_overhead_p95_ms", overhead, "ms", Bound::AtMost(2.0)),
        Figure::new("lint_1000_skills_s", lint, "s", Bound::AtMost(1.0)),
    ])
}

/// The value that 95 of 100 do not exceed; NaN for none.
fn p95(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count => sorted[(count * 95).div_ceil(100) - 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_95th_of_100_and_the_only_one_of_1() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert!((p95(&values) - 95.0).abs() < f64::EPSILON);
        assert!((p95(&[7.0]) - 7.0).abs() < f64::EPSILON);
        assert!(p95(&[]).is_nan());
    }
}
