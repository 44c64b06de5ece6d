//! `compere harness lint`: everything that is wrong, as a compiler would say it.

use std::path::{Path, PathBuf};

use super::{Failure, below, load};
use crate::harness::disk;

pub(super) fn run(paths: &[PathBuf]) -> Result<(), Failure> {
    let mut faults = 0;
    for path in paths {
        let harnesses = harnesses(path)?;
        if harnesses.is_empty() {
            return Err(format!("{}: holds no harness", path.display()).into());
        }
        for harness in harnesses {
            faults += lint(&harness);
        }
    }
    match faults {
        0 => Ok(()),
        1 => Err("1 problem".into()),
        count => Err(format!("{count} problems").into()),
    }
}

/// The folder itself, or every harness in it.
fn harnesses(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if path.join("harness.toml").exists() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = path
        .read_dir()
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.path().is_dir() && !disk::is_ignored(&entry.file_name().to_string_lossy()) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Prints what is found; how much of it is wrong.
fn lint(path: &Path) -> usize {
    match load(path) {
        Err(problems) => {
            problems
                .iter()
                .for_each(|problem| println!("{}", below(path, problem)));
            problems.len()
        }
        Ok(loaded) => {
            loaded
                .warnings
                .iter()
                .for_each(|problem| println!("{}", below(path, problem)));
            loaded
                .notes
                .iter()
                .for_each(|problem| println!("{} (a note)", below(path, problem)));
            if loaded.warnings.is_empty() {
                println!(
                    "{}: version {}, nothing wrong",
                    path.display(),
                    loaded.harness.version.short()
                );
            }
            loaded.warnings.len()
        }
    }
}
