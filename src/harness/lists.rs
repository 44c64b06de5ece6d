//! Word lists: `lists/*.txt`, a word or phrase a line; blank lines and lines that begin with `#` do not count.

use std::collections::{BTreeMap, HashSet};
use std::str;

use super::{Findings, Problem, Source};

/// The folder.
const FOLDER: &str = "lists";

/// Every list by its name (the file's, without `.txt`).
pub type Lists = BTreeMap<String, Vec<String>>;

/// Reads the whole folder.
pub(super) fn read(source: &Source, found: &mut Findings) -> Lists {
    let mut lists = Lists::new();
    for (path, bytes) in source.under(FOLDER) {
        let Some(name) = path[FOLDER.len() + 1..].strip_suffix(".txt") else {
            continue;
        };
        let Ok(text) = str::from_utf8(bytes) else {
            found.problems.push(Problem::of(path, "is not UTF-8"));
            continue;
        };
        let (mut words, mut seen) = (Vec::new(), HashSet::new());
        for (index, line) in text
            .strip_prefix('\u{feff}')
            .unwrap_or(text)
            .lines()
            .enumerate()
        {
            let word = line.trim();
            if word.is_empty() || word.starts_with('#') {
                continue;
            }
            if !seen.insert(word) {
                found.warnings.push(Problem::at(
                    path,
                    index + 1,
                    format!("{word:?} is there twice"),
                ));
                continue;
            }
            words.push(word.to_owned());
        }
        if words.is_empty() {
            found.problems.push(Problem::of(path, "holds no word"));
        }
        lists.insert(name.to_owned(), words);
    }
    lists
}
