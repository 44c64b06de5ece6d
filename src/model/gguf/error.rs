//! What can be wrong with a model file. Each error names the file, the field and the reason.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Longest field name that a message repeats; names come from the file and may be of any length.
const FIELD_SHOWN: usize = 120;

/// A model file that cannot be used: `<path>: <field>: <reason>`.
#[derive(Debug, thiserror::Error)]
#[error("{}: {field}: {fault}", path.display())]
pub struct ModelFileError {
    /// The file.
    pub path: PathBuf,
    /// The metadata key, tensor or part of the file at fault, made printable.
    pub field: String,
    /// What is wrong with it.
    #[source]
    pub fault: Fault,
}

/// The reason of a [`ModelFileError`].
#[derive(Debug)]
pub enum Fault {
    /// The operating system refused.
    Io(io::Error),
    /// The file ends before what its header promises; sizes of the whole file in bytes.
    Truncated {
        /// Bytes that the file must have at least.
        expected: u64,
        /// Bytes that it has.
        actual: u64,
    },
    /// The key or tensor does not exist.
    Missing,
    /// Several keys do not exist; the field names what needs them.
    MissingKeys(Vec<String>),
    /// The key's value has a type that cannot be used here.
    WrongType {
        /// What is wanted.
        expected: &'static str,
        /// What the file holds.
        actual: String,
    },
    /// The name occurs twice.
    Duplicate,
    /// The value is not possible.
    Invalid(String),
    /// The value is well-formed, but this program does not support it.
    Unsupported(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => match error.kind() {
                io::ErrorKind::NotFound => f.write_str("no such file"),
                io::ErrorKind::PermissionDenied => f.write_str("permission denied"),
                _ => write!(f, "{error}"),
            },
            Self::Truncated { expected, actual } => {
                write!(
                    f,
                    "file is truncated: expected at least {expected} bytes, has {actual}"
                )
            }
            Self::Missing => f.write_str("missing"),
            Self::MissingKeys(keys) => write!(f, "missing {}", keys.join(", ")),
            Self::WrongType { expected, actual } => {
                write!(f, "expected {expected}, found {actual}")
            }
            Self::Duplicate => f.write_str("occurs twice"),
            Self::Invalid(reason) => f.write_str(reason),
            Self::Unsupported(what) => write!(f, "{what} is not supported"),
        }
    }
}

impl std::error::Error for Fault {}

impl ModelFileError {
    /// An error about `field` of the file at `path`.
    #[must_use]
    pub fn new(path: &Path, field: &str, fault: Fault) -> Self {
        let mut shown: String = field
            .chars()
            .take(FIELD_SHOWN)
            .flat_map(char::escape_debug)
            .collect();
        if field.chars().nth(FIELD_SHOWN).is_some() {
            shown.push_str("...");
        }
        Self {
            path: path.to_owned(),
            field: shown,
            fault,
        }
    }
}
