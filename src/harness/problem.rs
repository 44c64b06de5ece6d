//! One thing that is wrong with a harness, said so that an operator finds it: file, line, reason.

use std::fmt;

/// What a loader found wrong, or worth a warning. Written like a compiler's message: `path:line: reason`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Relative to the harness folder, `/` between parts.
    pub path: String,
    /// From 1; absent where the whole file or folder is meant.
    pub line: Option<usize>,
    /// Lower-case and specific: the field, what it holds, what it must be.
    pub reason: String,
}

impl Problem {
    /// A problem of the whole file.
    pub fn of(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            line: None,
            reason: reason.into(),
        }
    }

    /// A problem at a line, counted from 1.
    pub fn at(path: impl Into<String>, line: usize, reason: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            line: Some(line),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.reason),
            None => write!(f, "{}: {}", self.path, self.reason),
        }
    }
}
