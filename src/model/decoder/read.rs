//! Reads a decoder's description from a file's metadata and checks it.

use super::architecture::{self, Architecture, Window};
use super::keys::{Keys, MAX_CONTEXT, MAX_LAYERS, MAX_WIDTH};
use super::refuse;
use super::rope::{RopeScaling, RopeSpec};
use super::spec::{DecoderSpec, Sliding};
use crate::model::checkpoint::Checkpoint;
use crate::model::gguf::{Array, Fault, ModelFileError, TensorKind, Value};

/// The rotary base where a file does not say.
const DEFAULT_ROPE_BASE: f32 = 10_000.0;
/// Where YaRN's ramp begins and ends when a file does not say, in turns.
const YARN_FAST: f32 = 32.0;
const YARN_SLOW: f32 = 1.0;
/// Keys without which there is no decoder, so that a file without sizes is told all of them at once.
const NEEDED: [&str; 6] = [
    "block_count",
    "embedding_length",
    "feed_forward_length",
    "context_length",
    "attention.head_count",
    "attention.layer_norm_rms_epsilon",
];
/// Divisors of the rotary frequencies.
const DIVISORS: &str = "rope_freqs.weight";

impl DecoderSpec {
    /// Reads the description of a decoder of any supported architecture.
    ///
    /// # Errors
    /// Names the key that is missing, impossible, or asks for something not supported.
    pub fn read(file: &dyn Checkpoint) -> Result<Self, ModelFileError> {
        const KEY: &str = "general.architecture";
        let name = file.metadata().str(KEY)?;
        let Some(architecture) = architecture::find(name) else {
            let fault = Fault::Unsupported(format!("architecture {name:?}"));
            return Err(file.error(KEY, fault));
        };
        let keys = Keys {
            file,
            architecture: name,
        };
        let needed = NEEDED.map(|key| keys.key(key));
        let needed = needed.each_ref().map(String::as_str);
        file.metadata().require(name, &needed)?;
        refuse::unsupported(&keys)?;
        let width = keys.size("embedding_length", MAX_WIDTH)?;
        let heads = keys.size("attention.head_count", MAX_WIDTH)?;
        let head_dim = keys.head_dim(width, heads)?;
        let layers = keys.size("block_count", MAX_LAYERS)?;
        let context = keys.size("context_length", MAX_CONTEXT)?;
        let rope = keys.rope(context, head_dim)?;
        let root = if architecture.embedding_root {
            width
        } else {
            1
        };
        let spec = Self {
            layers,
            width,
            heads,
            kv_heads: keys.size_or("attention.head_count_kv", MAX_WIDTH, heads)?,
            head_dim,
            hidden: keys.size("feed_forward_length", MAX_WIDTH)?,
            vocab: vocabulary(file)?,
            context,
            epsilon: keys.float("attention.layer_norm_rms_epsilon")?,
            sliding: keys.sliding(architecture, layers, &rope)?,
            rope,
            pairs: architecture.pairs,
            attention_scale: keys.attention_scale(
                architecture,
                (layers, width, heads),
                head_dim,
            )?,
            embedding_scale: (root as f32).sqrt(),
            activation: architecture.activation,
            biases: architecture.biases || file.tensor("blk.0.attn_q.bias").is_some(),
            head_norms: architecture.head_norms,
            output_norms: architecture.output_norms,
        };
        keys.check(&spec)?;
        Ok(spec)
    }
}

/// The vocabulary is what the embedding has rows for.
fn vocabulary(file: &dyn Checkpoint) -> Result<usize, ModelFileError> {
    let name = "token_embd.weight";
    let tensor = file
        .tensor(name)
        .ok_or_else(|| file.error(name, Fault::Missing))?;
    match tensor.dims[..] {
        [_, rows] => usize::try_from(rows)
            .map_err(|_| file.error(name, Fault::Invalid(format!("{rows} rows")))),
        _ => Err(file.error(
            name,
            Fault::Invalid(format!("axes {:?}, expected two", tensor.dims)),
        )),
    }
}

