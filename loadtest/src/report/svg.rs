//! Plots as inline SVG: lines, dots and marks over linear or logarithmic axes.

use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 46.0;
/// Told apart by most people's eyes, on light and dark ground.
const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9",
];
/// About this many ticks on an axis.
const TICKS: f64 = 6.0;
/// Of the legend: a letter's width, the space after a name, a line's height.
const LETTER: f64 = 6.0;
const GAP: f64 = 14.0;
const LEGEND_LINE: f64 = 13.0;

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Line,
    Dots,
}

/// Points of one colour.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    /// Those that are not finite are left out.
    pub(crate) points: Vec<(f64, f64)>,
}

/// What an axis shows.
pub(crate) struct Axis {
    pub(crate) label: &'static str,
    /// Decades instead of steps; what is not above 0 is left out.
    pub(crate) logarithmic: bool,
}

/// One plot.
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    /// Vertical lines with a name.
    pub(crate) marks: Vec<(f64, String)>,
}

/// A linear map from values to pixels.
struct Scale {
    logarithmic: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn over(values: impl Iterator<Item = f64>, logarithmic: bool, from: f64, to: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite() && (!logarithmic || *value > 0.0)) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = if logarithmic { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        if logarithmic {
            low = 10_f64.powf(low.log10().floor());
            high = 10_f64.powf(high.log10().ceil()).max(low * 10.0);
        } else {
            low = low.min(0.0);
            high = if high > low { high } else { low + 1.0 };
        }
        Self {
            logarithmic,
            low,
            high,
            from,
            to,
        }
    }

    fn place(&self, value: f64) -> Option<f64> {
        let share = if self.logarithmic {
            (value.log10() - self.low.log10()) / (self.high.log10() - self.low.log10())
        } else {
            (value - self.low) / (self.high - self.low)
        };
        share
            .is_finite()
            .then_some(self.from + share * (self.to - self.from))
    }

    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let mut ticks = Vec::new();
            let mut at = self.low;
            while at <= self.high * 1.001 {
                ticks.push(at);
                at *= 10.0;
            }
            return ticks;
        }
        let rough = (self.high - self.low) / TICKS;
        let decade = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|part| part * decade)
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(decade * 10.0);
        let mut ticks = Vec::new();
        let mut at = (self.low / step).ceil() * step;
        while at <= self.high + step * 1e-6 {
            ticks.push(at);
            at += step;
        }
        ticks
    }
}

impl Chart {
    /// The plot as an `<svg>` element.
    pub(crate) fn render(&self) -> String {
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        let marks = self.marks.iter().map(|(at, _)| *at);
        let x = Scale::over(
            points().map(|point| point.0).chain(marks),
            self.x.logarithmic,
            LEFT,
            WIDTH - RIGHT,
        );
        let y = Scale::over(
            points().map(|point| point.1),
            self.y.logarithmic,
            HEIGHT - BOTTOM,
            TOP,
        );
        let places = self.legend_places();
        // What the legend needs beyond its first line is added above the plot.
        let extra = places.last().map_or(0.0, |(_, row)| row * LEGEND_LINE);
        let (top, height, title) = (0.0 - extra, HEIGHT + extra, escape(&self.title));
        let mut out = format!(
            "<svg viewBox=\"0 {top:.0} {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\">\
             <text class=\"title\" x=\"{LEFT}\" y=\"{:.0}\">{title}</text>",
            top + 14.0
        );
        self.draw_axes(&mut out, &x, &y);
        for (at, name) in &self.marks {
            if let Some(at) = x.place(*at) {
                let _ = write!(
                    out,
                    "<line class=\"mark\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"><title>{}</title></line>",
                    HEIGHT - BOTTOM,
                    escape(name)
                );
            }
        }
        for (index, series) in self.series.iter().enumerate() {
            draw_series(&mut out, series, COLOURS[index % COLOURS.len()], &x, &y);
        }
        self.draw_legend(&mut out, &places, extra);
        out.push_str("</svg>");
        out
    }

