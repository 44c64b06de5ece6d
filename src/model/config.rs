//! Which model is served and how much of the machine it may use.

use std::path::PathBuf;

use serde::Deserialize;

use super::quantise::Quantise;

/// Settings of the model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The id of a manifest, or the path of a GGUF file or of a folder with safetensors.
    pub model: String,
    /// The folder of manifests, one TOML file a model.
    pub manifests: PathBuf,
    /// Where fetched models are kept; the default is the user's cache folder.
    pub cache_dir: Option<PathBuf>,
    /// Compute threads, the engine's own included; the default is every core.
    pub threads: Option<usize>,
    /// Memory for keys and values, in units of 2^20 bytes. Pages that were never written cost nothing.
    pub kv_cache_mb: usize,
    /// Most tokens of one sequence; the default is the model's own context.
    pub max_context: Option<usize>,
    /// What matrices of floats become when they are loaded; the default is what the manifest says, else nothing else.
    pub quantise: Option<Quantise>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model: "smollm2-135m-instruct".to_owned(),
            manifests: PathBuf::from("models"),
            cache_dir: None,
            threads: None,
            kv_cache_mb: 512,
            max_context: None,
            quantise: None,
        }
    }
}
