//! Every setting of the program: the sum of the parts' `Config`s, from a TOML file, then the environment, then flags.
//! The only reader of the environment. Unknown keys are errors that name the file and line, or the variable.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

use crate::cli::ConfigArgs;

/// Environment variables named `COMPERE_<SECTION>__<KEY>` set `section.key`; more `__` go deeper.
const PREFIX: &str = "COMPERE_";

/// The whole configuration; every key has a default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Which model, and how much memory it may use.
    pub model: crate::model::Config,
    /// Scheduling.
    pub engine: crate::engine::paged::Config,
    /// Where harnesses lie, and how changes go live.
    pub harness: crate::harness::Config,
    /// What tools may reach.
    pub tools: crate::tools::Config,
    /// Avatar answers.
    pub turn: crate::turn::Config,
    /// Listener and limits.
    pub http: crate::http::Config,
    /// The operators' listener.
    pub admin: crate::http::AdminConfig,
    /// Logs.
    pub telemetry: crate::telemetry::Config,
}

/// A setting that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file says something that is not a setting; the message has line and column.
    #[error("{path}: {message}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A variable of the environment says something that is not a setting.
    #[error("environment variable {name}: {message}")]
    Variable {
        /// The variable.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// A flag says something that is not a setting.
    #[error("{flag}: {message}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// What is wrong.
        message: String,
    },
    /// There is no home folder to keep the cache in.
    #[error("model.cache_dir: not set, and neither XDG_CACHE_HOME nor HOME is in the environment")]
    NoCacheDir,
}

/// Reads file, environment and flags.
///
/// # Errors
/// Names the file and line, or the variable, at fault.
pub fn load(args: &ConfigArgs) -> Result<Config, ConfigError> {
    let variables: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    from_parts(args, &variables)
}

/// As [`load`], with the environment given.
///
/// # Errors
/// As [`load`].
pub fn from_parts(
    args: &ConfigArgs,
    variables: &[(String, String)],
) -> Result<Config, ConfigError> {
    let mut table = match &args.config {
        Some(path) => read_file(path)?,
        None => Table::new(),
    };
    overlay_environment(&mut table, variables)?;
    let mut config: Config = Value::Table(table)
        .try_into()
        .map_err(|error: toml::de::Error| ConfigError::Variable {
            name: PREFIX.to_owned() + "*",
            message: error.message().to_owned(),
        })?;
    if let Some(model) = &args.model {
        config.model.model.clone_from(model);
    }
    if let Some(quantise) = &args.quantise {
        let parsed = quantise.parse().map_err(|message| ConfigError::Flag {
            flag: "--quantise",
            message,
        })?;
        config.model.quantise = Some(parsed);
    }
    if let Some(threads) = args.threads {
        config.model.threads = Some(threads);
    }
    if config.model.cache_dir.is_none() {
        config.model.cache_dir = Some(default_cache_dir(variables).ok_or(ConfigError::NoCacheDir)?);
    }
    if config.harness.state.is_none() {
        config.harness.state = default_state_dir(variables);
    }
    Ok(config)
}

/// Values of the environment's variables of these names, for headers of tools; those that are not set are left out.
#[must_use]
pub fn secrets(names: &[String]) -> BTreeMap<String, String> {
    let value = |name: &String| Some((name.clone(), std::env::var(name).ok()?));
    names.iter().filter_map(value).collect()
}

/// Where states are kept when nothing says so: `$XDG_STATE_HOME/compere`, or `~/.local/state/compere`. Base folders that
/// are relative do not count.
fn default_state_dir(variables: &[(String, String)]) -> Option<PathBuf> {
    let get = |wanted: &str| {
        let found = variables.iter().find(|(name, _)| name == wanted);
        found
            .map(|(_, value)| PathBuf::from(value))
            .filter(|path| path.is_absolute())
    };
    let base = get("XDG_STATE_HOME").or_else(|| get("HOME").map(|home| home.join(".local/state")));
    base.map(|base| base.join("compere/harness"))
}

/// Parses the file by itself first, so that its errors carry its own lines.
fn read_file(path: &Path) -> Result<Table, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
        path: path.to_owned(),
        source,
    })?;
    let complain = |error: toml::de::Error| ConfigError::File {
        path: path.to_owned(),
        message: error.to_string(),
    };
    toml::from_str::<Config>(&text).map_err(complain)?;
    toml::from_str::<Table>(&text).map_err(complain)
}

