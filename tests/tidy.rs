//! Rules of the tree that no compiler checks: who imports whom, confined crates, grain of files, a purpose on each.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What each module may use of ours. What is absent is forbidden.
const IMPORTS: &[(&str, &[&str])] = &[
    ("main", &["cli", "commands", "config", "telemetry"]),
    ("lib", &[]),
    ("cli", &[]),
    (
        "commands",
        &[
            "app",
            "cli",
            "config",
            "engine",
            "harness",
            "http",
            "model",
            "shutdown",
            "telemetry",
            "template",
            "tokenizer",
            "tools",
            "turn",
        ],
    ),
    (
        "app",
        &[
            "activate",
            "config",
            "engine",
            "harness",
            "http",
            "model",
            "shutdown",
            "telemetry",
            "template",
            "tokenizer",
            "tools",
            "turn",
        ],
    ),
    (
        "config",
        &[
            "cli",
            "engine",
            "harness",
            "http",
            "model",
            "telemetry",
            "tools",
            "turn",
        ],
    ),
    (
        "http",
        &["turn", "harness", "engine", "telemetry", "shutdown"],
    ),
    (
        "turn",
        &[
            "engine",
            "harness",
            "template",
            "telemetry",
            "tokenizer",
            "tools",
        ],
    ),
    ("activate", &["harness", "engine", "template", "telemetry"]),
    ("tools", &["harness", "telemetry"]),
    ("harness", &["telemetry"]),
    ("template", &["tokenizer"]),
    ("engine", &["tokenizer", "telemetry"]),
    ("model", &["engine", "tokenizer"]),
    ("tokenizer", &[]),
    ("telemetry", &[]),
    ("shutdown", &[]),
];

/// Crates that only some modules may name (a path prefix under src/, without `.rs`).
const CONFINED: &[(&str, &[&str])] = &[
    ("axum", &["http"]),
    ("hyper", &["http"]),
    ("hyper_util", &["http"]),
    ("tower", &["http"]),
    ("minijinja", &["template", "harness/prompt"]),
    ("notify", &["harness/watch"]),
    ("rhai", &["harness/hook", "turn/hooks"]),
    ("jsonschema", &["harness/tool"]),
    ("llguidance", &["engine/paged/grammar"]),
    ("reqwest", &["tools/http"]),
    ("rmcp", &["tools/mcp"]),
    ("minijinja_contrib", &["template"]),
    ("prometheus", &["telemetry"]),
    ("hdrhistogram", &["telemetry"]),
    ("hf_hub", &["model/fetch"]),
    ("compere_cpu", &["model"]),
    ("clap", &["cli", "main"]),
    ("toml", &["config", "harness", "model/spec"]),
    ("unicode_properties", &["tokenizer", "turn", "http/wire"]),
    ("unicode_normalization", &["tokenizer", "harness", "turn"]),
];

/// Words that only the configuration may say: nobody else reads the environment.
const ENVIRONMENT: &str = "std::env";
const LINES: usize = 500;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("readable entry").path())
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                rust_files(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Relative path and text of every Rust file under the given folders.
fn sources(folders: &[&str]) -> BTreeMap<String, String> {
    let mut paths = Vec::new();
    for folder in folders {
        rust_files(&root().join(folder), &mut paths);
    }
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).expect("readable source");
            (
                path.strip_prefix(root())
                    .expect("inside the tree")
                    .display()
                    .to_string(),
                text,
            )
        })
        .collect()
}

/// Whether the file is built for tests only.
fn is_test(path: &str) -> bool {
    path.contains("tests") || path.contains("testing") || path.contains("scripted")
}

/// The path under src/ without `.rs`, such as `engine/paged/step`; `None` for the kernel crate.
fn module_path(file: &str) -> Option<&str> {
    let path = file.strip_prefix("src/")?.strip_suffix(".rs")?;
    (!path.starts_with("model/cpu/")).then_some(path)
}

/// What is built into the program: the text up to an inline module of tests.
fn shipped(text: &str) -> &str {
    const TESTS: &str = "#[cfg(test)]\nmod ";
    let inline = text.match_indices(TESTS).find(|(at, _)| {
        text[at + TESTS.len()..]
            .lines()
            .next()
            .is_some_and(|line| line.ends_with('{'))
    });
    inline.map_or(text, |(at, _)| &text[..at])
}

