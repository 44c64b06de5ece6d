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

/// One line of a bench: `figure NAME VALUE UNIT must >=BOUND aim >=BOUND`.
pub(crate) struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    bound: Option<Bound>,
    aim: Option<f64>,
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
            bound: Some(bound),
            aim: None,
        }
    }

    /// A number that keeps no bound.
    pub(crate) fn unbound(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            bound: None,
            aim: None,
        }
    }

    /// The same with what is aimed at beyond the bound.
    pub(crate) fn aiming(self, aim: f64) -> Self {
        Self {
            aim: Some(aim),
            ..self
        }
    }

    /// Whether the bound is kept; a value that is not a number keeps none.
    pub(crate) fn holds(&self) -> bool {
        match self.bound {
            Some(Bound::AtLeast(bound)) => self.value >= bound,
            Some(Bound::AtMost(bound)) => self.value <= bound,
            None => true,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "figure {} {:.3} {}", self.name, self.value, self.unit)?;
        let (sign, bound) = match self.bound {
            Some(Bound::AtLeast(bound)) => (">=", bound),
            Some(Bound::AtMost(bound)) => ("<=", bound),
            None => return Ok(()),
        };
        write!(f, " must {sign}{bound}")?;
        match self.aim {
            Some(aim) => write!(f, " aim {sign}{aim}"),
            None => Ok(()),
        }
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
        assert_eq!(
            figure.aiming(2.0).to_string(),
            "figure prefill_512_ratio 1.500 x must >=1.5 aim >=2"
        );
        let unbound = Figure::unbound("cost", f64::NAN, "s");
        assert!(unbound.holds());
        assert_eq!(unbound.to_string(), "figure cost NaN s");
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
