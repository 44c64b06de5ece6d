//! A scenario as it is written: who asks what, how often, and what is promised.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::answer::Record;
use super::arrivals::{Arrivals, read_trace};
use super::drive::Limits;
use super::summary::Summary;
use super::target::Route;
use crate::Failure;

/// A checked scenario.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) route: Route,
    pub(crate) seed: u64,
    /// What counts, after the warm-up.
    pub(crate) duration: Duration,
    /// Requests due in it are sent and not counted.
    pub(crate) warm_up: Duration,
    /// Requests a second, one run each.
    pub(crate) rates: Vec<f64>,
    pub(crate) arrivals: Arrivals,
    pub(crate) limits: Limits,
    pub(crate) texts: Texts,
    pub(crate) slo: Slo,
    pub(crate) swaps: Vec<Swap>,
}

/// How long a text is: so many tokens of the model's, or so many words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Length {
    Tokens(usize),
    Words(usize),
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Texts {
    /// What every request begins with: the persona and its rules.
    pub(crate) harness: Length,
    /// Live rooms, each with facts of its own.
    pub(crate) rooms: usize,
    /// What is known of a room's product.
    pub(crate) room_facts: Length,
    /// A viewer's comment.
    pub(crate) comment_words: usize,
    /// Tokens of an answer; those of the avatar route end by themselves.
    pub(crate) answer_tokens: usize,
    /// Most characters of an answer of the avatar route.
    pub(crate) answer_chars: usize,
    /// Deadline of the avatar route, in milliseconds.
    pub(crate) deadline_ms: u64,
    /// Share of the callers who go away.
    pub(crate) disconnect_share: f64,
    /// When they do, at most, after their request was due; evenly spread.
    pub(crate) disconnect_within_ms: u64,
}

impl Default for Texts {
    fn default() -> Self {
        Self {
            harness: Length::Words(1000),
            rooms: 8,
            room_facts: Length::Words(180),
            comment_words: 20,
            answer_tokens: 48,
            answer_chars: 200,
            deadline_ms: 30_000,
            disconnect_share: 0.0,
            disconnect_within_ms: 1000,
        }
    }
}

/// What is promised; what is absent is not.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Slo {
    pub(crate) first_segment_p95_ms: Option<f64>,
    pub(crate) e2e_p95_ms: Option<f64>,
    pub(crate) error_share: Option<f64>,
}

impl Slo {
    /// Whether one answer kept every bound of latency.
    pub(crate) fn is_kept_by(&self, record: &Record) -> bool {
        let within = |time: Option<Duration>, bound: Option<f64>| {
            bound.is_none_or(|bound| time.is_some_and(|time| time.as_secs_f64() * 1e3 <= bound))
        };
        within(record.first_segment, self.first_segment_p95_ms)
            && within(Some(record.total), self.e2e_p95_ms)
    }

    /// What a run did not keep, a line each.
    pub(crate) fn missed(&self, summary: &Summary) -> Vec<String> {
        let checks = [
            (
                "first_segment_p95_ms",
                summary.first_segment_ms.p95,
                self.first_segment_p95_ms,
            ),
            ("e2e_p95_ms", summary.e2e_ms.p95, self.e2e_p95_ms),
            ("error_share", Some(summary.error_share), self.error_share),
        ];
        let missed = checks.into_iter().filter_map(|(name, value, bound)| {
            let bound = bound?;
            match value {
                Some(value) if value <= bound => None,
                Some(value) => Some(format!("{name} is {value:.3}, at most {bound}")),
                None => Some(format!(
                    "{name} is beyond what was answered, at most {bound}"
                )),
            }
        });
        missed.collect()
    }
}

/// Something done beside the load, such as a new harness; its time is marked in the report.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Swap {
    /// Seconds after the start of the warm-up.
    pub(crate) at_s: f64,
    /// A program and its arguments; `HARNESS` in its environment is the harness folder of a server started here.
    pub(crate) command: Vec<String>,
}

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    target: Route,
    #[serde(default)]
    seed: u64,
    duration_s: f64,
    #[serde(default)]
    warm_up_s: f64,
    rate: Option<f64>,
    rates: Option<Vec<f64>>,
    #[serde(default = "poisson")]
    arrivals: Process,
    burst: Option<usize>,
    trace: Option<PathBuf>,
    #[serde(default = "in_flight")]
    max_in_flight: usize,
    #[serde(default = "timeout")]
    timeout_s: f64,
    #[serde(default)]
    texts: Texts,
    #[serde(default)]
    slo: Slo,
    #[serde(default)]
    swap: Vec<Swap>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Process {
    Poisson,
    Bursts,
    Even,
    Trace,
}

fn poisson() -> Process {
    Process::Poisson
}

fn in_flight() -> usize {
    256
}

fn timeout() -> f64 {
    60.0
}