/// Code without comments (string contents stay: a crate is not named in one by accident).
fn code(text: &str) -> String {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Whether `code` names `word` as a whole path segment followed by `::`, or in a `use`.
fn names(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = &code[at + word.len()..];
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '.' || c == '"')
            && after.starts_with("::")
    })
}

/// Our modules that `code` refers to through `crate::`, also in `use crate::{a, b::c}`.
fn uses(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        if code[..at]
            .chars()
            .next_back()
            .is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$')
        {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        let names: Vec<&str> = match rest.strip_prefix('{') {
            Some(group) => top_level_names(group),
            None => vec![rest],
        };
        for name in names {
            let name: String = name
                .trim()
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            found.push(name);
        }
    }
    found
}

fn top_level_names(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut names) = (0usize, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                names.push(&group[start..at]);
                return names;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    names
}

#[test]
fn modules_import_only_what_the_table_allows() {
    let mut wrong = Vec::new();
    for (file, text) in sources(&["src"]) {
        let Some(path) = module_path(&file) else {
            continue;
        };
        let module = path.split('/').next().unwrap_or(path);
        let Some((_, allowed)) = IMPORTS.iter().find(|(name, _)| *name == module) else {
            wrong.push(format!("{file}: module {module} is not in the table"));
            continue;
        };
        // Tests inside a module may build its neighbours' types.
        let text = code(shipped(&text));
        if is_test(path) {
            continue;
        }
        for used in uses(&text) {
            let ours = IMPORTS.iter().any(|(name, _)| *name == used);
            if ours && used != module && !allowed.contains(&used.as_str()) {
                wrong.push(format!("{file}: {module} may not use {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_model_sees_of_the_engine_only_its_border() {
    for (file, text) in sources(&["src/model"]) {
        if module_path(&file).is_none() || is_test(&file) {
            continue;
        }
        let text = code(shipped(&text));
        for (at, _) in text.match_indices("engine::") {
            let rest = &text[at..];
            let ok = [
                "engine::paged::runner",
                "engine::paged::batch",
                "engine::paged::{batch",
                "engine::paged::{runner",
            ];
            assert!(
                ok.iter().any(|path| rest.starts_with(path)),
                "{file}: model may use only engine::paged::{{runner, batch}}"
            );
        }
    }
}

#[test]
fn confined_crates_stay_where_they_belong() {
    let mut wrong = Vec::new();
    for (file, text) in sources(&["src"]) {
        let Some(path) = module_path(&file) else {
            continue;
        };
        if is_test(path) {
            continue;
        }
        let text = code(shipped(&text));
        for (word, homes) in CONFINED {
            let home = homes
                .iter()
                .any(|home| path == *home || path.starts_with(&format!("{home}/")));
            if !home && names(&text, word) {
                wrong.push(format!("{file}: {word} belongs to {}", homes.join(", ")));
            }
        }
        if path != "config" && text.contains(ENVIRONMENT) {
            wrong.push(format!("{file}: only config reads the environment"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unsafe_code_lives_in_the_kernel_crate_and_says_why_it_is_sound() {
    let mut wrong = Vec::new();
    for (file, text) in sources(&["src/model/cpu"]) {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let opens = line.contains("unsafe {") || line.trim_start().starts_with("unsafe impl");
            let explained = lines[index.saturating_sub(6)..=index]
                .iter()
                .any(|line| line.contains("SAFETY"));
            if opens && !explained {
                wrong.push(format!(
                    "{file}:{}: an unsafe block without its SAFETY reason",
                    index + 1
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_say_what_they_are_and_stay_small() {
    let mut wrong = Vec::new();
    for (file, text) in sources(&["src", "loadtest", "tests"]) {
        if !text.starts_with("//!") {
            wrong.push(format!("{file}: begins without a //! line of purpose"));
        }
        let lines = text.lines().count();
        if lines > LINES {
            wrong.push(format!("{file}: {lines} lines, at most {LINES}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_top_level_holds_only_what_belongs_there() {
    const FOLDERS: &[&str] = &[
        "src", "harness", "models", "proto", "deploy", "loadtest", "tests", "docs", "fuzz",
    ];
    for entry in fs::read_dir(root()).expect("readable root") {
        let entry = entry.expect("readable entry");
        let name = entry.file_name().display().to_string();
        let is_dir = entry.file_type().expect("a type").is_dir();
        let ignored = name.starts_with('.') || name == "target";
        assert!(
            !is_dir || ignored || FOLDERS.contains(&name.as_str()),
            "{name}/ is no folder of this tree"
        );
    }
}
