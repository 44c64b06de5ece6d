//! Small harnesses for tests.

use std::fs;
use std::path::Path;

use super::Source;

/// A valid harness whose persona says `text`.
pub(super) fn source(text: &str) -> Source {
    let mut source = Source::default();
    for (path, content) in files(text) {
        source.insert(path, content.into_bytes());
    }
    source
}

/// The same as files.
pub(super) fn files(text: &str) -> Vec<(&'static str, String)> {
    vec![
        (
            "harness.toml",
            "language = \"en\"\nemotions = [\"happy\"]\n".to_owned(),
        ),
        ("prompts/persona.txt", format!("You are {text}.\n")),
        (
            "skills/size-help/SKILL.md",
            "---\nname: size-help\ndescription: Helps with sizes.\n---\nSay what fits.\n"
                .to_owned(),
        ),
    ]
}

/// Writes the files below `dir`.
pub(super) fn write(dir: &Path, text: &str) {
    for (path, content) in files(text) {
        put(&dir.join(path), &content);
    }
}

/// Writes one file, and the folders above it.
pub(super) fn put(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("folder");
    fs::write(path, content).expect("file");
}
