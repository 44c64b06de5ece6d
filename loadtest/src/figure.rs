//! A measured number, the bound it must keep, and how both are printed.

use std::fmt;

/// What a figure must keep.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    /// Not less than this.
    AtLeast(f64),
    /// Not more than this.
    AtMost(f64),
}

/// One line of a bench: `figure NAME VALUE UNIT must >=BOUND`.
pub(crate) struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    bound: Bound,
}

impl Figure {
    pub(crate) fn new(
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        bound: Bound,
    ) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            bound,
        }
    }

    /// Whether the bound is kept; a value that is not a number keeps none.
    pub(crate) fn holds(&self) -> bool {
        match self.bound {
            Bound::AtLeast(bound) => self.value >= bound,
            Bound::AtMost(bound) => self.value <= bound,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, bound) = match self.bound {
            Bound::AtLeast(bound) => (">=", bound),
            Bound::AtMost(bound) => ("<=", bound),
        };
        write!(
            f,
            "figure {} {:.3} {} must {sign}{bound}",
            self.name, self.value, self.unit
        )
    }
}

/// The middle value; the mean of the two middle ones for an even count, NaN for none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_prints_its_bound_and_keeps_it() {
        let figure = Figure::new("prefill_512_ratio", 1.5, "x", Bound::AtLeast(1.5));
        assert_eq!(
            figure.to_string(),
            "figure prefill_512_ratio 1.500 x must >=1.5"
        );
        assert!(figure.holds());
        assert!(!Figure::new("load_s", 1.01, "s", Bound::AtMost(1.0)).holds());
        assert!(!Figure::new("load_s", f64::NAN, "s", Bound::AtMost(1.0)).holds());
    }

    #[test]
    fn the_median_ignores_order() {
        assert!((median([3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median([4.0, 1.0]) - 2.5).abs() < f64::EPSILON);
        assert!(median([]).is_nan());
    }
}
