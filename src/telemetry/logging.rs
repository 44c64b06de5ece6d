//! Where log lines go: standard error, as text or JSON, one line an event whatever a value contains.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::debug_fn;

/// How to log.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// `text` or `json`.
    pub format: Format,
    /// A level (`error`, `warn`, `info`, `debug`, `trace`), or directives such as `info,compere::http=debug`.
    pub level: String,
}

/// The shape of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For machines.
    Json,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            format: Format::Text,
            level: "info".to_owned(),
        }
    }
}

/// Logs that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The level cannot be read.
    #[error("telemetry.level {level:?}: {reason}")]
    Level {
        /// As configured.
        level: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Somebody set logging up before.
    #[error("logging is set up already")]
    Again,
}

/// Puts another filter in force.
type Change = Arc<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

/// What of the log is written, for changing it while the process runs. Cheap to clone.
#[derive(Clone)]
pub struct LogLevel {
    change: Change,
    now: Arc<Mutex<String>>,
}

impl fmt::Debug for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogLevel").field(&self.now()).finish()
    }
}

impl LogLevel {
    /// The level or directives in force.
    #[must_use]
    pub fn now(&self) -> String {
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.clone()
    }

    /// Puts another level, or directives, in force.
    ///
    /// # Errors
    /// A level that cannot be read; then nothing has changed.
    pub fn set(&self, level: &str) -> Result<(), LoggingError> {
        let filter = filter(level)?;
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        (self.change)(filter).map_err(|reason| LoggingError::Level {
            level: level.to_owned(),
            reason,
        })?;
        level.clone_into(&mut now);
        Ok(())
    }
}

fn filter(level: &str) -> Result<EnvFilter, LoggingError> {
    let refused = |reason: String| LoggingError::Level {
        level: level.to_owned(),
        reason,
    };
    // The filter takes any other word for the name of a module of which everything is to be logged.
    let words = level.split(',');
    let mut bare = words.filter(|word| !word.contains(['=', '[', ']', '{', '}']));
    if let Some(word) = bare.find(|word| word.is_empty() || word.parse::<LevelFilter>().is_err()) {
        return Err(refused(format!(
            "{word:?} is not error, warn, info, debug, trace, off, or a directive such as compere::http=debug"
        )));
    }
    EnvFilter::builder()
        .parse(level)
        .map_err(|error| refused(error.to_string()))
}

/// Sends every log line of this process to standard error.
///
/// # Errors
/// A level that cannot be read, or a second call.
pub fn init(config: &Config) -> Result<LogLevel, LoggingError> {
    let (subscriber, level) = subscriber(config, std::io::stderr)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LoggingError::Again)?;
    Ok(level)
}

type Subscriber = Box<dyn tracing::Subscriber + Send + Sync>;

fn subscriber<W>(config: &Config, writer: W) -> Result<(Subscriber, LogLevel), LoggingError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(&config.level)?)
        .with_writer(writer)
        .with_ansi(false);
    let (subscriber, change): (Subscriber, Change) = match config.format {
        Format::Json => {
            let builder = builder.json().flatten_event(true).with_filter_reloading();
            let handle = builder.reload_handle();
            let change = move |filter| handle.reload(filter).map_err(|error| error.to_string());
            (Box::new(builder.finish()), Arc::new(change))
        }
        Format::Text => {
            let fields = debug_fn(|writer, field, value| {
                let text = format!("{value:?}");
                if field.name() != "message" {
                    write!(writer, "{field}=")?;
                }
                escape(writer, &text)
            });
            let builder = builder
                .fmt_fields(fields.delimited(" "))
                .with_filter_reloading();
            let handle = builder.reload_handle();
            let change = move |filter| handle.reload(filter).map_err(|error| error.to_string());
            (Box::new(builder.finish()), Arc::new(change))
        }
    };
    let now = Arc::new(Mutex::new(config.level.clone()));
    Ok((subscriber, LogLevel { change, now }))
}

/// Writes `text` with its control characters spelt out, so that no value starts a line or moves the cursor.
fn escape(out: &mut dyn std::fmt::Write, text: &str) -> std::fmt::Result {
    for char in text.chars() {
        if char.is_control() || matches!(char, '\u{2028}' | '\u{2029}') {
            write!(out, "{}", char.escape_default())?;
        } else {
            out.write_char(char)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Collects what is logged.
    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: Format, log: impl FnOnce()) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let config = Config {
            format,
            ..Config::default()
        };
        let (subscriber, _) = subscriber(&config, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, log);
        String::from_utf8(sink.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn control_characters_in_a_value_never_forge_a_line() {
        for format in [Format::Text, Format::Json] {
            let hostile = "room\n2026-01-01 ERROR forged\r\u{1b}[31m\u{2028}";
            let text = logged(format, || {
                tracing::info!(room_id = hostile, other = %hostile, "turn accepted");
            });
            assert_eq!(text.matches('\n').count(), 1, "{text}");
            let inside = text.trim_end_matches('\n');
            assert!(!inside.chars().any(char::is_control), "{text:?}");
            assert!(text.contains("turn accepted"), "{text}");
        }
    }

    #[test]
    fn a_level_that_cannot_be_read_is_refused_by_name() {
        for bad in [
            "compere=loud",
            "zzz",
            "info,zzz",
            "compere::http",
            "",
            "info,,debug",
            "1.5",
        ] {
            let error = filter(bad).unwrap_err().to_string();
            assert!(
                error.contains(&format!("telemetry.level {bad:?}")),
                "{error}"
            );
        }
        for good in [
            "info",
            "WARN",
            "off",
            "info,compere::http=debug",
            "compere=trace",
            "info,compere[turn{id=7}]=debug",
        ] {
            filter(good).unwrap();
        }
    }

    #[test]
    fn the_level_changes_while_the_process_runs_and_a_bad_one_changes_nothing() {
        let sink = Sink::default();
        let writer = sink.clone();
        let (subscriber, level) = subscriber(&Config::default(), move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            tracing::debug!("one");
            level.set("debug").unwrap();
            level.set("loud").unwrap_err();
            tracing::debug!("two");
            level.set("off").unwrap();
            tracing::error!("three");
        });
        assert_eq!(level.now(), "off");
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.matches('\n').count(), 1, "{text}");
        assert!(text.contains("two"), "{text}");
    }

    #[test]
    fn debug_lines_are_off_by_default() {
        assert_eq!(logged(Format::Text, || tracing::debug!("detail")), "");
    }
}
