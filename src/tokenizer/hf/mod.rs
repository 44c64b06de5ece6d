//! Reads Hugging Face's `tokenizer.json` and `tokenizer_config.json`. What this tokenizer does not do exactly as they
//! say is refused by its place in the file.

mod config;

pub use config::HfConfig;

use super::{TokenizerError, TokenizerParts};

impl TokenizerParts {
    /// Reads a `tokenizer.json`. What ends a text or begins one is in another file, see [`HfConfig::apply`].
    ///
    /// # Errors
    /// Names the place in the JSON that is missing, wrong or not supported.
    pub fn from_hf_json(json: &[u8]) -> Result<Self, TokenizerError> {
        let _ = json;
        Err(TokenizerError::at("model", "is not supported yet"))
    }
}
