//! The page: a table, latency against offered load, each request over time, distributions.

use std::fmt::Write as _;

use super::svg::{Axis, Chart, Series, Shape, escape};
use super::{Report, Request, Stage};
use crate::load::summary::Percentiles;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
color:#1a1a1a;background:#fff}table{border-collapse:collapse;font-size:13px;width:100%;display:block;overflow-x:auto}\
td,th{padding:.25rem .5rem;border-bottom:1px solid #8884;text-align:right;white-space:nowrap}\
td:first-child,th:first-child{text-align:left}svg{width:100%;height:auto;margin:1rem 0}.grid{stroke:#8883}\
.mark{stroke:#d55e00;stroke-width:1.5;stroke-dasharray:4 3}.tick{font-size:11px;fill:currentColor}\
.title{font-size:13px;font-weight:600;fill:currentColor}.missed{color:#c33}code{white-space:pre-wrap}\
@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}}";

/// Runs whose distributions are shown: more could not be told apart.
const DISTRIBUTIONS: usize = 6;

/// The whole page.
pub(crate) fn page(report: &Report) -> String {
    let name = escape(&report.name);
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{name}</title><style>{STYLE}</style><h1>{name}</h1>"
    );
    for note in &report.notes {
        let _ = write!(out, "<p>{}</p>", escape(note));
    }
    for figure in &report.figures {
        let _ = write!(out, "<code>{}</code><br>", escape(figure));
    }
    if report.stages.is_empty() {
        return out;
    }
    table(&mut out, &report.stages);
    for (title, pick) in LATENCIES {
        out.push_str(&against_load(title, pick, &report.stages).render());
    }
    out.push_str(&throughput(&report.stages).render());
    for (title, pick) in TIMES {
        out.push_str(&distribution(title, pick, &report.stages).render());
    }
    for stage in &report.stages {
        out.push_str(&over_time(stage).render());
    }
    out
}

type PickPercentiles = fn(&Stage) -> &Percentiles;
type PickTime = fn(&Request) -> Option<f64>;

const LATENCIES: [(&str, PickPercentiles); 2] = [
    ("Time to the first segment against offered load", |stage| {
        &stage.summary.first_segment_ms
    }),
    ("Time to the whole answer against offered load", |stage| {
        &stage.summary.e2e_ms
    }),
];
const TIMES: [(&str, PickTime); 2] = [
    (
        "Share of answers whose first segment came within",
        |request| request.first_segment_ms,
    ),
    ("Share of answers that were whole within", |request| {
        Some(request.e2e_ms)
    }),
];

fn table(out: &mut String, stages: &[Stage]) {
    out.push_str(
        "<table><tr><th>server<th>offered/s<th>answers/s<th>goodput/s<th>requests<th>errors<th>first text \
         P50 / P95 / P99<th>first segment<th>whole answer<th>gap<th>sent late P99<th>not kept</tr>",
    );
    for stage in stages {
        let summary = &stage.summary;
        let errors: Vec<String> = summary
            .errors
            .iter()
            .map(|(cause, count)| format!("{count} {cause}"))
            .collect();
        let _ = write!(
            out,
            "<tr><td>{}<td>{:.2}<td>{:.2}<td>{:.2}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td class=\"missed\">{}</tr>",
            escape(&stage.server),
            summary.offered_per_s,
            summary.answers_per_s,
            summary.goodput_per_s,
            summary.requests,
            escape(&errors.join(", ")),
            cells(&summary.first_text_ms),
            cells(&summary.first_segment_ms),
            cells(&summary.e2e_ms),
            cells(&summary.gap_ms),
            cell(summary.late_ms.p99),
            escape(&stage.missed.join("; ")),
        );
    }
    out.push_str(
        "</table><p>Milliseconds, counted from when a request was due. A failed request counts as slower than any \
         answer; – stands for such a place.</p>",
    );
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.0}"))
}

fn cells(of: &Percentiles) -> String {
    [of.p50, of.p95, of.p99].map(cell).join(" / ")
}

/// Names of the servers, each once, in order.
fn servers(stages: &[Stage]) -> Vec<&str> {
    let mut names = Vec::new();
    for stage in stages {
        if !names.contains(&stage.server.as_str()) {
            names.push(stage.server.as_str());
        }
    }
    names
}

fn milliseconds() -> Axis {
    Axis {
        label: "ms",
        logarithmic: true,
    }
}

fn against_load(title: &str, pick: PickPercentiles, stages: &[Stage]) -> Chart {
    let mut series = Vec::new();
    for server in servers(stages) {
        let mut own: Vec<&Stage> = stages
            .iter()
            .filter(|stage| stage.server == server)
            .collect();
        own.sort_by(|a, b| a.rate_per_s.total_cmp(&b.rate_per_s));
        let of = |part: fn(&Percentiles) -> Option<f64>, name: &str| Series {
            name: format!("{server} {name}"),
            shape: Shape::Line,
            points: own
                .iter()
                .filter_map(|stage| Some((stage.rate_per_s, part(pick(stage))?)))
                .collect(),
        };
        series.push(of(|of| of.p50, "P50"));
        series.push(of(|of| of.p95, "P95"));
    }
    Chart {
        title: title.to_owned(),
        x: Axis {
            label: "offered requests a second",
            logarithmic: servers(stages).len() > 1,
        },
        y: milliseconds(),
        series,
        marks: Vec::new(),
    }
}

