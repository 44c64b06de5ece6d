//! From files to a harness, or to everything that is wrong with them. Pure: no disk, no clock, no network.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::str;
use std::sync::Arc;

use super::lists;
use super::prompt::{Parts, Prompts, render_system};
use super::skill::Skills;
use super::snapshot::{ranked, skill_tools};
use super::tools::{self, Tools};
use super::{
    Catalog, Findings, Harness, Problem, Settings, Source, ToolCard, Version, hook, skill, tool,
};

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
    let Skills {
        mut skills,
        mentions,
    } = skill::read_all(source, found);
    let prompts = Prompts::read(source, found);
    let hooks = hooks(source, found);
    let tools = tools::read(source, found);
    tools::check(&tools, &named, &mentions, &skills, found);
    let lookup = lookup(&catalog, found);
    if !found.problems.is_empty() {
        return None;
    }
    for skill in skills.values_mut() {
        // What this harness lacks is no permission for anything.
        skill.tools.retain(|name| tools.contains_key(name));
    }
    let offered = offered(&settings, &skills, &tools);
    let parts = Parts {
        settings: &settings,
        persona: &persona,
        skills: ranked(&skills),
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
        skills,
        hooks,
        tools,
        prompts,
        catalog,
        lookup: Arc::new(lookup),
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

/// Every hook, in the order that they are asked in.
fn hooks(source: &Source, found: &mut Findings) -> Vec<hook::Hook> {
    const FOLDER: &str = "hooks";
    let names: BTreeSet<&str> = source
        .under(FOLDER)
        .filter_map(|(path, _)| {
            path[FOLDER.len() + 1..]
                .split_once('/')
                .map(|(name, _)| name)
        })
        .collect();
    let mut hooks: Vec<_> = names
        .into_iter()
        .filter_map(|name| hook::read(name, source, &mut found.problems))
        .collect();
    hooks.sort_by(|a, b| (a.point, a.order, &a.name).cmp(&(b.point, b.order, &b.name)));
    hooks
}

/// The products as the catalog tool looks them up.
fn lookup(catalog: &Catalog, found: &mut Findings) -> tool::Catalog {
    let mut lookup = tool::Catalog::default();
    for product in catalog.iter() {
        if let Err(reason) = lookup.add(product.to_json()) {
            found
                .problems
                .push(Problem::of(product.path.as_str(), reason));
        }
    }
    lookup
}

/// Tools of every turn: those that the settings name, those of skills that are always active, and the skills' own; in
/// order of their names.
fn offered(
    settings: &Settings,
    skills: &BTreeMap<String, skill::Skill>,
    tools: &Tools,
) -> Vec<ToolCard> {
    let inline = skills
        .values()
        .filter(|skill| skill.inline)
        .flat_map(|skill| &skill.tools);
    let names: BTreeSet<&String> = settings.tools.iter().chain(inline).collect();
    let mut cards: Vec<ToolCard> = names
        .into_iter()
        .filter_map(|name| tools.get(name))
        .map(ToolCard::of)
        .collect();
    cards.extend(skill_tools(skills));
    cards
}
