//! From files to a harness, or to everything that is wrong with them. Pure: no disk, no clock, no network.

use std::str;
use std::sync::Arc;

use super::lists;
use super::prompt::{Parts, Prompts, render_system};
use super::snapshot::{ranked, skill_tools};
use super::{Catalog, Findings, Harness, Problem, Settings, Source, Version, skill};

/// A harness that can be used, and what is worth knowing of it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The harness.
    pub harness: Harness,
    /// Departures from the rules: lint refuses them.
    pub warnings: Vec<Problem>,
    /// Worth knowing.
    pub notes: Vec<Problem>,
}

/// Reads and compiles everything.
///
/// # Errors
/// Every problem at once, in order of paths and lines.
pub fn load(name: &str, source: &Source) -> Result<Loaded, Vec<Problem>> {
    let mut found = Findings::default();
    let harness = read(name, source, &mut found);
    found.sort();
    match harness.filter(|_| found.problems.is_empty()) {
        Some(harness) => Ok(Loaded {
            harness,
            warnings: found.warnings,
            notes: found.notes,
        }),
        None => Err(found.problems),
    }
}

fn read(name: &str, source: &Source, found: &mut Findings) -> Option<Harness> {
    layout(source, found);
    let (settings, named) = Settings::read(source, &mut found.problems);
    let persona = persona(&settings, source, found);
    let catalog = Catalog::read(source, &mut found.problems);
    let lists = lists::read(source, found);
    let skills = skill::read_all(source, found);
    let prompts = Prompts::read(source, found);
    let _ = named;
    if !found.problems.is_empty() {
        return None;
    }
    let offered = skill_tools(&skills.skills);
    let parts = Parts {
        settings: &settings,
        persona: &persona,
        skills: ranked(&skills.skills),
        tools: &offered,
        prompts: &prompts,
    };
    let system = match render_system(&parts) {
        Ok(system) => system,
        Err(error) => {
            found.problems.push(error.0);
            return None;
        }
    };
    Some(Harness {
        name: name.to_owned(),
        version: Version::of(source),
        settings,
        persona,
        skills: skills.skills,
        prompts,
        catalog,
        lists,
        system,
        offered,
        source: Arc::new(source.clone()),
    })
}

/// Complains of empty files, and of files that nothing reads.
fn layout(source: &Source, found: &mut Findings) {
    for (path, bytes) in source.iter() {
        if bytes.is_empty() && !path.contains("/assets/") {
            // An editor truncates before it writes: what is empty is not finished.
            found.problems.push(Problem::of(path, "is empty"));
        }
        let parts: Vec<&str> = path.split('/').collect();
        let known = match parts[..] {
            ["harness.toml" | "README.md"] => true,
            ["skills", ..] => true,
            ["hooks", _, ..] if parts.len() > 2 => true,
            ["tools" | "catalog", file] => file.ends_with(".json"),
            ["prompts", file] => file.ends_with(".jinja") || file.ends_with(".txt"),
            ["lists", file] => file.ends_with(".txt"),
            _ => false,
        };
        if !known {
            found.warnings.push(Problem::of(
                path,
                "is no part of a harness, so nothing reads it",
            ));
        }
    }
}

fn persona(settings: &Settings, source: &Source, found: &mut Findings) -> String {
    // A path that leads nowhere has been complained of.
    let Some(bytes) = source.get(&settings.persona) else {
        return String::new();
    };
    match str::from_utf8(bytes) {
        Ok(text) if !text.trim().is_empty() => {
            text.strip_prefix('\u{feff}').unwrap_or(text).to_owned()
        }
        Ok(_) => {
            found
                .problems
                .push(Problem::of(settings.persona.as_str(), "is blank"));
            String::new()
        }
        Err(_) => {
            found
                .problems
                .push(Problem::of(settings.persona.as_str(), "is not UTF-8"));
            String::new()
        }
    }
}
