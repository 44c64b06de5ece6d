//! Stages of vocabularies that were SentencePiece's: where spaces go, and bytes for what has no piece.

use serde_json::{Value, json};

use super::Stages;
use super::model::Vocabulary;
use super::place::Place;
use crate::tokenizer::added::BYTE;
use crate::tokenizer::tables::{SPACE, spelled_byte};
use crate::tokenizer::{SpacePrefix, Spaces, TokenizerError, TokenizerParts};

pub(super) fn read(
    stages: &Stages<'_>,
    vocabulary: &mut Vocabulary,
    parts: &mut TokenizerParts,
) -> Result<(), TokenizerError> {
    "llama".clone_into(&mut parts.model);
    parts.spaces = spaces(&stages.normalizer, &stages.pre_tokenizer)?;
    parts.spaces.strip = strips(&stages.decoder, &parts.spaces)?;
    let model = &stages.model;
    if model.member("ignore_merges").flag(false)? {
        return Err(model
            .member("ignore_merges")
            .wrong("is not supported without ByteLevel"));
    }
    let unknown = model.member("unk_token");
    if unknown.optional_text()?.is_some() {
        parts.unknown = Some(vocabulary.id(&unknown)?);
    }
    let mut bytes = 0;
    if model.member("byte_fallback").flag(false)? {
        for (token, kind) in vocabulary.tokens.iter().zip(&mut vocabulary.kinds) {
            if spelled_byte(token).is_some() {
                *kind = BYTE;
                bytes += 1;
            }
        }
    }
    // With a token for every byte nothing is unknown.
    if bytes < 256 && parts.unknown.is_some() {
        model.only("fuse_unk", &Value::Bool(true))?;
    }
    Ok(())
}

/// What becomes of spaces before merging.
fn spaces(normalizer: &Place<'_>, pre_tokenizer: &Place<'_>) -> Result<Spaces, TokenizerError> {
    let mut spaces = Spaces::default();
    let mut replaced = false;
    for stage in normalizer.stages("normalizers")? {
        match stage.kind() {
            "Prepend" if !replaced && spaces.prefix == SpacePrefix::Never => {
                stage.only("prepend", &json!(SPACE))?;
                spaces.prefix = SpacePrefix::Segments;
            }
            "Replace" if !replaced => {
                stage.member("pattern").only("String", &json!(" "))?;
                stage.only("content", &json!(SPACE))?;
                replaced = true;
            }
            _ => return Err(stage.unsupported()),
        }
    }
    for stage in pre_tokenizer.stages("pretokenizers")? {
        match stage.kind() {
            "Metaspace" if !replaced => {
                metaspace(&stage, &mut spaces)?;
                replaced = true;
            }
            // Finds nothing, once spaces are replaced.
            "Split" if replaced => stage.member("pattern").only("String", &json!(" "))?,
            _ => return Err(stage.unsupported()),
        }
    }
    if !replaced {
        return Err(pre_tokenizer
            .wrong("neither ByteLevel nor Metaspace, and no normalizer replaces spaces"));
    }
    Ok(spaces)
}

fn metaspace(stage: &Place<'_>, spaces: &mut Spaces) -> Result<(), TokenizerError> {
    stage.only("replacement", &json!(SPACE))?;
    spaces.prefix = match scheme(stage)? {
        "always" => SpacePrefix::Segments,
        "first" => SpacePrefix::Start,
        _ => SpacePrefix::Never,
    };
    spaces.single_prefix = true;
    spaces.split = stage.member("split").flag(true)?;
    Ok(())
}

/// Where Metaspace puts a space: `always`, `first` or `never`; older files have a flag for the outer two.
fn scheme<'a>(stage: &Place<'a>) -> Result<&'a str, TokenizerError> {
    let scheme = stage.member("prepend_scheme");
    if scheme.is_null() {
        let prefixed = stage.member("add_prefix_space").flag(true)?;
        return Ok(if prefixed { "always" } else { "never" });
    }
    match scheme.text()? {
        known @ ("always" | "first" | "never") => Ok(known),
        other => Err(scheme.wrong(format!("`{other}` is not supported"))),
    }
}

/// Whether decoding drops a space at the start. The stages must otherwise only undo what encoding did.
fn strips(decoder: &Place<'_>, spaces: &Spaces) -> Result<bool, TokenizerError> {
    let mut strips = false;
    let mut undone = false;
    for stage in decoder.stages("decoders")? {
        match stage.kind() {
            "Replace" => {
                stage.member("pattern").only("String", &json!(SPACE))?;
                stage.only("content", &json!(" "))?;
                undone = true;
            }
            "Metaspace" => {
                stage.only("replacement", &json!(SPACE))?;
                strips = scheme(&stage)? != "never";
                undone = true;
            }
            "ByteFallback" | "Fuse" => {}
            "Strip" => {
                stage.only("content", &json!(" "))?;
                stage.only("start", &json!(1))?;
                stage.only("stop", &json!(0))?;
                strips = true;
            }
            _ => return Err(stage.unsupported()),
        }
    }
    if !undone {
        return Err(decoder.wrong("nothing turns the pieces' `▁` back into spaces"));
    }
    if strips && spaces.prefix == SpacePrefix::Never {
        return Err(decoder.wrong("strips a space that encoding does not put in front"));
    }
    Ok(strips)
}
