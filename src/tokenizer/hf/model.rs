//! The vocabulary and the merges of a BPE model, and the tokens added to it.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::place::Place;
use crate::tokenizer::added::{CONTROL, UNUSED, USER_DEFINED};
use crate::tokenizer::tables::SPACE;
use crate::tokenizer::{TokenId, TokenizerError};

/// Ids that a file may leave out for each one that it uses, so that a large one costs no memory.
const SPARSE: usize = 4;
/// An ordinary token.
const NORMAL: i32 = 1;

/// All tokens by their ids.
#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    pub(super) tokens: Vec<String>,
    pub(super) kinds: Vec<i32>,
    ids: HashMap<String, TokenId>,
}

impl Vocabulary {
    /// Reads `model.vocab` and refuses settings of the model that change what merging does.
    pub(super) fn read(model: &Place<'_>) -> Result<Self, TokenizerError> {
        if !matches!(model.kind(), "BPE" | "") || model.is_null() {
            let reason = format!("`{}` is not supported, only `BPE`", model.kind());
            return Err(model.member("type").wrong(reason));
        }
        for name in ["continuing_subword_prefix", "end_of_word_suffix"] {
            let member = model.member(name);
            if member.optional_text()?.is_some() {
                return Err(member.wrong("is not supported"));
            }
        }
        if !model.member("dropout").is_null() {
            model.only("dropout", &json!(0.0))?;
        }
        let vocab = model.member("vocab");
        let entries = vocab.object()?;
        let mut vocabulary = Self::default();
        for token in entries.keys() {
            let id = vocab.member(token).id()?;
            vocabulary.set(id, token, NORMAL, entries.len(), &vocab)?;
        }
        Ok(vocabulary)
    }

    /// Adds `added_tokens`: special ones are control tokens.
    pub(super) fn add(&mut self, added: &Place<'_>) -> Result<(), TokenizerError> {
        let count = self.tokens.len() + added.items()?.len();
        for token in added.items()? {
            for name in ["single_word", "lstrip", "rstrip"] {
                token.only(name, &Value::Bool(false))?;
            }
            let id = token.member("id").id()?;
            let content = token.member("content").text()?;
            let special = token.member("special").flag(false)?;
            let kind = if special { CONTROL } else { USER_DEFINED };
            match self.ids.get(content) {
                None => self.set(id, content, kind, count, &token)?,
                Some(&known) if known == id => {
                    // Text has spaces where pieces have this, so that merging alone makes them.
                    let merged = !special && content.contains(SPACE);
                    self.kinds[id as usize] = if merged { NORMAL } else { kind };
                }
                Some(known) => {
                    let reason = format!("{id} is not {known}, as `model.vocab` has it");
                    return Err(token.member("id").wrong(reason));
                }
            }
        }
        Ok(())
    }

    fn set(
        &mut self,
        id: TokenId,
        token: &str,
        kind: i32,
        count: usize,
        place: &Place<'_>,
    ) -> Result<(), TokenizerError> {
        let at = id as usize;
        if at >= count.saturating_mul(SPARSE).saturating_add(1024) {
            return Err(place.wrong(format!("the id {id} is far beyond {count} tokens")));
        }
        if at >= self.tokens.len() {
            self.tokens.resize(at + 1, String::new());
            self.kinds.resize(at + 1, UNUSED);
        }
        if token.is_empty() {
            return Err(place.wrong(format!("token {id} is empty")));
        }
        if !self.tokens[at].is_empty() {
            let reason = format!("`{token}` and `{}` are both token {id}", self.tokens[at]);
            return Err(place.wrong(reason));
        }
        token.clone_into(&mut self.tokens[at]);
        self.kinds[at] = kind;
        self.ids.insert(token.to_owned(), id);
        Ok(())
    }

    /// The id of the token that a place in the file names.
    pub(super) fn id(&self, place: &Place<'_>) -> Result<TokenId, TokenizerError> {
        let token = place.text()?;
        let unknown = || place.wrong(format!("`{token}` is not a token"));
        self.find(token).ok_or_else(unknown)
    }

    pub(super) fn find(&self, token: &str) -> Option<TokenId> {
        self.ids.get(token).copied()
    }
}

/// `model.merges`, as texts or as pairs.
pub(super) fn merges(model: &Place<'_>) -> Result<Vec<String>, TokenizerError> {
    let mut merges = Vec::new();
    for rule in model.member("merges").items()? {
        if let Ok(text) = rule.text() {
            merges.push(text.to_owned());
            continue;
        }
        let pair = rule.items()?;
        let [left, right] = pair.as_slice() else {
            return Err(rule.wrong("is not two tokens"));
        };
        let (left, right) = (left.text()?, right.text()?);
        if left.contains(' ') || right.contains(' ') {
            return Err(rule.wrong("tokens with spaces are not supported"));
        }
        merges.push(format!("{left} {right}"));
    }
    Ok(merges)
}
