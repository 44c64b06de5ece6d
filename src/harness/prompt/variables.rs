//! Which values a prompt may place. The system prompt is shared by every turn, so only what the harness itself holds may
//! stand in it: one value of the moment in it, and no two turns share their first tokens.

use minijinja::Environment;
use serde_json::{Value, json};

use super::subset::Tokens;
use super::{EXTENSION, Problem, Prompts, path};

/// Prompts that are part of the system prompt.
const ABOVE: [&str; 3] = ["system", "skills", "tools"];
/// What those may place.
const STABLE: [&str; 6] = [
    "language",
    "emotions",
    "gestures",
    "skills",
    "tools",
    "max_rounds",
];
/// Prompts of one turn.
const BELOW: [&str; 6] = [
    "room",
    "comments",
    "idle",
    "product_switch",
    "gift",
    "operator",
];
/// What those may place beside the stable values.
const TURN: [&str; 9] = [
    "product",
    "facts",
    "promotions",
    "comments",
    "history",
    "reason",
    "max_chars",
    "fallback",
    "spoken",
];
/// What the engine itself provides.
const LOOP: &str = "loop";

/// Complains of every variable that the prompt will not have.
pub(super) fn check(
    env: &Environment<'_>,
    file: &str,
    tokens: &Tokens,
    problems: &mut Vec<Problem>,
) {
    let Ok(template) = env.get_template(file) else {
        return;
    };
    let name = file.strip_suffix(EXTENSION).unwrap_or(file);
    let above = ABOVE.contains(&name);
    let mut missing: Vec<String> = template.undeclared_variables(false).into_iter().collect();
    missing.sort();
    for variable in missing {
        let stable = STABLE.contains(&variable.as_str());
        let turn = TURN.contains(&variable.as_str());
        if stable || (turn && !above) || variable == LOOP {
            continue;
        }
        let reason = if turn {
            format!(
                "{variable} changes from turn to turn; place it in prompts/room.jinja, below what turns share"
            )
        } else {
            let known = if above {
                STABLE.join(", ")
            } else {
                [&STABLE[..], &TURN].concat().join(", ")
            };
            format!("{variable} is no value that this prompt has; there are {known}")
        };
        let line = tokens
            .names
            .iter()
            .find(|(_, other)| *other == variable)
            .map(|(line, _)| *line);
        problems.push(Problem {
            path: path(file),
            line,
            reason,
        });
    }
}

/// Renders the turns' prompts once with everything and once with nothing: what fails on air fails here.
pub(super) fn try_out(prompts: &Prompts, problems: &mut Vec<Problem>) {
    for name in BELOW {
        for context in [full(), bare()] {
            if let Err(error) = prompts.render(name, context) {
                problems.push(error.0);
            }
        }
    }
}

fn full() -> Value {
    json!({
        "language": "en", "emotions": ["happy"], "gestures": ["wave"], "max_rounds": 4,
        "skills": [{"name": "size-help", "description": "Sizes."}],
        "tools": [{"name": "stock", "description": "Stock.", "input_schema": {"type": "object"}}],
        "product": {"id": "p1", "name": "Jacket", "aliases": ["coat"]},
        "facts": {"price": 59, "colours": ["red", "blue"]},
        "promotions": ["two for one", {"code": "A", "off": 5}],
        "comments": [{"nickname": "Ann", "text": "is it waterproof?", "level": 3}],
        "history": [{"role": "user", "text": "hi"}],
        "reason": "quiet", "max_chars": 120, "fallback": "One moment.", "spoken": "Welcome.",
    })
}

/// A turn about which nothing is known: every value is there, and empty.
fn bare() -> Value {
    json!({
        "language": "", "emotions": [], "gestures": [], "max_rounds": 4, "skills": [], "tools": [],
        "product": {"id": "", "name": "", "aliases": []}, "facts": {}, "promotions": [], "comments": [],
        "history": [], "reason": "", "max_chars": 120, "fallback": "", "spoken": "",
    })
}
