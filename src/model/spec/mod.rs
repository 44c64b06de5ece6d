//! Manifests: what models there are, and where their files come from. One TOML file per model, named by its id.

mod source;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

pub use source::{Artifact, Sha256, Source};

use super::quantise::Quantise;

/// A model that can be fetched and served.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Name on the command line and in the interface; the manifest's file has it too.
    pub id: String,
    /// A line for people.
    pub description: String,
    /// SPDX expression.
    pub license: String,
    /// The decoder's shape, as GGUF names it: `llama`, `qwen2`, `qwen3`.
    pub architecture: String,
    /// Longest context in tokens that the model was trained for.
    pub context: u32,
    /// Used instead of the chat template in the model's file.
    pub chat_template: Option<String>,
    /// What matrices of floats become when they are loaded; nothing else where this is not stated.
    pub quantise: Option<Quantise>,
    /// Where the file comes from.
    pub source: Source,
}

/// What a model was asked for by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    /// An id that has a manifest.
    Known(Box<Manifest>),
    /// A file or folder on this machine; it may not exist.
    File(PathBuf),
}

/// A manifest that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A file or folder cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not TOML or has a key missing, unknown or of another type.
    #[error("{}: line {line}: {reason}", path.display())]
    Syntax {
        /// The manifest.
        path: PathBuf,
        /// 1-based; of the table's start where a key inside a table is at fault.
        line: usize,
        /// Names the key.
        reason: String,
    },
    /// A value is not possible.
    #[error("{}: {field}: {reason}", path.display())]
    Value {
        /// The manifest.
        path: PathBuf,
        /// The key at fault.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no such model.
    #[error("no model `{id}` in {}; {}", folder.display(), existing(known))]
    Unknown {
        /// What was asked for, made printable.
        id: String,
        /// Where the manifests are.
        folder: PathBuf,
        /// Those that exist.
        known: Vec<String>,
    },
}

fn existing(known: &[String]) -> String {
    if known.is_empty() {
        return "there are no manifests".to_owned();
    }
    format!("there are: {}", known.join(", "))
}

impl Manifest {
    /// Reads and checks a manifest. A relative path of a `file` source is taken from the manifest's folder.
    ///
    /// # Errors
    /// Names the file, and the line or the key.
    pub fn load(path: &Path) -> Result<Self, ManifestError> {
        let text = fs::read_to_string(path).map_err(|source| ManifestError::Io {
            path: path.to_owned(),
            source,
        })?;
        let mut manifest: Self =
            toml::from_str(&text).map_err(|error| syntax(path, &text, &error))?;
        manifest.check(path)?;
        if let Source::File { path: file, .. } = &mut manifest.source
            && let Some(folder) = path.parent()
        {
            *file = folder.join(&*file);
        }
        Ok(manifest)
    }

    fn check(&self, path: &Path) -> Result<(), ManifestError> {
        let wrong = |field: &str, reason: String| ManifestError::Value {
            path: path.to_owned(),
            field: field.to_owned(),
            reason,
        };
        if !is_id(&self.id) {
            let reason = format!(
                "{:?} is not made of lower-case letters, digits, `.`, `_` and `-`",
                self.id
            );
            return Err(wrong("id", reason));
        }
        if path.file_stem().is_none_or(|stem| stem != self.id.as_str()) {
            return Err(wrong(
                "id",
                format!("`{}` is not the name of the file", self.id),
            ));
        }
        for (field, text) in [
            ("description", &self.description),
            ("license", &self.license),
            ("architecture", &self.architecture),
        ] {
            if text.trim().is_empty() {
                return Err(wrong(field, "is empty".to_owned()));
            }
        }
        if self.context == 0 {
            return Err(wrong("context", "is zero".to_owned()));
        }
        self.source
            .check()
            .map_err(|(field, reason)| wrong(&field, reason))
    }
}

/// The manifest of the model `id`.
///
/// # Errors
/// The manifest is broken, or there is none; the message then lists those that exist.
pub fn find(folder: &Path, id: &str) -> Result<Manifest, ManifestError> {
    let path = folder.join(format!("{id}.toml"));
    if is_id(id) && path.is_file() {
        return Manifest::load(&path);
    }
    Err(ManifestError::Unknown {
        id: id.escape_debug().to_string(),
        folder: folder.to_owned(),
        known: ids(folder)?,
    })
}

/// Ids of all models that have a manifest, in order.
///
/// # Errors
/// The folder cannot be read.
pub fn ids(folder: &Path) -> Result<Vec<String>, ManifestError> {
    let io = |source| ManifestError::Io {
        path: folder.to_owned(),
        source,
    };
    let mut ids = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            ids.extend(
                path.file_stem()
                    .map(|stem| stem.to_string_lossy().into_owned()),
            );
        }
    }
    ids.sort();
    Ok(ids)
}

/// What `text` on a command line means: a path if it looks like one (a separator, a `.gguf` or `.safetensors` ending) or
/// is an existing file or the folder of a model, else the id of a model.
///
/// # Errors
/// As [`find`].
pub fn resolve(folder: &Path, text: &str) -> Result<Located, ManifestError> {
    let path = Path::new(text);
    let ending = path.extension().is_some_and(|extension| {
        ["gguf", "safetensors"]
            .iter()
            .any(|known| extension.eq_ignore_ascii_case(known))
    });
    let exists = path.is_file() || path.join("config.json").is_file();
    if ending || exists || text.contains(std::path::MAIN_SEPARATOR) {
        return Ok(Located::File(path.to_owned()));
    }
    find(folder, text).map(|manifest| Located::Known(Box::new(manifest)))
}

fn is_id(text: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    !text.is_empty() && !text.starts_with('.') && text.bytes().all(allowed)
}

/// Names the line, by number and text, since the parser's message may not name the key.
fn syntax(path: &Path, text: &str, error: &toml::de::Error) -> ManifestError {
    let at = error.span().map_or(0, |span| span.start);
    let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let shown = text.lines().nth(line).unwrap_or_default().trim();
    ManifestError::Syntax {
        path: path.to_owned(),
        line: line + 1,
        reason: format!("{} in `{shown}`", error.message()),
    }
}
