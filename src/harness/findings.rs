//! What reading a harness found, in three grades.

use super::Problem;

/// Collected while reading, so that one run tells everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The harness cannot be used.
    pub problems: Vec<Problem>,
    /// It can, but departs from the rules: lint refuses it.
    pub warnings: Vec<Problem>,
    /// Worth knowing.
    pub notes: Vec<Problem>,
}

impl Findings {
    /// Puts each grade in order of paths and lines.
    pub(super) fn sort(&mut self) {
        for list in [&mut self.problems, &mut self.warnings, &mut self.notes] {
            list.sort();
            list.dedup();
        }
    }
}
