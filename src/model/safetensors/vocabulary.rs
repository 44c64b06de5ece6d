//! What lies beside the weights and the configuration: tokens, the ids that end a turn, the chat template.

use std::path::Path;

use super::json::{self, Document};
use super::{MAX_CONFIG, SafetensorsModel};
use crate::model::checkpoint::Checkpoint;
use crate::model::gguf::{Fault, ModelFileError};
use crate::tokenizer::{HfConfig, TokenizerError, TokenizerParts};

/// Largest `tokenizer.json` in bytes; vocabularies of 260,000 tokens take half.
const MAX_TOKENIZER: u64 = 64 << 20;
/// Largest `tokenizer_config.json` in bytes.
const MAX_TOKENIZER_CONFIG: u64 = 4 << 20;
/// Kinds of tokens that are not ordinary text: control and user defined.
const ADDED: [i32; 2] = [3, 4];
/// Largest chat template in bytes.
const MAX_TEMPLATE: u64 = 1 << 20;

impl SafetensorsModel {
    /// The vocabulary, and the chat template in Jinja where there is one: `chat_template.jinja`, else the one in
    /// `tokenizer_config.json`. A turn ends with the ids of `generation_config.json`, else with those of `config.json`,
    /// and with the token that `tokenizer_config.json` names.
    ///
    /// # Errors
    /// Names the file and the field that is missing, wrong or not supported.
    pub fn vocabulary(&self) -> Result<(TokenizerParts, Option<String>), ModelFileError> {
        let path = self.folder.join("tokenizer.json");
        let Some(bytes) = json::read(&path, MAX_TOKENIZER)? else {
            return Err(missing_tokenizer(&self.folder, &path));
        };
        let mut parts =
            TokenizerParts::from_hf_json(&bytes).map_err(|error| told(&path, &error))?;
        drop(bytes);
        let path = self.folder.join("tokenizer_config.json");
        let mut template = None;
        if let Some(bytes) = json::read(&path, MAX_TOKENIZER_CONFIG)? {
            let config = HfConfig::parse(&bytes).map_err(|error| told(&path, &error))?;
            config
                .apply(&mut parts)
                .map_err(|error| told(&path, &error))?;
            template = config.chat_template;
        }
        if let Some(bytes) = json::read(&self.folder.join("chat_template.jinja"), MAX_TEMPLATE)? {
            let path = self.folder.join("chat_template.jinja");
            let text = String::from_utf8(bytes).map_err(|error| {
                let reason = format!("not UTF-8: {}", error.utf8_error());
                ModelFileError::new(&path, "template", Fault::Invalid(reason))
            })?;
            template = Some(text);
        }
        self.drop_rowless(&mut parts);
        self.ends(&mut parts)?;
        Ok((parts, template))
    }

    /// Drops added tokens behind the embedding's last row, such as an image mark beside a text model: nothing may become
    /// an id that the model cannot read. Ordinary tokens there are left, to be refused.
    fn drop_rowless(&self, parts: &mut TokenizerParts) {
        let Some(tensor) = self.tensor("token_embd.weight") else {
            return;
        };
        let rows = tensor.dims.last().map_or(0, |rows| *rows as usize);
        let Some(behind) = parts.kinds.get(rows..) else {
            return;
        };
        if behind.is_empty() || behind.iter().any(|kind| !ADDED.contains(kind)) {
            return;
        }
        let dropped = &parts.tokens[rows..];
        tracing::warn!(folder = %self.folder.display(), ?dropped, "the model has no rows for these added tokens");
        parts.tokens.truncate(rows);
        parts.kinds.truncate(rows);
        parts.scores.truncate(rows);
    }

    /// Adds the ids that end a turn.
    fn ends(&self, parts: &mut TokenizerParts) -> Result<(), ModelFileError> {
        const FIELD: &str = "eos_token_id";
        let generation = Document::open(&self.folder.join("generation_config.json"), MAX_CONFIG)?;
        let mut source = None;
        if let Some(generation) = &generation {
            let ids = generation.root().ids(FIELD)?;
            source = (!ids.is_empty()).then_some((generation, ids));
        }
        let (document, ids) = match source {
            Some(stated) => stated,
            None => (&self.document, self.document.root().ids(FIELD)?),
        };
        for id in ids {
            if id as usize >= parts.tokens.len() {
                let reason = format!(
                    "token {id} is outside the vocabulary of {}",
                    parts.tokens.len()
                );
                return Err(document.root().error(FIELD, Fault::Invalid(reason)));
            }
            if parts.eos != Some(id) && !parts.ends.contains(&id) {
                parts.ends.push(id);
            }
        }
        Ok(())
    }
}

fn told(path: &Path, error: &TokenizerError) -> ModelFileError {
    ModelFileError::new(path, &error.field, Fault::Invalid(error.reason.clone()))
}

fn missing_tokenizer(folder: &Path, path: &Path) -> ModelFileError {
    let fault = if folder.join("tokenizer.model").exists() {
        Fault::Invalid("missing; tokenizer.model alone is not supported, convert it".to_owned())
    } else {
        Fault::Missing
    };
    ModelFileError::new(path, "file", fault)
}