    fn draw_axes(&self, out: &mut String, x: &Scale, y: &Scale) {
        let floor = HEIGHT - BOTTOM;
        for (tick, at) in x
            .ticks()
            .into_iter()
            .filter_map(|tick| Some((tick, x.place(tick)?)))
        {
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{floor}\"/>\
                 <text class=\"tick\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
                floor + 16.0,
                number(tick)
            );
        }
        for (tick, at) in y
            .ticks()
            .into_iter()
            .filter_map(|tick| Some((tick, y.place(tick)?)))
        {
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0,
                number(tick)
            );
        }
        let _ = write!(
            out,
            "<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <text class=\"tick\" text-anchor=\"middle\" transform=\"translate(14 {:.1}) rotate(-90)\">{}</text>",
            f64::midpoint(LEFT, WIDTH - RIGHT),
            HEIGHT - 10.0,
            escape(self.x.label),
            f64::midpoint(TOP, floor),
            escape(self.y.label)
        );
    }

    /// Where each name of the legend begins, and on which line.
    fn legend_places(&self) -> Vec<(f64, f64)> {
        let (mut at, mut row) = (LEFT, 0.0);
        let mut places = Vec::new();
        for series in &self.series {
            #[allow(clippy::cast_precision_loss, reason = "a name is short")]
            let width = series.name.chars().count() as f64 * LETTER + GAP;
            if at > LEFT && at + width > WIDTH - RIGHT {
                (at, row) = (LEFT, row + 1.0);
            }
            places.push((at, row));
            at += width;
        }
        places
    }

    fn draw_legend(&self, out: &mut String, places: &[(f64, f64)], extra: f64) {
        for (index, (series, (at, row))) in self.series.iter().zip(places).enumerate() {
            let _ = write!(
                out,
                "<text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" style=\"fill:{}\">{}</text>",
                28.0 + row * LEGEND_LINE - extra,
                COLOURS[index % COLOURS.len()],
                escape(&series.name)
            );
        }
    }
}

fn draw_series(out: &mut String, series: &Series, colour: &str, x: &Scale, y: &Scale) {
    let points = series
        .points
        .iter()
        .filter_map(|(at, value)| Some((x.place(*at)?, y.place(*value)?)));
    if series.shape == Shape::Line {
        let path: Vec<String> = points
            .clone()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = write!(
            out,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>",
            path.join(" ")
        );
    }
    for (x, y) in points {
        let _ = write!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.4\" fill=\"{colour}\"/>"
        );
    }
}

/// Few digits, as people write them.
fn number(value: f64) -> String {
    let digits: usize = match value.abs() {
        0.0 => 0,
        size if size >= 10.0 => 0,
        size if size >= 1.0 => 1,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Text that is no markup.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>, logarithmic: bool) -> String {
        let axis = |label| Axis { label, logarithmic };
        Chart {
            title: "a <b> & c".to_owned(),
            x: axis("x"),
            y: axis("y"),
            series: vec![Series {
                name: "one".to_owned(),
                shape: Shape::Line,
                points,
            }],
            marks: vec![(2.0, "swap".to_owned())],
        }
        .render()
    }

    /// Coordinates of the drawn points.
    fn places(svg: &str) -> Vec<(f64, f64)> {
        let part = |text: &str, name: &str| -> f64 {
            let (_, rest) = text.split_once(name).expect(name);
            rest.split('"')
                .next()
                .expect("a value")
                .parse()
                .expect("a number")
        };
        let circles = svg.split("<circle ").skip(1);
        circles
            .map(|circle| (part(circle, "cx=\""), part(circle, "cy=\"")))
            .collect()
    }

    #[test]
    fn points_lie_inside_and_in_order() {
        for logarithmic in [false, true] {
            let svg = chart(
                vec![(1.0, 1.0), (10.0, 100.0), (3.0, f64::NAN)],
                logarithmic,
            );
            let places = places(&svg);
            assert_eq!(places.len(), 2, "what is no number is left out");
            assert!(
                places[0].0 < places[1].0 && places[0].1 > places[1].1,
                "{places:?}"
            );
            for (x, y) in places {
                assert!(
                    (LEFT..=WIDTH - RIGHT).contains(&x) && (TOP..=HEIGHT - BOTTOM).contains(&y)
                );
            }
        }
    }

    #[test]
    fn a_long_legend_takes_more_lines_and_keeps_off_the_plot() {
        let names = (0..6).map(|number| format!("llama-server {number}.25/s"));
        let series = names.map(|name| Series {
            name,
            shape: Shape::Dots,
            points: Vec::new(),
        });
        let axis = || Axis {
            label: "x",
            logarithmic: false,
        };
        let chart = Chart {
            title: String::new(),
            x: axis(),
            y: axis(),
            series: series.collect(),
            marks: Vec::new(),
        };
        let places = chart.legend_places();
        assert_eq!(places[0], (LEFT, 0.0));
        assert!(places[5].1 >= 1.0 && places.iter().all(|(at, _)| *at < WIDTH - RIGHT));
        assert!(chart.render().contains("viewBox=\"0 -13 720 333\""));
    }

    #[test]
    fn nothing_to_show_is_drawn_all_the_same() {
        for logarithmic in [false, true] {
            let svg = chart(Vec::new(), logarithmic);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn texts_are_no_markup_and_numbers_are_short() {
        assert!(chart(Vec::new(), false).contains("a &lt;b&gt; &amp; c"));
        let numbers = [0.0, 0.25, 1.5, 2.0, 1000.0].map(number);
        assert_eq!(numbers, ["0", "0.25", "1.5", "2", "1000"]);
    }
}
