//! The log of who changed what: one JSON object a line, only ever added to. A line that a crash tore is left as it is;
//! the next begins on a line of its own.

use serde::{Deserialize, Serialize};

use crate::harness::Version;

/// One change, or one that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When, in RFC 3339.
    pub at: String,
    /// Who: `watch`, `start`, or the name that an operator gave.
    pub who: String,
    /// What was done.
    pub action: Action,
    /// The label that moved.
    pub label: String,
    /// Where it pointed.
    pub from: Option<Version>,
    /// Where it points, or should have.
    pub to: Option<Version>,
    /// `ok`, or why not.
    pub result: String,
}

/// What was done to a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A new version went live.
    Promote,
    /// An earlier one came back.
    Rollback,
    /// A label was set or moved.
    Label,
    /// Found moved without an entry: the program ended between the two.
    Recover,
}

/// The entry's line.
pub(super) fn line(entry: &Entry) -> String {
    let mut line = serde_json::to_string(entry).expect("an entry has only texts");
    line.push('\n');
    line
}

/// Every entry that can be read, oldest first.
pub(super) fn entries(bytes: &[u8]) -> Vec<Entry> {
    bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}