impl Scenario {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Names the file and the key that is unknown, absent or out of range.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let read = |trace: &Path| {
            let trace = folder.join(trace);
            std::fs::read_to_string(&trace).map_err(|error| format!("{}: {error}", trace.display()))
        };
        Self::parse(&text, read).map_err(|error| format!("{}: {error}", path.display()).into())
    }

    /// Checks a text; `read` gives the texts of other files.
    fn parse(
        text: &str,
        read: impl FnOnce(&Path) -> Result<String, String>,
    ) -> Result<Self, String> {
        let written: Written = toml::from_str(text).map_err(|error| error.to_string())?;
        written.check()?;
        let arrivals = written.arrivals(read)?;
        let seconds = Duration::from_secs_f64;
        Ok(Self {
            rates: written.rates_asked(&arrivals)?,
            arrivals,
            route: written.target,
            seed: written.seed,
            duration: seconds(written.duration_s),
            warm_up: seconds(written.warm_up_s),
            limits: Limits {
                in_flight: written.max_in_flight,
                timeout: seconds(written.timeout_s),
            },
            name: written.name,
            texts: written.texts,
            slo: written.slo,
            swaps: written.swap,
        })
    }
}

/// Longest time that a scenario may name, a day in seconds.
const LONGEST: f64 = 86_400.0;

impl Written {
    fn check(&self) -> Result<(), String> {
        let time = |value: f64, least: f64| (least..=LONGEST).contains(&value);
        let texts = &self.texts;
        let checks = [
            ("name", !self.name.trim().is_empty(), "must not be blank"),
            (
                "duration_s",
                time(self.duration_s, 0.1),
                "must be 0.1 to 86400",
            ),
            ("warm_up_s", time(self.warm_up_s, 0.0), "must be 0 to 86400"),
            (
                "timeout_s",
                time(self.timeout_s, 0.1),
                "must be 0.1 to 86400",
            ),
            ("max_in_flight", self.max_in_flight > 0, "must be above 0"),
            (
                "texts.rooms",
                (1..=10_000).contains(&texts.rooms),
                "must be 1 to 10000",
            ),
            (
                "texts.comment_words",
                (1..=300).contains(&texts.comment_words),
                "must be 1 to 300",
            ),
            (
                "texts.answer_tokens",
                texts.answer_tokens > 0,
                "must be above 0",
            ),
            (
                "texts.answer_chars",
                texts.answer_chars > 0,
                "must be above 0",
            ),
            (
                "texts.deadline_ms",
                (100..=120_000).contains(&texts.deadline_ms),
                "must be 100 to 120000",
            ),
            (
                "texts.disconnect_share",
                (0.0..=1.0).contains(&texts.disconnect_share),
                "must be 0 to 1",
            ),
            (
                "swap.at_s",
                self.swap.iter().all(|swap| time(swap.at_s, 0.0)),
                "must be 0 to 86400",
            ),
            (
                "swap.command",
                self.swap.iter().all(|swap| !swap.command.is_empty()),
                "must name a program",
            ),
        ];
        match checks.into_iter().find(|(_, ok, _)| !ok) {
            Some((key, _, expected)) => Err(format!("{key} {expected}")),
            None => Ok(()),
        }
    }

    fn arrivals(
        &self,
        read: impl FnOnce(&Path) -> Result<String, String>,
    ) -> Result<Arrivals, String> {
        if self.burst.is_some() && self.arrivals != Process::Bursts {
            return Err("burst is only for arrivals = \"bursts\"".to_owned());
        }
        if self.trace.is_some() && self.arrivals != Process::Trace {
            return Err("trace is only for arrivals = \"trace\"".to_owned());
        }
        Ok(match self.arrivals {
            Process::Poisson => Arrivals::Poisson,
            Process::Even => Arrivals::Even,
            Process::Bursts => match self.burst {
                Some(size) if size > 0 => Arrivals::Bursts(size),
                _ => return Err("burst must say how many come at once, above 0".to_owned()),
            },
            Process::Trace => {
                let path = self
                    .trace
                    .as_ref()
                    .ok_or("trace must name a file of seconds")?;
                let times = read_trace(&read(path)?);
                Arrivals::Trace(times.map_err(|error| format!("{}: {error}", path.display()))?)
            }
        })
    }

    fn rates_asked(&self, arrivals: &Arrivals) -> Result<Vec<f64>, String> {
        let rates = match (self.rate, &self.rates, arrivals) {
            (None, None, Arrivals::Trace(times)) => {
                #[allow(clippy::cast_precision_loss, reason = "lines of a file")]
                let rate = times.len() as f64 / (self.warm_up_s + self.duration_s);
                vec![rate]
            }
            (_, _, Arrivals::Trace(_)) => {
                return Err("rate: a trace has times of its own".to_owned());
            }
            (Some(rate), None, _) => vec![rate],
            (None, Some(rates), _) if !rates.is_empty() => rates.clone(),
            (Some(_), Some(_), _) => return Err("rate and rates: only one may be there".to_owned()),
            _ => return Err("rate or rates must say how many requests a second".to_owned()),
        };
        if rates.iter().any(|rate| !(rate.is_finite() && *rate > 0.0)) {
            return Err("rates must be above 0".to_owned());
        }
        Ok(rates)
    }
}

#[cfg(test)]
#[path = "scenario_tests.rs"]
mod tests;
