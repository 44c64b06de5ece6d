//! Reads Hugging Face's `tokenizer.json` and `tokenizer_config.json`. What this tokenizer does not do exactly as they
//! say is refused by its place in the file.

mod bytes;
mod config;
mod model;
mod pieces;
mod place;
#[cfg(test)]
mod tests;

pub use config::HfConfig;

use serde_json::Value;

use super::{Origin, TokenId, TokenizerError, TokenizerParts};
use model::Vocabulary;
use place::Place;

impl TokenizerParts {
    /// Reads a `tokenizer.json` with a BPE model, byte-level or of pieces. What ends a turn is in another file, see
    /// [`HfConfig::apply`].
    ///
    /// # Errors
    /// Names the place in the JSON that is missing, wrong or not supported.
    pub fn from_hf_json(json: &[u8]) -> Result<Self, TokenizerError> {
        let root: Value = serde_json::from_slice(json)
            .map_err(|error| TokenizerError::at("tokenizer.json", error.to_string()))?;
        // `truncation` and `padding` shape the batches of other programs; a prompt is never cut here.
        let stages = Stages {
            normalizer: Place::root(&root, "normalizer"),
            pre_tokenizer: Place::root(&root, "pre_tokenizer"),
            decoder: Place::root(&root, "decoder"),
            model: Place::root(&root, "model"),
        };
        let mut vocabulary = Vocabulary::read(&stages.model)?;
        vocabulary.add(&Place::root(&root, "added_tokens"))?;
        let mut parts = Self {
            origin: Origin::HfJson,
            merges: model::merges(&stages.model)?,
            ..Self::default()
        };
        if bytes::is_byte_level(&stages)? {
            bytes::read(&stages, &vocabulary, &mut parts)?;
        } else {
            pieces::read(&stages, &mut vocabulary, &mut parts)?;
        }
        parts.bos = bos(&Place::root(&root, "post_processor"), &vocabulary)?;
        parts.add_bos = parts.bos.is_some();
        (parts.tokens, parts.kinds) = (vocabulary.tokens, vocabulary.kinds);
        Ok(parts)
    }
}

/// What text goes through.
struct Stages<'a> {
    normalizer: Place<'a>,
    pre_tokenizer: Place<'a>,
    decoder: Place<'a>,
    model: Place<'a>,
}

/// The token that is put in front of a text, the only thing that a post-processor may do here.
fn bos(
    post_processor: &Place<'_>,
    vocabulary: &Vocabulary,
) -> Result<Option<TokenId>, TokenizerError> {
    let mut bos = None;
    for stage in post_processor.stages("processors")? {
        match stage.kind() {
            // Moves offsets only.
            "ByteLevel" => continue,
            "TemplateProcessing" => {}
            _ => return Err(stage.unsupported()),
        }
        for item in stage.member("single").items()? {
            let special = item.member("SpecialToken");
            if special.is_null() {
                continue;
            }
            let single = stage.member("single").items()?;
            if bos.is_some() || single.len() != 2 || single[1].member("Sequence").is_null() {
                return Err(item.wrong("only one token in front of the text is supported"));
            }
            let id = special.member("id");
            bos = Some(vocabulary.id(&id)?);
        }
    }
    Ok(bos)
}
