//! `compere harness`: check harnesses, look into them, and move what is live.

mod diff;
mod kept;
mod lint;
mod show;
mod trial;

use std::path::Path;

use super::Failure;
use crate::cli::HarnessCommand;
use crate::harness::{self, Loaded, Problem};

pub(super) fn run(command: HarnessCommand) -> Result<(), Failure> {
    match command {
        HarnessCommand::Lint { paths } => lint::run(&paths),
        HarnessCommand::Show { path } => show::show(&path),
        HarnessCommand::Render { path } => show::render(&path),
        HarnessCommand::Tokens { path, config } => show::tokens(&path, &config),
        HarnessCommand::Diff { from, to, place } => diff::run(&from, &to, &place),
        HarnessCommand::History { place } => kept::history(&place),
        HarnessCommand::Promote {
            version,
            place,
            who,
        } => kept::promote(&version, &place, &who),
        HarnessCommand::Rollback {
            version,
            place,
            who,
        } => kept::rollback(version.as_deref(), &place, &who),
        HarnessCommand::Try {
            comment,
            version,
            place,
        } => trial::run(&comment, &version, &place),
    }
}

/// Reads and loads the harness of a folder.
fn load(path: &Path) -> Result<Loaded, Vec<Problem>> {
    harness::read(path).and_then(|source| harness::load(&name(path), &source))
}

/// As [`load`]; prints what is wrong.
fn load_or_complain(path: &Path) -> Result<Loaded, Failure> {
    load(path).map_err(|problems| {
        for problem in &problems {
            println!("{}", below(path, problem));
        }
        format!("{}: {} problems", path.display(), problems.len()).into()
    })
}

/// What the harness of a folder is called.
fn name(path: &Path) -> String {
    let real = path.canonicalize();
    let name = real.as_deref().unwrap_or(path).file_name();
    name.unwrap_or_default().to_string_lossy().into_owned()
}

/// The problem with the folder before its path, so that editors find the file.
fn below(dir: &Path, problem: &Problem) -> Problem {
    let path = Path::new(&problem.path);
    let path = if path.starts_with(dir) {
        path.to_owned()
    } else {
        dir.join(path)
    };
    Problem {
        path: path.display().to_string(),
        ..problem.clone()
    }
}
