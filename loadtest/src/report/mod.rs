//! What a run is shown as: JSON for programs, a page that needs nothing else for people.

mod html;
mod svg;

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::Failure;
use crate::load::answer::{Outcome, Record};
use crate::load::summary::Summary;

/// One rate of a run.
#[derive(Serialize)]
pub(crate) struct Stage {
    /// Whose, where several servers were loaded.
    pub(crate) server: String,
    pub(crate) rate_per_s: f64,
    pub(crate) summary: Summary,
    /// What was promised and not kept.
    pub(crate) missed: Vec<String>,
    /// What was done beside the load: seconds after the start, and what.
    pub(crate) marks: Vec<(f64, String)>,
    pub(crate) requests: Vec<Request>,
}

/// One request, times in milliseconds from when it was due.
#[derive(Serialize)]
pub(crate) struct Request {
    /// Seconds after the start of the run, warm-up included.
    pub(crate) due_s: f64,
    pub(crate) counted: bool,
    pub(crate) late_ms: f64,
    pub(crate) first_text_ms: Option<f64>,
    pub(crate) first_segment_ms: Option<f64>,
    pub(crate) e2e_ms: f64,
    /// `completed`, `left`, or why it failed.
    pub(crate) outcome: String,
}

impl Request {
    /// Of a record.
    pub(crate) fn of(record: &Record) -> Self {
        let millis = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
        Self {
            due_s: record.due.as_secs_f64(),
            counted: record.counted,
            late_ms: millis(record.late),
            first_text_ms: record.first_text.map(millis),
            first_segment_ms: record.first_segment.map(millis),
            e2e_ms: millis(record.total),
            outcome: match &record.outcome {
                Outcome::Completed => "completed".to_owned(),
                Outcome::Left => "left".to_owned(),
                Outcome::Failed(fault) => fault.cause(),
            },
        }
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.counted && self.outcome == "completed"
    }
}

/// A whole report.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) name: String,
    /// What was run, and how.
    pub(crate) notes: Vec<String>,
    /// Lines of figures, where some were printed.
    pub(crate) figures: Vec<String>,
    pub(crate) stages: Vec<Stage>,
}

impl Report {
    /// Writes `report.json` and `report.html` into `folder`, which is made.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), Failure> {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        std::fs::create_dir_all(folder).map_err(failed)?;
        let json = serde_json::to_string_pretty(self)?;
        std::fs::write(folder.join("report.json"), json).map_err(failed)?;
        std::fs::write(folder.join("report.html"), html::page(self)).map_err(failed)?;
        eprintln!("report: {}", folder.join("report.html").display());
        Ok(())
    }
}

/// A stage in a line.
pub(crate) fn line(stage: &Stage) -> String {
    let show = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0}"));
    let summary = &stage.summary;
    let latency = |name: &str, of: &crate::load::summary::Percentiles| {
        format!("{name} {}/{}/{}", show(of.p50), show(of.p95), show(of.p99))
    };
    format!(
        "load {} offered {:.2}/s answered {:.2}/s good {:.2}/s of {}: {} {} {} {} ms (P50/P95/P99), errors {:.1} %",
        stage.server,
        summary.offered_per_s,
        summary.answers_per_s,
        summary.goodput_per_s,
        summary.requests,
        latency("first text", &summary.first_text_ms),
        latency("first segment", &summary.first_segment_ms),
        latency("whole", &summary.e2e_ms),
        latency("gap", &summary.gap_ms),
        summary.error_share * 100.0,
    )
}
