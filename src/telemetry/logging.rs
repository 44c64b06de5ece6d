//! Where log lines go: standard error, as text or JSON, one line an event whatever a value contains.

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

impl Config {
    fn filter(&self) -> Result<EnvFilter, LoggingError> {
        let refused = |reason: String| LoggingError::Level {
            level: self.level.clone(),
            reason,
        };
        // The filter takes any other word for the name of a module of which everything is to be logged.
        let words = self.level.split(',');
        let mut bare = words.filter(|word| !word.contains(['=', '[', ']', '{', '}']));
        if let Some(word) =
            bare.find(|word| word.is_empty() || word.parse::<LevelFilter>().is_err())
        {
            return Err(refused(format!(
                "{word:?} is not error, warn, info, debug, trace, off, or a directive such as compere::http=debug"
            )));
        }
        EnvFilter::builder()
            .parse(&self.level)
            .map_err(|error| refused(error.to_string()))
    }
}

/// Sends every log line of this process to standard error.
///
/// # Errors
/// A level that cannot be read, or a second call.
pub fn init(config: &Config) -> Result<(), LoggingError> {
    let subscriber = subscriber(config, std::io::stderr)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LoggingError::Again)
}

fn subscriber<W>(
    config: &Config,
    writer: W,
) -> Result<Box<dyn tracing::Subscriber + Send + Sync>, LoggingError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt()
        .with_env_filter(config.filter()?)
        .with_writer(writer)
        .with_ansi(false);
    Ok(match config.format {
        Format::Json => Box::new(builder.json().flatten_event(true).finish()),
        Format::Text => {
            let fields = debug_fn(|writer, field, value| {
                let text = format!("{value:?}");
                if field.name() != "message" {
                    write!(writer, "{field}=")?;
                }
                escape(writer, &text)
            });
            Box::new(builder.fmt_fields(fields.delimited(" ")).finish())
        }
    })
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
        let subscriber = subscriber(&config, move || writer.clone()).unwrap();
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
        let filter = |level: &str| {
            let level = level.to_owned();
            let format = Format::Text;
            Config { format, level }.filter()
        };
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
    fn debug_lines_are_off_by_default() {
        assert_eq!(logged(Format::Text, || tracing::debug!("detail")), "");
    }
}