fn throughput(stages: &[Stage]) -> Chart {
    let mut series = Vec::new();
    for server in servers(stages) {
        let mut own: Vec<&Stage> = stages
            .iter()
            .filter(|stage| stage.server == server)
            .collect();
        own.sort_by(|a, b| a.rate_per_s.total_cmp(&b.rate_per_s));
        let of = |part: fn(&Stage) -> f64, name: &str| Series {
            name: format!("{server} {name}"),
            shape: Shape::Line,
            points: own
                .iter()
                .map(|stage| (stage.rate_per_s, part(stage)))
                .collect(),
        };
        series.push(of(|stage| stage.summary.answers_per_s, "answers/s"));
        series.push(of(|stage| stage.summary.goodput_per_s, "goodput/s"));
    }
    Chart {
        title: "Whole answers and goodput against offered load".to_owned(),
        x: Axis {
            label: "offered requests a second",
            logarithmic: servers(stages).len() > 1,
        },
        y: Axis {
            label: "a second",
            logarithmic: servers(stages).len() > 1,
        },
        series,
        marks: Vec::new(),
    }
}

#[allow(clippy::cast_precision_loss, reason = "requests are counted")]
fn distribution(title: &str, pick: PickTime, stages: &[Stage]) -> Chart {
    let series = stages.iter().take(DISTRIBUTIONS).map(|stage| {
        let answered = stage
            .requests
            .iter()
            .filter(|request| request.is_answered());
        let mut times: Vec<f64> = answered.filter_map(pick).collect();
        times.sort_by(f64::total_cmp);
        let count = times.len() as f64;
        let points = times
            .into_iter()
            .enumerate()
            .map(|(rank, time)| (time, (rank + 1) as f64 / count));
        Series {
            name: format!("{} {:.2}/s", stage.server, stage.rate_per_s),
            shape: Shape::Line,
            points: points.collect(),
        }
    });
    Chart {
        title: title.to_owned(),
        x: milliseconds(),
        y: Axis {
            label: "share",
            logarithmic: false,
        },
        series: series.collect(),
        marks: Vec::new(),
    }
}

fn over_time(stage: &Stage) -> Chart {
    let of = |name: &str, pick: PickTime| Series {
        name: name.to_owned(),
        shape: Shape::Dots,
        points: stage
            .requests
            .iter()
            .filter(|request| request.outcome == "completed")
            .filter_map(|request| Some((request.due_s, pick(request)?)))
            .collect(),
    };
    Chart {
        title: format!(
            "{} at {:.2}/s, each request",
            stage.server, stage.rate_per_s
        ),
        x: Axis {
            label: "due, seconds after the start",
            logarithmic: false,
        },
        y: milliseconds(),
        series: vec![
            of("first segment", |request| request.first_segment_ms),
            of("whole answer", |request| Some(request.e2e_ms)),
        ],
        marks: stage.marks.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::scenario::Slo;
    use crate::load::summary::summarise;

    fn stage(server: &str, rate: f64) -> Stage {
        Stage {
            server: server.to_owned(),
            rate_per_s: rate,
            summary: summarise(&[], Duration::from_secs(1), &Slo::default()),
            missed: vec!["e2e_p95_ms is 2, at most 1".to_owned()],
            marks: vec![(1.5, "promote".to_owned())],
            requests: vec![Request {
                due_s: 1.0,
                counted: true,
                late_ms: 0.0,
                first_text_ms: None,
                first_segment_ms: Some(100.0),
                e2e_ms: 200.0,
                outcome: "completed".to_owned(),
            }],
        }
    }

    #[test]
    fn the_page_shows_every_stage_and_needs_nothing_else() {
        let report = Report {
            name: "a <scenario>".to_owned(),
            notes: vec!["on a shared machine".to_owned()],
            figures: vec!["figure x 1 y".to_owned()],
            stages: vec![stage("ours", 1.0), stage("theirs", 2.0)],
        };
        let page = page(&report);
        assert!(page.contains("a &lt;scenario&gt;") && page.contains("figure x 1 y"));
        // Two of latency, one of throughput, two distributions, one over time for each stage.
        assert_eq!(page.matches("<svg").count(), 7);
        assert_eq!(page.matches("class=\"mark\"").count(), 2);
        assert_eq!(page.matches("e2e_p95_ms is 2").count(), 2);
        for outside in ["http://", "https://", "<script", "src=", "@import"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn a_report_without_load_has_its_figures() {
        let report = Report {
            name: "figures".to_owned(),
            notes: Vec::new(),
            figures: vec!["figure x 1 y".to_owned()],
            stages: Vec::new(),
        };
        assert!(page(&report).contains("figure x 1 y"));
    }
}
