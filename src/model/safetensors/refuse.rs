//! Settings of `config.json` that would change the result if they were ignored, and are not supported.

use super::config::Architecture;
use super::json::Object;
use crate::model::gguf::ModelFileError;

/// Refuses, by name, what would change the result if it were ignored.
pub(super) fn unsupported(
    config: &Object<'_>,
    architecture: &Architecture,
) -> Result<(), ModelFileError> {
    for field in ["quantization_config", "compression_config"] {
        if config.get(field).is_some() {
            return Err(config.unsupported(field, "a checkpoint that is quantised already"));
        }
    }
    for (field, what) in [
        ("attention_bias", "attention with biases"),
        ("mlp_bias", "a feed-forward layer with biases"),
        (
            "use_bidirectional_attention",
            "attention in both directions",
        ),
        ("rope_interleaved", "rotating neighbours"),
    ] {
        if config.bool_or(field, false)? {
            return Err(config.unsupported(field, what));
        }
    }
    for field in ["attn_logit_softcapping", "final_logit_softcapping"] {
        if let Some(cap) = config.opt_f32(field)? {
            return Err(config.unsupported(field, format!("capping logits at {cap}")));
        }
    }
    for field in ["num_experts", "num_local_experts"] {
        if config.opt_u32(field)?.is_some_and(|experts| experts > 0) {
            return Err(config.unsupported(field, "a mixture of experts"));
        }
    }
    if let Some(share) = config.opt_f32("partial_rotary_factor")?
        && share != 1.0
    {
        return Err(config.unsupported(
            "partial_rotary_factor",
            format!("rotating {share} of a head"),
        ));
    }
    for (field, usual) in activations(architecture) {
        if let Some(activation) = config.opt_str(field)?
            && activation != usual
        {
            return Err(config.unsupported(
                field,
                format!("activation {activation:?} (expected {usual:?})"),
            ));
        }
    }
    for field in ["torch_dtype", "dtype"] {
        if let Some(dtype) = config.opt_str(field)?
            && !["float32", "float16", "bfloat16"].contains(&dtype)
        {
            return Err(config.unsupported(field, format!("weights of type {dtype:?}")));
        }
    }
    Ok(())
}

fn activations(architecture: &Architecture) -> [(&'static str, &'static str); 2] {
    if architecture.gguf == "gemma3" {
        let gelu = "gelu_pytorch_tanh";
        return [("hidden_activation", gelu), ("hidden_act", gelu)];
    }
    [("hidden_act", "silu"), ("hidden_activation", "silu")]
}
