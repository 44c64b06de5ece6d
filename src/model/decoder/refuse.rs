//! What would change a model's results if it were ignored, and is not computed: refused by name.

use super::keys::Keys;
use crate::model::gguf::ModelFileError;

/// Counts that must be zero or absent, and what another one asks for.
const COUNTS: [(&str, &str); 6] = [
    ("expert_count", "a mixture of experts"),
    ("pooling_type", "pooling instead of a next token"),
    ("attention.shared_kv_layers", "keys shared between layers"),
    ("attention.temperature_length", "scores scaled by position"),
    ("nextn_predict_layers", "layers that predict further tokens"),
    ("full_attention_interval", "layers without attention"),
];

/// Numbers that must be zero or absent.
const NUMBERS: [(&str, &str); 6] = [
    ("attn_logit_softcapping", "a soft cap on scores"),
    ("final_logit_softcapping", "a soft cap on logits"),
    ("attention.max_alibi_bias", "positions by linear biases"),
    ("attention.clamp_kqv", "clamped projections"),
    ("attention.temperature_scale", "scores scaled by position"),
    ("rope.scaling.yarn_log_multiplier", "a magnitude by layers"),
];

/// Factors that must be one, zero (which means that there is none) or absent.
const FACTORS: [(&str, &str); 5] = [
    ("logit_scale", "scaled logits"),
    ("residual_scale", "a scaled residual stream"),
    ("embedding_scale", "a scale of embeddings of its own"),
    ("attention.output_scale", "scaled outputs of attention"),
    ("rope.scaling.alpha", "rope scaling by alpha"),
];

/// Switches, and the position in which they change nothing.
const SWITCHES: [(&str, bool, &str); 3] = [
    ("attention.causal", true, "attention to later tokens"),
    (
        "use_parallel_residual",
        false,
        "a parallel feed-forward layer",
    ),
    ("swin_norm", false, "norms in other places"),
];

/// Refuses what [`super::DecoderSpec`] cannot say.
///
/// # Errors
/// Names the key and what it asks for.
pub(super) fn unsupported(keys: &Keys<'_>) -> Result<(), ModelFileError> {
    for (name, what) in COUNTS {
        if keys.opt_u32(name)?.is_some_and(|value| value != 0) {
            return Err(keys.unsupported(name, what.to_owned()));
        }
    }
    for (name, what) in NUMBERS {
        if keys.opt_f32(name)?.is_some_and(|value| value != 0.0) {
            return Err(keys.unsupported(name, what.to_owned()));
        }
    }
    for (name, what) in FACTORS {
        let changes = |value: f32| value != 1.0 && value != 0.0;
        if keys.opt_f32(name)?.is_some_and(changes) {
            return Err(keys.unsupported(name, what.to_owned()));
        }
    }
    for (name, neutral, what) in SWITCHES {
        if keys.opt_bool(name)?.is_some_and(|value| value != neutral) {
            return Err(keys.unsupported(name, what.to_owned()));
        }
    }
    let sections = "rope.dimension_sections";
    if keys.file.metadata().get(&keys.key(sections)).is_some() {
        let what = "a position of several numbers".to_owned();
        return Err(keys.unsupported(sections, what));
    }
    Ok(())
}
