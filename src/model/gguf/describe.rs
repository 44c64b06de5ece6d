//! What a model file is, in lines for people. Never fails: what a file does not say, or says strangely, is shown so.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Array, GgufFile, Metadata, TensorKind, Value};
use crate::model::checkpoint::Checkpoint;

/// Lines of the chat template that are shown.
const TEMPLATE_LINES: usize = 6;
/// Characters of a line that are shown.
const LINE_SHOWN: usize = 100;
/// Sizes of the model, under its architecture's name.
const SIZES: [(&str, &str); 13] = [
    ("context", "context_length"),
    ("layers", "block_count"),
    ("width", "embedding_length"),
    ("feed-forward", "feed_forward_length"),
    ("heads", "attention.head_count"),
    ("key/value heads", "attention.head_count_kv"),
    ("head size", "attention.key_length"),
    ("norm epsilon", "attention.layer_norm_rms_epsilon"),
    ("rope base", "rope.freq_base"),
    ("rope scaling", "rope.scaling.type"),
    ("scaled by", "rope.scaling.factor"),
    ("scaled from", "rope.scaling.original_context_length"),
    ("sliding window", "attention.sliding_window"),
];

/// Describes a file: architecture, sizes, storage, tokenizer and chat template, one fact a line.
#[must_use]
pub fn describe(file: &GgufFile) -> String {
    let mut out = String::new();
    let version = file.version();
    line(
        &mut out,
        "file",
        &format!(
            "{} ({}, GGUF {version})",
            file.path().display(),
            bytes(file.size())
        ),
    );
    parts(&mut out, file);
    model(&mut out, file);
    tokenizer(&mut out, file);
    template(&mut out, file);
    out
}

/// Describes what does not depend on the format: name, architecture, sizes, storage.
pub(crate) fn model(out: &mut String, file: &dyn Checkpoint) {
    line(out, "name", &stated(file.metadata(), "general.name"));
    line(out, "license", &stated(file.metadata(), "general.license"));
    line(
        out,
        "architecture",
        &stated(file.metadata(), "general.architecture"),
    );
    if let Ok(Some(architecture)) = file.metadata().opt_str("general.architecture") {
        for (label, key) in SIZES {
            let key = format!("{architecture}.{key}");
            if file.metadata().get(&key).is_some() {
                line(out, label, &stated(file.metadata(), &key));
            }
        }
    }
    weights(out, file);
}

/// The files of a model that has several.
fn parts(out: &mut String, file: &GgufFile) {
    let parts = file.parts();
    if parts.len() == 1 {
        return;
    }
    line(out, "parts", &parts.len().to_string());
    for (path, size, tensors) in parts {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let _ = writeln!(
            out,
            "    {}, {}, {tensors} tensors",
            printable(&name),
            bytes(size)
        );
    }
}

fn weights(out: &mut String, file: &dyn Checkpoint) {
    let mut elements = 0_u64;
    let mut stored: BTreeMap<TensorKind, u64> = BTreeMap::new();
    for tensor in file.tensors() {
        elements = elements.saturating_add(tensor.elements());
        *stored.entry(tensor.kind).or_default() += tensor.bytes;
    }
    line(
        out,
        "parameters",
        &format!("{} in {} tensors", count(elements), file.tensors().len()),
    );
    let total = stored.values().sum::<u64>().max(1);
    let mut kinds: Vec<_> = stored.into_iter().collect();
    kinds.sort_by_key(|(kind, bytes)| (std::cmp::Reverse(*bytes), *kind));
    for (kind, stored) in kinds {
        let share = stored as f64 * 100.0 / total as f64;
        line(
            out,
            "stored as",
            &format!("{kind:<5} {:>9}, {share:.1} %", bytes(stored)),
        );
    }
}

fn tokenizer(out: &mut String, file: &GgufFile) {
    let model = stated(file.metadata(), "tokenizer.ggml.model");
    let pre = stated(file.metadata(), "tokenizer.ggml.pre");
    let tokens = entries(file, "tokenizer.ggml.tokens");
    let merges = entries(file, "tokenizer.ggml.merges");
    line(
        out,
        "tokenizer",
        &format!("{model}, words by {pre}, {tokens} tokens, {merges} merges"),
    );
    for (label, key) in [
        ("begins a text", "tokenizer.ggml.bos_token_id"),
        ("ends a turn", "tokenizer.ggml.eos_token_id"),
    ] {
        line(out, label, &special(file, key));
    }
}

/// A special token's id and spelling.
fn special(file: &GgufFile, key: &str) -> String {
    let id = stated(file.metadata(), key);
    let tokens = file
        .metadata()
        .opt_strings("tokenizer.ggml.tokens")
        .ok()
        .flatten();
    let index = id.parse().ok();
    match tokens
        .zip(index)
        .and_then(|(tokens, index)| tokens.get(index))
    {
        Some(spelling) => format!("{id} {}", printable(spelling)),
        None => id,
    }
}

fn template(out: &mut String, file: &GgufFile) {
    const KEY: &str = "tokenizer.chat_template";
    let Ok(Some(source)) = file.metadata().opt_str(KEY) else {
        line(out, "chat template", &stated(file.metadata(), KEY));
        return;
    };
    template_text(out, source);
}

/// Describes a chat template: how long it is, and how it begins.
pub(crate) fn template_text(out: &mut String, source: &str) {
    let lines = source.lines().count();
    line(
        out,
        "chat template",
        &format!("{lines} lines, {} characters", source.chars().count()),
    );
    for text in source.lines().take(TEMPLATE_LINES) {
        let _ = writeln!(out, "    {}", printable(text));
    }
    if lines > TEMPLATE_LINES {
        let _ = writeln!(out, "    ... and {} lines more", lines - TEMPLATE_LINES);
    }
}

/// Adds a line.
pub(crate) fn line(out: &mut String, label: &str, text: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "{:<17}{text}", format!("{label}:"));
}

/// A key's value whatever its type.
fn stated(metadata: &Metadata, key: &str) -> String {
    match metadata.get(key) {
        None => "not stated".to_owned(),
        Some(value) => shown(value),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => printable(text),
        Value::F32(value) => value.to_string(),
        Value::F64(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Array(array) => format!("{} of {} entries", value.kind(), array.len()),
        other => other
            .integer()
            .map_or_else(|| other.kind(), |value| value.to_string()),
    }
}

fn entries(file: &GgufFile, key: &str) -> usize {
    match file.metadata().get(key) {
        Some(Value::Array(array)) => Array::len(array),
        _ => 0,
    }
}

/// The file's text on one line of a terminal, which must not obey it.
pub(crate) fn printable(text: &str) -> String {
    let escape = |char: char| -> Box<dyn Iterator<Item = char>> {
        if char.is_control() {
            Box::new(char.escape_default())
        } else {
            Box::new(std::iter::once(char))
        }
    };
    let mut out: String = text.chars().take(LINE_SHOWN).flat_map(escape).collect();
    if text.chars().nth(LINE_SHOWN).is_some() {
        out.push_str("...");
    }
    out
}

/// A size for people.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..1_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.2} GB", count as f64 / 1e9),
    }
}

fn count(elements: u64) -> String {
    match elements {
        0..1_000_000 => elements.to_string(),
        1_000_000..1_000_000_000 => format!("{:.1} million", elements as f64 / 1e6),
        _ => format!("{:.2} billion", elements as f64 / 1e9),
    }
}
