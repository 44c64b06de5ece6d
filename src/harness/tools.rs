//! The tools of a harness together: which there are, and whether those that skills and settings name exist.

use std::collections::BTreeMap;

use super::settings::Named;
use super::skill::{Mention, Skill};
use super::snapshot::{ACTIVATE_SKILL, READ_SKILL_FILE};
use super::tool::{self, Kind, Tool};
use super::{Findings, Problem, Source};

/// The folder.
const FOLDER: &str = "tools";

/// Every tool by its name.
pub type Tools = BTreeMap<String, Tool>;

/// Reads the whole folder.
pub(super) fn read(source: &Source, found: &mut Findings) -> Tools {
    let mut tools = Tools::new();
    for (path, bytes) in source.under(FOLDER) {
        if !path.ends_with(".json") {
            continue;
        }
        let Some(tool) = tool::read(path, bytes, &mut found.problems) else {
            continue;
        };
        let name = tool.name.to_string();
        found.notes.extend(tool::lint(path, &tool));
        if [ACTIVATE_SKILL, READ_SKILL_FILE].contains(&name.as_str()) {
            found.problems.push(Problem::of(
                path,
                format!("name: {name:?} is a tool of this program"),
            ));
        }
        if tools.insert(name.clone(), tool).is_some() {
            found.problems.push(Problem::of(
                path,
                format!("name: another tool is called {name:?} too"),
            ));
        }
    }
    tools
}

/// Checks every mention of a tool. A tool that does not exist permits nothing, so a skill that names one is only warned of.
pub(super) fn check(
    tools: &Tools,
    named: &[Named],
    mentions: &[Mention],
    skills: &BTreeMap<String, Skill>,
    found: &mut Findings,
) {
    for Named { line, tool } in named {
        if !tools.contains_key(tool) {
            found.problems.push(Problem::at(
                "harness.toml",
                *line,
                format!("tools: there is no tool {tool:?}"),
            ));
        }
    }
    for mention in mentions {
        let Mention {
            path,
            line,
            field,
            tool,
        } = mention;
        let (bare, limited) = tool
            .split_once('(')
            .map_or((tool.as_str(), false), |(bare, _)| (bare, true));
        match tools.contains_key(bare) {
            true if limited => {
                let reason = format!(
                    "{field}: {tool:?} permits a part of a tool, which cannot be kept; name all of it or none"
                );
                found
                    .problems
                    .push(Problem::at(path.as_str(), *line, reason));
            }
            false => {
                let list = if *field == "allowed-tools" {
                    &mut found.warnings
                } else {
                    &mut found.problems
                };
                list.push(Problem::at(
                    path.as_str(),
                    *line,
                    format!("{field}: there is no tool {bare:?}"),
                ));
            }
            true => {}
        }
    }
    for skill in skills.values() {
        actions(tools, skill, mentions, found);
    }
    for name in tools.keys() {
        let offered = named.iter().any(|named| named.tool == *name)
            || mentions.iter().any(|mention| mention.tool == *name);
        if !offered {
            let reason = format!(
                "no skill allows {name:?} and harness.toml does not name it, so nothing can call it"
            );
            found
                .notes
                .push(Problem::of(format!("{FOLDER}/{name}.json"), reason));
        }
    }
}

/// What a skill sends to the front end must be an action, with arguments that fit.
fn actions(tools: &Tools, skill: &Skill, mentions: &[Mention], found: &mut Findings) {
    let line = mentions
        .iter()
        .find(|mention| mention.path == skill.path && mention.field == ACTIONS)
        .map(|mention| mention.line);
    for action in &skill.actions {
        let Some(tool) = tools.get(&action.tool) else {
            continue;
        };
        let reason = match (&tool.kind, tool.input.check(&action.args)) {
            (Kind::Action, Ok(())) => continue,
            (Kind::Action, Err(fault)) => fault.to_string(),
            _ => "is no tool of kind action".to_owned(),
        };
        let reason = format!("metadata.{ACTIONS}: {}: {reason}", action.tool);
        found.problems.push(Problem {
            path: skill.path.clone(),
            line,
            reason,
        });
    }
}

/// The field of a skill's fixed actions.
pub(super) const ACTIONS: &str = "avatar/actions";
