//! What a file says of its tokenizer and chat template.

use super::GgufFile;
use super::error::{Fault, ModelFileError};
use crate::tokenizer::{SpacePrefix, Spaces, TokenizerParts};

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const KINDS: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";
const BOS: &str = "tokenizer.ggml.bos_token_id";
const EOS: &str = "tokenizer.ggml.eos_token_id";
const EOT: &str = "tokenizer.ggml.eot_token_id";
const EOM: &str = "tokenizer.ggml.eom_token_id";
const UNKNOWN: &str = "tokenizer.ggml.unknown_token_id";
const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
const ADD_SPACE: &str = "tokenizer.ggml.add_space_prefix";
const SQUEEZE: &str = "tokenizer.ggml.remove_extra_whitespaces";
/// An ordinary token, where a file does not say.
const NORMAL: i32 = 1;

impl GgufFile {
    /// The vocabulary. Arrays are taken in exactly the element type that the format gives them, ids must be in the
    /// vocabulary.
    ///
    /// # Errors
    /// Names the key that is missing, of a wrong type, of another length than the vocabulary, or out of range.
    pub fn tokenizer_parts(&self) -> Result<TokenizerParts, ModelFileError> {
        let metadata = self.metadata();
        metadata.require("tokenizer", &[MODEL, TOKENS])?;
        let tokens = metadata.strings(TOKENS)?;
        if tokens.is_empty() {
            return Err(self.error(TOKENS, Fault::Invalid("the vocabulary is empty".to_owned())));
        }
        let vocab = tokens.len();
        let kinds = match metadata.opt_i32s(KINDS)? {
            Some(kinds) => self.of_vocab(KINDS, kinds.to_vec(), vocab)?,
            None => vec![NORMAL; vocab],
        };
        let scores = match metadata.opt_f32s(SCORES)? {
            Some(scores) => self.of_vocab(SCORES, scores.to_vec(), vocab)?,
            None => Vec::new(),
        };
        let merges = metadata.opt_strings(MERGES)?;
        Ok(TokenizerParts {
            model: metadata.str(MODEL)?.to_owned(),
            pre: metadata.opt_str(PRE)?.unwrap_or("default").to_owned(),
            tokens: tokens.iter().map(str::to_owned).collect(),
            kinds,
            scores,
            merges: merges
                .map(|merges| merges.iter().map(str::to_owned).collect())
                .unwrap_or_default(),
            bos: self.token_id(BOS, vocab)?,
            eos: self.token_id(EOS, vocab)?,
            ends: [self.token_id(EOT, vocab)?, self.token_id(EOM, vocab)?]
                .into_iter()
                .flatten()
                .collect(),
            unknown: self.token_id(UNKNOWN, vocab)?,
            // Vocabularies of pieces begin their texts so where a file does not say.
            add_bos: metadata
                .opt_bool(ADD_BOS)?
                .unwrap_or(metadata.str(MODEL)? == "llama"),
            spaces: self.spaces()?,
            ..TokenizerParts::default()
        })
    }

    /// How a vocabulary of pieces treats spaces. A file that does not say puts one in front.
    fn spaces(&self) -> Result<Spaces, ModelFileError> {
        let metadata = self.metadata();
        let prefixed = metadata.opt_bool(ADD_SPACE)?.unwrap_or(true);
        Ok(Spaces {
            prefix: if prefixed {
                SpacePrefix::Segments
            } else {
                SpacePrefix::Never
            },
            squeeze: metadata.opt_bool(SQUEEZE)?.unwrap_or(false),
            strip: prefixed,
            ..Spaces::default()
        })
    }

    /// The chat template, in Jinja.
    #[must_use]
    pub fn chat_template(&self) -> Option<&str> {
        self.metadata().info("tokenizer.chat_template")
    }

    fn of_vocab<T>(
        &self,
        key: &str,
        values: Vec<T>,
        vocab: usize,
    ) -> Result<Vec<T>, ModelFileError> {
        if values.len() == vocab {
            return Ok(values);
        }
        let reason = format!("{} entries for a vocabulary of {vocab}", values.len());
        Err(self.error(key, Fault::Invalid(reason)))
    }

    fn token_id(&self, key: &str, vocab: usize) -> Result<Option<u32>, ModelFileError> {
        let Some(id) = self.metadata().opt_u32(key)? else {
            return Ok(None);
        };
        if (id as usize) < vocab {
            return Ok(Some(id));
        }
        let reason = format!("token {id} is outside the vocabulary of {vocab}");
        Err(self.error(key, Fault::Invalid(reason)))
    }
}
