//! `config.json`: which decoder it is and its sizes, as the metadata that GGUF would state.
//!
//! The values are typed here and bounded where every model is (`DecoderSpec`), so that both formats have one judge.
//! What would change the result if it were ignored is refused by the name of its field.

use std::collections::BTreeMap;

use super::json::Object;
use super::names::Names;
use super::refuse;
use super::rope;
use crate::model::gguf::{Fault, ModelFileError, Value};

/// An architecture that `config.json` may name.
#[derive(Debug)]
pub(super) struct Architecture {
    /// The class, in `architectures`.
    class: &'static str,
    /// GGUF's name.
    pub(super) gguf: &'static str,
    pub(super) names: Names,
    /// GGUF has the rows of Q and K reordered, so that rotated pairs are neighbours.
    pub(super) interleaved: bool,
    /// A norm's weight is what exceeds one.
    pub(super) norms_from_one: bool,
    /// Whether the embedding is the head where the configuration does not say.
    tied: bool,
    /// Size of a head where the configuration does not say; the width over the heads where this is none.
    head_dim: Option<u32>,
    rope_base: f32,
}

const TWO: Names = Names { four_norms: false };
const FOUR: Names = Names { four_norms: true };

const LLAMA: Architecture = Architecture {
    class: "LlamaForCausalLM",
    gguf: "llama",
    names: TWO,
    interleaved: true,
    norms_from_one: false,
    tied: false,
    head_dim: None,
    rope_base: 10_000.0,
};

/// Of queries in gemma3, where the configuration does not say.
const GEMMA_SCALAR: f32 = 256.0;
/// Every so many layers of gemma3 one has no window, where the configuration does not say.
const GEMMA_PATTERN: u32 = 6;

static ARCHITECTURES: [Architecture; 5] = [
    LLAMA,
    Architecture {
        class: "MistralForCausalLM",
        ..LLAMA
    },
    Architecture {
        class: "Qwen2ForCausalLM",
        gguf: "qwen2",
        interleaved: false,
        ..LLAMA
    },
    Architecture {
        class: "Qwen3ForCausalLM",
        gguf: "qwen3",
        interleaved: false,
        head_dim: Some(128),
        ..LLAMA
    },
    Architecture {
        class: "Gemma3ForCausalLM",
        gguf: "gemma3",
        names: FOUR,
        interleaved: false,
        norms_from_one: true,
        tied: true,
        head_dim: Some(256),
        rope_base: 1_000_000.0,
    },
];

/// What `config.json` says.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) architecture: &'static Architecture,
    /// Under GGUF's keys.
    pub(super) values: BTreeMap<String, Value>,
    /// Where each of them comes from.
    pub(super) fields: BTreeMap<String, String>,
    /// Whether the embedding is the head.
    pub(super) tied: bool,
    pub(super) head_dim: u32,
    pub(super) vocab: Option<u32>,
    /// What each rotation's frequency is divided by, where the model says.
    pub(super) rope_factors: Option<Vec<f32>>,
}

impl Settings {
    pub(super) fn read(config: &Object<'_>) -> Result<Self, ModelFileError> {
        let architecture = architecture(config)?;
        refuse::unsupported(config, architecture)?;
        let mut keys = Keys::new(architecture);
        keys.size(config, "num_hidden_layers", "block_count")?;
        keys.size(config, "hidden_size", "embedding_length")?;
        keys.size(config, "intermediate_size", "feed_forward_length")?;
        keys.size(config, "max_position_embeddings", "context_length")?;
        keys.size(config, "num_attention_heads", "attention.head_count")?;
        if config.opt_u32("num_key_value_heads")?.is_some() {
            keys.size(config, "num_key_value_heads", "attention.head_count_kv")?;
        }
        let epsilon = config.f32("rms_norm_eps")?;
        keys.put(
            "attention.layer_norm_rms_epsilon",
            "rms_norm_eps",
            Value::F32(epsilon),
        );
        let head_dim = head_dim(config, architecture)?;
        keys.put("attention.key_length", "head_dim", Value::U32(head_dim));
        keys.put("attention.value_length", "head_dim", Value::U32(head_dim));
        keys.windows(config)?;
        let rope = rope::Rope::read(
            config,
            head_dim,
            architecture.rope_base,
            architecture.names.four_norms,
        )?;
        keys.rope(&rope);
        Ok(Self {
            architecture,
            values: keys.values,
            fields: keys.fields,
            tied: config.bool_or("tie_word_embeddings", architecture.tied)?,
            head_dim,
            vocab: config.opt_u32("vocab_size")?,
            rope_factors: rope.factors,
        })
    }
}

