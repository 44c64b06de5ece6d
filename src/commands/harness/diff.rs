//! `compere harness diff`: in which files and sections two harnesses differ.

use std::collections::BTreeSet;
use std::path::Path;

use super::kept::Place;
use super::{Failure, name};
use crate::cli::StoreArgs;
use crate::harness::{self, Harness, SectionKind, Source};

pub(super) fn run(from: &str, to: &str, args: &StoreArgs) -> Result<(), Failure> {
    let (from, to) = (source(from, args)?, source(to, args)?);
    for line in files(&from.1, &to.1) {
        println!("{line}");
    }
    let load = |(name, source): (String, Source)| {
        harness::load(&name, &source)
            .ok()
            .map(|loaded| loaded.harness)
    };
    // A harness that does not load has files, but no sections.
    if let (Some(from), Some(to)) = (load(from), load(to)) {
        for line in sections(&from, &to) {
            println!("{line}");
        }
    }
    Ok(())
}

fn source(text: &str, args: &StoreArgs) -> Result<(String, Source), Failure> {
    let path = Path::new(text);
    if path.is_dir() {
        let complain = |problems: Vec<harness::Problem>| {
            let all: Vec<_> = problems.iter().map(ToString::to_string).collect();
            format!("{text}: {}", all.join("; "))
        };
        return Ok((name(path), harness::read(path).map_err(complain)?));
    }
    let place = Place::open(args)?;
    let source = place.store.get(place.version(text)?)?;
    Ok((place.name, source))
}

/// `+ path` for a new file, `- path` for one that is gone, `~ path` for one with other bytes.
fn files(from: &Source, to: &Source) -> Vec<String> {
    let paths: BTreeSet<&str> = from.iter().chain(to.iter()).map(|(path, _)| path).collect();
    let lines = paths.into_iter().filter_map(|path| {
        let sign = match (from.get(path), to.get(path)) {
            (None, _) => '+',
            (_, None) => '-',
            (one, other) if one != other => '~',
            _ => return None,
        };
        Some(format!("{sign} {path}"))
    });
    lines.collect()
}

fn sections(from: &Harness, to: &Harness) -> Vec<String> {
    let find = |harness: &Harness, kind: SectionKind| {
        let section = harness.system.iter().find(|section| section.kind == kind);
        section.map_or_else(|| "-".to_owned(), |section| section.fingerprint.to_string())
    };
    let lines = SectionKind::ALL.into_iter().filter_map(|kind| {
        let (one, other) = (find(from, kind), find(to, kind));
        (one != other).then(|| format!("section {}: {one} -> {other}", kind.word()))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_said_once_with_what_became_of_it() {
        let source = |files: &[(&str, &str)]| {
            let mut source = Source::default();
            files
                .iter()
                .for_each(|(path, text)| source.insert(*path, text.as_bytes()));
            source
        };
        let from = source(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let to = source(&[("b", "2"), ("c", "1"), ("d", "1")]);
        assert_eq!(files(&from, &to), ["- a", "~ b", "+ d"]);
        assert_eq!(files(&from, &from), Vec::<String>::new());
    }
}
