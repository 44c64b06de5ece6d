//! Byte-level stages: which of the known rules a file describes.

use serde_json::{Value, json};

use super::Stages;
use super::model::Vocabulary;
use super::place::Place;
use crate::tokenizer::{TokenizerError, TokenizerParts, alphabet};

/// GPT-2's rule for words, where it is spelled out.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// The rule of Qwen 2: each digit alone.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The rule of Llama 3: up to three digits.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

pub(super) fn is_byte_level(stages: &Stages<'_>) -> Result<bool, TokenizerError> {
    let stages = stages.pre_tokenizer.stages("pretokenizers")?;
    Ok(stages.iter().any(|stage| stage.kind() == "ByteLevel"))
}

pub(super) fn read(
    stages: &Stages<'_>,
    vocabulary: &Vocabulary,
    parts: &mut TokenizerParts,
) -> Result<(), TokenizerError> {
    "gpt2".clone_into(&mut parts.model);
    parts.nfc = Some(composes(&stages.normalizer)?);
    rule(&stages.pre_tokenizer)?.clone_into(&mut parts.pre);
    for stage in stages.decoder.stages("decoders")? {
        if stage.kind() != "ByteLevel" {
            return Err(stage.unsupported());
        }
    }
    let model = &stages.model;
    parts.whole_words = Some(model.member("ignore_merges").flag(false)?);
    if model.member("byte_fallback").flag(false)? {
        return Err(model
            .member("byte_fallback")
            .wrong("is not supported with bytes as letters"));
    }
    let has = |byte| {
        vocabulary
            .find(&alphabet::letter_of(byte).to_string())
            .is_some()
    };
    let unknown = model.member("unk_token");
    if unknown.optional_text()?.is_some() && !(0..=u8::MAX).all(has) {
        return Err(unknown.wrong("is not supported where a byte has no token"));
    }
    Ok(())
}

fn composes(normalizer: &Place<'_>) -> Result<bool, TokenizerError> {
    let mut composes = false;
    for stage in normalizer.stages("normalizers")? {
        if stage.kind() != "NFC" {
            return Err(stage.unsupported());
        }
        composes = true;
    }
    Ok(composes)
}

/// The name of the rule that a pre-tokenizer describes.
fn rule(pre_tokenizer: &Place<'_>) -> Result<&'static str, TokenizerError> {
    let stages = pre_tokenizer.stages("pretokenizers")?;
    let (last, before) = stages
        .split_last()
        .ok_or_else(|| pre_tokenizer.unsupported())?;
    if last.kind() != "ByteLevel" {
        return Err(last.unsupported());
    }
    last.only("add_prefix_space", &Value::Bool(false))?;
    let cuts = last.member("use_regex").flag(true)?;
    match before {
        [] if cuts => Ok("gpt-2"),
        [digits] if cuts && digits.kind() == "Digits" => {
            digits.only("individual_digits", &Value::Bool(true))?;
            Ok("smollm")
        }
        [split] if !cuts && split.kind() == "Split" => {
            split.only("behavior", &json!("Isolated"))?;
            split.only("invert", &Value::Bool(false))?;
            let regex = split.member("pattern").member("Regex");
            match regex.text()? {
                GPT2 => Ok("gpt-2"),
                QWEN2 => Ok("qwen2"),
                LLAMA3 => Ok("llama-bpe"),
                _ => {
                    Err(regex
                        .wrong("is not supported, only the rules of GPT-2, Qwen 2 and Llama 3"))
                }
            }
        }
        [] => Err(last
            .member("use_regex")
            .wrong("false is not supported without a rule before it")),
        [first, ..] => Err(first.unsupported()),
    }
}