impl Keys<'_> {
    fn head_dim(&self, width: usize, heads: usize) -> Result<usize, ModelFileError> {
        if let Some(value) = self.opt_u32("attention.key_length")? {
            return self.bounded("attention.key_length", value, MAX_WIDTH);
        }
        if !width.is_multiple_of(heads) {
            let reason = format!("{heads} heads do not divide a width of {width}");
            return Err(self.invalid("attention.head_count", reason));
        }
        Ok(width / heads)
    }

    fn rope(&self, context: usize, head_dim: usize) -> Result<RopeSpec, ModelFileError> {
        Ok(RopeSpec {
            base: self.float_or("rope.freq_base", DEFAULT_ROPE_BASE)?,
            scaling: self.scaling(context)?,
            divisors: self.divisors(head_dim)?,
        })
    }

    /// Old files say nothing but a factor, under one of two names; it is linear then.
    fn scaling(&self, context: usize) -> Result<RopeScaling, ModelFileError> {
        let kind = self.opt_str("rope.scaling.type")?;
        let mut factor = None;
        for name in ["rope.scaling.factor", "rope.scale_linear"] {
            // A factor of 0 stands for none.
            if factor.is_none() && self.opt_f32(name)?.is_some_and(|factor| factor != 0.0) {
                factor = Some(self.float_or(name, 1.0)?);
            }
        }
        let named = || factor.map_or_else(|| self.float("rope.scaling.factor"), Ok);
        match kind {
            Some("none") => Ok(RopeScaling::None),
            None => Ok(factor.map_or(RopeScaling::None, |factor| RopeScaling::Linear { factor })),
            Some("linear") => Ok(RopeScaling::Linear { factor: named()? }),
            Some("yarn") => self.yarn(named()?, context),
            Some(other) => {
                let what = format!("rope scaling {other:?}");
                Err(self.unsupported("rope.scaling.type", what))
            }
        }
    }

    fn yarn(&self, factor: f32, context: usize) -> Result<RopeScaling, ModelFileError> {
        let share = "rope.scaling.yarn_ext_factor";
        if let Some(value) = self.opt_f32(share)?
            && value != 1.0
            && value >= 0.0
        {
            return Err(self.unsupported(share, format!("a ramp of {value}")));
        }
        let mut magnitude = RopeScaling::yarn_magnitude(factor);
        for name in ["rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor"] {
            magnitude *= self.float_or(name, 1.0)?;
        }
        let original = "rope.scaling.original_context_length";
        Ok(RopeScaling::Yarn {
            factor,
            original: self.size_or(original, MAX_CONTEXT, context)?,
            fast: self.float_or("rope.scaling.yarn_beta_fast", YARN_FAST)?,
            slow: self.float_or("rope.scaling.yarn_beta_slow", YARN_SLOW)?,
            magnitude,
        })
    }

    fn divisors(&self, head_dim: usize) -> Result<Option<Vec<f32>>, ModelFileError> {
        let Some(tensor) = self.file.tensor(DIVISORS) else {
            return Ok(None);
        };
        let fault = |fault| self.file.error(DIVISORS, fault);
        if tensor.kind != TensorKind::F32 {
            let what = format!("rotary factors of kind {}", tensor.kind);
            return Err(fault(Fault::Unsupported(what)));
        }
        if tensor.dims[..] != [head_dim as u64 / 2] {
            let reason = format!("axes {:?}, expected [{}]", tensor.dims, head_dim / 2);
            return Err(fault(Fault::Invalid(reason)));
        }
        let mut bytes = Vec::new();
        self.file.read_tensor(tensor, &mut bytes)?;
        let numbers = bytes.as_chunks::<4>().0.iter();
        let numbers: Vec<f32> = numbers.map(|number| f32::from_le_bytes(*number)).collect();
        match numbers.iter().find(|x| !(x.is_finite() && **x > 0.0)) {
            Some(x) => Err(fault(Fault::Invalid(format!(
                "{x} is not a positive number"
            )))),
            None => Ok(Some(numbers)),
        }
    }

    fn sliding(
        &self,
        architecture: &Architecture,
        layers: usize,
        rope: &RopeSpec,
    ) -> Result<Option<Sliding>, ModelFileError> {
        const KEY: &str = "attention.sliding_window";
        let window = match self.opt_u32(KEY)? {
            None | Some(0) => return Ok(None),
            Some(window) => window as usize,
        };
        let (period, rope) = match architecture.window {
            Window::Unknown => {
                let what = format!("a sliding window of {window} in unstated layers");
                return Err(self.unsupported(KEY, what));
            }
            Window::Every => (0, rope.clone()),
            Window::Pattern { period, base } => {
                let base = self.float_or("rope.freq_base_swa", base)?;
                (period, RopeSpec::plain(base))
            }
        };
        Ok(Some(Sliding {
            window,
            layers: self.limited_layers(period, layers)?,
            rope,
        }))
    }

    /// Which layers the window limits: all but each `period`th, all where the period is 0, or as listed one by one.
    fn limited_layers(&self, period: u32, layers: usize) -> Result<Vec<bool>, ModelFileError> {
        const KEY: &str = "attention.sliding_window_pattern";
        let listed = self.file.metadata().get(&self.key(KEY));
        if let Some(Value::Array(Array::Bool(listed))) = listed {
            if listed.len() == layers {
                return Ok(listed.clone());
            }
            let reason = format!("{} entries for {layers} layers", listed.len());
            return Err(self.invalid(KEY, reason));
        }
        let period = self.opt_u32(KEY)?.unwrap_or(period) as usize;
        let limited = |layer: usize| period == 0 || !(layer + 1).is_multiple_of(period);
        Ok((0..layers).map(limited).collect())
    }

    fn attention_scale(
        &self,
        architecture: &Architecture,
        (layers, width, heads): (usize, usize, usize),
        head_dim: usize,
    ) -> Result<f32, ModelFileError> {
        const KEY: &str = "attention.scale";
        // A scale of 0 stands for the usual one.
        if self.opt_f32(KEY)?.is_some_and(|scale| scale != 0.0) {
            return self.float(KEY);
        }
        let size = if architecture.wide_scores == Some(layers) {
            (width / heads).max(1)
        } else {
            head_dim
        };
        Ok(1.0 / (size as f32).sqrt())
    }

    fn check(&self, spec: &DecoderSpec) -> Result<(), ModelFileError> {
        let (heads, kv_heads, head_dim) = (spec.heads, spec.kv_heads, spec.head_dim);
        if !heads.is_multiple_of(kv_heads) {
            let reason = format!("{kv_heads} key heads do not divide {heads} query heads");
            return Err(self.invalid("attention.head_count_kv", reason));
        }
        if !head_dim.is_multiple_of(16) || head_dim > compere_cpu::MAX_HEAD_DIM {
            let most = compere_cpu::MAX_HEAD_DIM;
            let reason = format!("heads of {head_dim}; supported are multiples of 16 up to {most}");
            return Err(self.invalid("attention.key_length", reason));
        }
        for name in [
            "rope.dimension_count",
            "rope.dimension_count_swa",
            "attention.value_length",
            "attention.key_length_swa",
            "attention.value_length_swa",
        ] {
            let value = self.size_or(name, MAX_WIDTH, head_dim)?;
            if value != head_dim {
                return Err(
                    self.invalid(name, format!("{value} is not the head's size {head_dim}"))
                );
            }
        }
        for (name, value) in [
            ("embedding_length", spec.width),
            ("feed_forward_length", spec.hidden),
        ] {
            if !value.is_multiple_of(32) {
                return Err(self.invalid(name, format!("{value} is not a multiple of 32")));
            }
        }
        Ok(())
    }
}
