//! What a folder's model is, in lines for people. Never fails: what cannot be read is shown with its fault.

use super::SafetensorsModel;
use crate::model::gguf::describe::{bytes, line, model, printable, template_text};
use crate::tokenizer::TokenId;

/// Files that are listed.
const FILES: usize = 8;

/// Describes a model: files, architecture, sizes, storage, tokenizer and chat template, one fact a line.
#[must_use]
pub fn describe(checkpoint: &SafetensorsModel) -> String {
    let mut out = String::new();
    let files = &checkpoint.shards.files;
    for file in files.iter().take(FILES) {
        let shown = format!(
            "{} ({}, safetensors)",
            file.path().display(),
            bytes(file.size())
        );
        line(&mut out, "file", &shown);
    }
    if files.len() > FILES {
        let more = files[FILES..].iter();
        let size = more.fold(0_u64, |sum, file| sum.saturating_add(file.size()));
        let shown = format!("and {} more ({})", files.len() - FILES, bytes(size));
        line(&mut out, "file", &shown);
    }
    model(&mut out, checkpoint);
    let (parts, template) = match checkpoint.vocabulary() {
        Ok(found) => found,
        Err(error) => {
            line(&mut out, "tokenizer", &printable(&error.to_string()));
            return out;
        }
    };
    let shown = format!(
        "{}, words by {}, {} tokens, {} merges",
        printable(&parts.model),
        printable(&parts.pre),
        parts.tokens.len(),
        parts.merges.len()
    );
    line(&mut out, "tokenizer", &shown);
    let token = |id: TokenId| match parts.tokens.get(id as usize) {
        Some(spelling) => format!("{id} {}", printable(spelling)),
        None => id.to_string(),
    };
    let begins = parts.bos.map_or_else(|| "not stated".to_owned(), token);
    line(&mut out, "begins a text", &begins);
    for id in parts.eos.iter().chain(&parts.ends) {
        line(&mut out, "ends a turn", &token(*id));
    }
    match template {
        Some(source) => template_text(&mut out, &source),
        None => line(&mut out, "chat template", "not stated"),
    }
    out
}