/// Applies the variables in name order; each is checked alone, so that an error names the variable.
fn overlay_environment(
    table: &mut Table,
    variables: &[(String, String)],
) -> Result<(), ConfigError> {
    let mut ours: Vec<(Vec<String>, &str, &str)> = variables
        .iter()
        .filter_map(|(name, value)| {
            let path: Vec<String> = name
                .strip_prefix(PREFIX)?
                .split("__")
                .map(str::to_lowercase)
                .collect();
            (path.len() > 1 || is_section(&path[0])).then_some((
                path,
                name.as_str(),
                value.as_str(),
            ))
        })
        .collect();
    ours.sort();
    for (path, name, text) in ours {
        if let [section] = path.as_slice() {
            return Err(ConfigError::Variable {
                name: name.to_owned(),
                message: format!("{section} is a section; its keys are {name}__<KEY>"),
            });
        }
        let value = checked_value(&path, text).map_err(|message| ConfigError::Variable {
            name: name.to_owned(),
            message,
        })?;
        insert(table, &path, value);
    }
    Ok(())
}

/// Whether a table of this name belongs to the configuration.
fn is_section(name: &str) -> bool {
    let table = Table::from_iter([(name.to_owned(), Value::Table(Table::new()))]);
    Value::Table(table).try_into::<Config>().is_ok()
}

fn insert(table: &mut Table, path: &[String], value: Value) {
    let Some((key, rest)) = path.split_first() else {
        return;
    };
    if rest.is_empty() {
        table.insert(key.clone(), value);
        return;
    }
    let entry = table
        .entry(key.clone())
        .or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(inner) = entry {
        insert(inner, rest, value);
    }
}

/// Takes the text as a TOML value where that fits the setting (numbers, booleans, lists), else as a string.
fn checked_value(path: &[String], text: &str) -> Result<Value, String> {
    let fits = |value: &Value| {
        let mut whole = Table::new();
        insert(&mut whole, path, value.clone());
        Value::Table(whole)
            .try_into::<Config>()
            .map(|_| ())
            .map_err(|error| error.message().to_owned())
    };
    let typed = format!("v = {text}")
        .parse::<Table>()
        .ok()
        .and_then(|mut table| table.remove("v"));
    let typed_error = match typed.as_ref().map(&fits) {
        Some(Ok(())) => return Ok(typed.expect("it was just looked at")),
        Some(Err(error)) => Some(error),
        None => None,
    };
    let string = Value::String(text.to_owned());
    match fits(&string) {
        Ok(()) => Ok(string),
        Err(error) => Err(typed_error.unwrap_or(error)),
    }
}

