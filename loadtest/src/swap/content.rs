//! Harnesses of a given size, and edits of them.

use std::fs;
use std::io;
use std::path::Path;

/// What one skill says about its topic; with its heading about 40 tokens.
const BODY: &str = "Answer in one short sentence. Name the figure that the facts give, and its unit. \
                    Where the facts say nothing, say that you will find out.";

/// Writes the harness `live-room` with so many skills under `directory`. `inline` of them are in every prompt.
pub(super) fn write(directory: &Path, skills: usize, inline: usize) -> io::Result<()> {
    let room = directory.join("live-room");
    put(
        &room.join("harness.toml"),
        "language = \"en\"\nfallback = \"Let me check that.\"\n",
    )?;
    let persona = "You are the host of a live shopping stream. You answer viewers' questions about a product in one \
                   short sentence.\n";
    put(&room.join("prompts/persona.txt"), persona)?;
    (0..skills).try_for_each(|n| edit(directory, n, n < inline, 0))
}

/// Writes skill `n` anew, so that the harness's version is another for each `round`.
pub(super) fn edit(directory: &Path, n: usize, inline: bool, round: usize) -> io::Result<()> {
    let name = format!("topic-{n:04}");
    let text = format!(
        "---\nname: {name}\ndescription: Answers questions about topic {n}.\nmetadata:\n  avatar/inline: \"{inline}\"\n\
         ---\n## Topic {n}, revision {round}\n\n{BODY}\n"
    );
    put(
        &directory.join(format!("live-room/skills/{name}/SKILL.md")),
        &text,
    )
}

/// Saves a file whole: readers find the old text or the new.
fn put(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let new = folder.join(".new");
    fs::write(&new, text)?;
    fs::rename(new, path)
}

/// Adds hooks as a live room has them: words that may not be said, prices that must be known, numbers read aloud.
pub(super) fn add_hooks(directory: &Path) -> io::Result<()> {
    let room = directory.join("live-room");
    put(
        &room.join("lists/claims.txt"),
        "miracle\nrisk free\nguaranteed cure\n",
    )?;
    for (name, order, rule) in [
        (
            "claims",
            10,
            "kind = \"words\"\nlists = [\"claims\"]\naction = \"block\"\n",
        ),
        (
            "price-guard",
            20,
            "kind = \"price_guard\"\naction = \"block\"\n",
        ),
        ("read-aloud", 90, "kind = \"read_aloud\"\n"),
    ] {
        let text = format!("point = \"pre_segment\"\norder = {order}\n\n[[rule]]\n{rule}");
        put(&room.join(format!("hooks/{name}/hook.toml")), &text)?;
    }
    let rule = "point = \"on_request\"\n\n[[rule]]\nkind = \"regex\"\npattern = '(?i)\\bignore\\b.{0,30}\\brules\\b'\n";
    put(&room.join("hooks/orders/hook.toml"), rule)
}