fn architecture(config: &Object<'_>) -> Result<&'static Architecture, ModelFileError> {
    let field = "architectures";
    let Some(stated) = config.opt_list(field)? else {
        return Err(config.error(field, Fault::Missing));
    };
    let [serde_json::Value::String(class)] = stated else {
        return Err(config.unsupported(
            field,
            format!("a list of {} that is not one name", stated.len()),
        ));
    };
    let known = ARCHITECTURES.iter().find(|known| known.class == *class);
    known.ok_or_else(|| {
        let classes = ARCHITECTURES.each_ref().map(|known| known.class).join(", ");
        let shown: String = class.chars().take(64).collect();
        let reason = format!("{shown:?} is not supported; supported are {classes}");
        config.error(field, Fault::Invalid(reason))
    })
}

/// The size of a head; where neither the field nor the architecture says, the width shared out.
fn head_dim(config: &Object<'_>, architecture: &Architecture) -> Result<u32, ModelFileError> {
    if let Some(stated) = config.opt_u32("head_dim")?.or(architecture.head_dim) {
        return Ok(stated);
    }
    let (width, heads) = (
        config.u32("hidden_size")?,
        config.u32("num_attention_heads")?,
    );
    match width.checked_rem(heads) {
        Some(0) => Ok(width / heads),
        _ => {
            let reason = format!("{heads} heads do not divide a width of {width}");
            Err(config.error("num_attention_heads", Fault::Invalid(reason)))
        }
    }
}

/// Every how many layers one has no window, and the field that says so. Old files state the number, new ones list the
/// layers.
fn pattern(config: &Object<'_>) -> Result<(&'static str, u32), ModelFileError> {
    let mut found = ("sliding_window_pattern", GEMMA_PATTERN);
    for field in ["sliding_window_pattern", "_sliding_window_pattern"] {
        if let Some(stated) = config.opt_u32(field)? {
            found = (field, stated);
        }
    }
    let field = "layer_types";
    let Some(layers) = config.opt_list(field)? else {
        return Ok(found);
    };
    let full = |kind: &serde_json::Value| kind.as_str() == Some("full_attention");
    if let Some(first) = layers.iter().position(full) {
        found = (field, u32::try_from(first + 1).unwrap_or(u32::MAX));
    }
    for (layer, kind) in (1..).zip(layers) {
        let regular = if u32::is_multiple_of(layer, found.1) {
            "full_attention"
        } else {
            "sliding_attention"
        };
        if kind.as_str() != Some(regular) {
            return Err(config.unsupported(field, format!("layer {} of kind {kind}", layer - 1)));
        }
    }
    Ok(found)
}

/// The keys being collected.
struct Keys {
    architecture: &'static Architecture,
    values: BTreeMap<String, Value>,
    fields: BTreeMap<String, String>,
}

impl Keys {
    fn new(architecture: &'static Architecture) -> Self {
        let mut keys = Self {
            architecture,
            values: BTreeMap::new(),
            fields: BTreeMap::new(),
        };
        let name = "general.architecture".to_owned();
        keys.fields.insert(name.clone(), "architectures".to_owned());
        keys.values
            .insert(name, Value::Text(architecture.gguf.to_owned()));
        keys
    }

    /// Sets a key below the architecture's name, which `field` says.
    fn put(&mut self, key: &str, field: &str, value: Value) {
        let key = format!("{}.{key}", self.architecture.gguf);
        self.fields.insert(key.clone(), field.to_owned());
        self.values.insert(key, value);
    }

    fn size(&mut self, config: &Object<'_>, field: &str, key: &str) -> Result<(), ModelFileError> {
        self.put(key, field, Value::U32(config.u32(field)?));
        Ok(())
    }

    /// Windows of attention: none, or the one that the architecture has.
    fn windows(&mut self, config: &Object<'_>) -> Result<(), ModelFileError> {
        let window = config.opt_u32("sliding_window")?;
        let gemma = self.architecture.gguf == "gemma3";
        if gemma {
            return self.gemma(config, window);
        }
        // Mistral has no such flag; where others have it, only it turns the window on.
        let asked = self.architecture.gguf == "llama";
        if config.bool_or("use_sliding_window", asked)?
            && let Some(window) = window
        {
            self.put(
                "attention.sliding_window",
                "sliding_window",
                Value::U32(window),
            );
        }
        for (layer, kind) in config
            .opt_list("layer_types")?
            .unwrap_or_default()
            .iter()
            .enumerate()
        {
            if kind.as_str() != Some("full_attention") {
                return Err(
                    config.unsupported("layer_types", format!("layer {layer} of kind {kind}"))
                );
            }
        }
        Ok(())
    }

    /// Layers with a window, and after some of them one without; queries have a scale of their own.
    fn gemma(&mut self, config: &Object<'_>, window: Option<u32>) -> Result<(), ModelFileError> {
        let Some(window) = window else {
            return Err(config.error("sliding_window", Fault::Missing));
        };
        self.put(
            "attention.sliding_window",
            "sliding_window",
            Value::U32(window),
        );
        let (field, pattern) = pattern(config)?;
        self.put(
            "attention.sliding_window_pattern",
            field,
            Value::U32(pattern),
        );
        let field = "query_pre_attn_scalar";
        let scalar = config.opt_f32(field)?.unwrap_or(GEMMA_SCALAR);
        self.put("attention.scale", field, Value::F32(scalar.powf(-0.5)));
        Ok(())
    }

    fn rope(&mut self, rope: &rope::Rope) {
        self.put("rope.freq_base", &rope.base_field, Value::F32(rope.base));
        if let Some(scaling) = &rope.scaling {
            let field = &scaling.field;
            self.put(
                "rope.scaling.type",
                field,
                Value::Text(scaling.kind.to_owned()),
            );
            self.put("rope.scaling.factor", field, Value::F32(scaling.factor));
            if let Some(original) = scaling.original_context {
                self.put(
                    "rope.scaling.original_context_length",
                    field,
                    Value::U32(original),
                );
            }
            for (key, beta) in [
                ("yarn_beta_fast", scaling.beta_fast),
                ("yarn_beta_slow", scaling.beta_slow),
            ] {
                if let Some(beta) = beta {
                    self.put(&format!("rope.scaling.{key}"), field, Value::F32(beta));
                }
            }
        }
    }
}