fn default_cache_dir(variables: &[(String, String)]) -> Option<PathBuf> {
    let get = |wanted: &str| {
        variables
            .iter()
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| OsStr::new(value))
    };
    crate::model::fetch::default_cache_dir(get("XDG_CACHE_HOME"), get("HOME"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let home = ("HOME".to_owned(), "/home/someone".to_owned());
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .chain([home])
            .collect()
    }

    fn file(text: &str) -> (tempfile::TempDir, ConfigArgs) {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("compere.toml");
        std::fs::write(&path, text).expect("write config");
        (
            dir,
            ConfigArgs {
                config: Some(path),
                ..ConfigArgs::default()
            },
        )
    }

    #[test]
    fn an_unknown_key_in_the_file_is_refused_with_its_line() {
        let (_dir, args) = file("[http]\nlisten = \"127.0.0.1:1\"\nlissten = \"x\"\n");
        let error = from_parts(&args, &variables(&[]))
            .expect_err("unknown key")
            .to_string();
        assert!(
            error.contains("compere.toml") && error.contains("line 3") && error.contains("lissten"),
            "{error}"
        );
    }

    #[test]
    fn the_example_is_the_default_written_out() {
        let example: Config =
            toml::from_str(include_str!("../deploy/config.example.toml")).expect("valid");
        assert_eq!(format!("{example:#?}"), format!("{:#?}", Config::default()));
    }

    #[test]
    fn the_example_names_every_setting() {
        let text = include_str!("../deploy/config.example.toml");
        for line in format!("{:#?}", Config::default()).lines() {
            let Some((key, _)) = line.trim().split_once(": ") else {
                continue;
            };
            let named = text
                .lines()
                .any(|line| line.trim_start_matches("# ").starts_with(key));
            assert!(
                named || text.contains(&format!("{key}]")),
                "{key} is not in the example"
            );
        }
    }

    #[test]
    fn an_unknown_section_is_refused() {
        let (_dir, args) = file("[htttp]\n");
        let error = from_parts(&args, &variables(&[]))
            .expect_err("unknown section")
            .to_string();
        assert!(error.contains("htttp"), "{error}");
    }

    #[test]
    fn the_environment_beats_the_file_and_flags_beat_both() {
        let (_dir, mut args) = file("[model]\nmodel = \"from-file\"\nthreads = 1\n");
        let environment = variables(&[
            ("COMPERE_MODEL__MODEL", "from-env"),
            ("COMPERE_MODEL__THREADS", "2"),
        ]);
        let config = from_parts(&args, &environment).expect("valid");
        assert_eq!(
            (config.model.model.as_str(), config.model.threads),
            ("from-env", Some(2))
        );
        args.model = Some("from-flag".to_owned());
        let config = from_parts(&args, &environment).expect("valid");
        assert_eq!(
            (config.model.model.as_str(), config.model.threads),
            ("from-flag", Some(2))
        );
    }

    #[test]
    fn a_flag_that_is_no_setting_is_named() {
        let args = |kind: &str| ConfigArgs {
            quantise: Some(kind.to_owned()),
            ..ConfigArgs::default()
        };
        let config = from_parts(&args("q4_0"), &variables(&[])).expect("valid");
        assert_eq!(config.model.quantise, Some(crate::model::Quantise::Q4_0));
        let error = from_parts(&args("q4"), &variables(&[])).expect_err("unknown");
        assert_eq!(
            error.to_string(),
            "--quantise: \"q4\" is none of q8_0, q4_0, q4_1"
        );
    }

    #[test]
    fn an_unknown_or_ill_typed_variable_is_named() {
        for (name, value) in [
            ("COMPERE_MODEL__MODLE", "x"),
            ("COMPERE_MODEL__THREADS", "many"),
            ("COMPERE_MOD__X", "1"),
            ("COMPERE_HTTP", "1"),
            ("COMPERE_MODEL", ""),
            ("COMPERE_HTTP__LIMITS", "1"),
            ("COMPERE_HTTP__", "1"),
        ] {
            let error = from_parts(&ConfigArgs::default(), &variables(&[(name, value)]))
                .expect_err(name)
                .to_string();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn a_variable_reaches_nested_settings() {
        let environment = variables(&[("COMPERE_HTTP__LIMITS__BODY_BYTES", "1000")]);
        let config = from_parts(&ConfigArgs::default(), &environment).expect("valid");
        assert_eq!(config.http.limits.body_bytes, 1000);
    }

    #[test]
    fn other_programs_variables_are_left_alone() {
        from_parts(
            &ConfigArgs::default(),
            &variables(&[("COMPERE_OTHER", "1"), ("PATH", "/bin")]),
        )
        .expect("valid");
    }

    #[test]
    fn a_string_setting_may_look_like_a_number() {
        let config = from_parts(
            &ConfigArgs::default(),
            &variables(&[("COMPERE_MODEL__MODEL", "7")]),
        )
        .expect("valid");
        assert_eq!(config.model.model, "7");
    }

    #[test]
    fn states_follow_the_base_directory_rules() {
        let state = |pairs: &[(&str, &str)]| {
            let config = from_parts(&ConfigArgs::default(), &variables(pairs)).expect("valid");
            config.harness.state.expect("a folder")
        };
        assert_eq!(
            state(&[]),
            Path::new("/home/someone/.local/state/compere/harness")
        );
        assert_eq!(
            state(&[("XDG_STATE_HOME", "/var/s")]),
            Path::new("/var/s/compere/harness")
        );
    }

    #[test]
    fn the_cache_follows_the_base_directory_rules() {
        let cache = |pairs: &[(&str, &str)]| {
            from_parts(&ConfigArgs::default(), &variables(pairs))
                .expect("valid")
                .model
                .cache_dir
                .expect("a cache")
        };
        assert_eq!(cache(&[]), Path::new("/home/someone/.cache/compere"));
        assert_eq!(
            cache(&[("XDG_CACHE_HOME", "/var/c")]),
            Path::new("/var/c/compere")
        );
        assert_eq!(
            cache(&[("XDG_CACHE_HOME", "relative")]),
            Path::new("/home/someone/.cache/compere")
        );
    }
}
