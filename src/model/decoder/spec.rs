//! What a decoder looks like: read from a file's metadata, checked, and everything that is not supported refused.

use crate::model::checkpoint::Checkpoint;
use crate::model::gguf::{Fault, ModelFileError};

/// Shape and constants of a decoder. Widths are counts of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderSpec {
    /// Decoder layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Numbers of one head, a multiple of 32.
    pub head_dim: usize,
    /// Width between the two halves of the feed-forward layer.
    pub hidden: usize,
    /// Tokens of the vocabulary.
    pub vocab: usize,
    /// Positions that the model was made for.
    pub context: usize,
    /// Base of the rotary position embedding.
    pub rope_base: f32,
    /// Added to the mean of squares in norms.
    pub epsilon: f32,
}

/// The rotary base where a file does not say.
const DEFAULT_ROPE_BASE: f32 = 10_000.0;
/// Bounds that keep a hostile file from asking for absurd tables; far above any real model.
const MAX_LAYERS: usize = 1024;
const MAX_WIDTH: usize = 1 << 20;
const MAX_CONTEXT: usize = 1 << 24;

/// Typed reading of the keys of one architecture.
struct Keys<'a> {
    file: &'a dyn Checkpoint,
    architecture: &'a str,
}

impl DecoderSpec {
    /// Reads the description of a `llama` decoder.
    ///
    /// # Errors
    /// Names the key that is missing, impossible, or asks for something not supported.
    pub fn read(file: &dyn Checkpoint) -> Result<Self, ModelFileError> {
        let architecture = file.metadata().str("general.architecture")?;
        if architecture != "llama" {
            let fault = Fault::Unsupported(format!("architecture {architecture:?}"));
            return Err(file.error("general.architecture", fault));
        }
        let keys = Keys { file, architecture };
        keys.refuse_unsupported()?;
        let width = keys.size("embedding_length", MAX_WIDTH)?;
        let heads = keys.size("attention.head_count", MAX_WIDTH)?;
        let spec = Self {
            layers: keys.size("block_count", MAX_LAYERS)?,
            width,
            heads,
            kv_heads: keys.size_or("attention.head_count_kv", MAX_WIDTH, heads)?,
            head_dim: keys.head_dim(width, heads)?,
            hidden: keys.size("feed_forward_length", MAX_WIDTH)?,
            vocab: vocabulary(file)?,
            context: keys.size("context_length", MAX_CONTEXT)?,
            rope_base: keys.float_or("rope.freq_base", DEFAULT_ROPE_BASE)?,
            epsilon: keys.float("attention.layer_norm_rms_epsilon")?,
        };
        keys.check(&spec)?;
        Ok(spec)
    }

    /// Width of all query heads.
    #[must_use]
    pub fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of all key heads, and of all value heads.
    #[must_use]
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
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
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    fn invalid(&self, name: &str, reason: String) -> ModelFileError {
        self.file.error(&self.key(name), Fault::Invalid(reason))
    }

    fn size(&self, name: &str, most: usize) -> Result<usize, ModelFileError> {
        let value = self.file.metadata().u32(&self.key(name))?;
        self.bounded(name, value, most)
    }

    fn size_or(&self, name: &str, most: usize, default: usize) -> Result<usize, ModelFileError> {
        match self.file.metadata().opt_u32(&self.key(name))? {
            Some(value) => self.bounded(name, value, most),
            None => Ok(default),
        }
    }

    fn bounded(&self, name: &str, value: u32, most: usize) -> Result<usize, ModelFileError> {
        match value as usize {
            value if (1..=most).contains(&value) => Ok(value),
            value => Err(self.invalid(name, format!("{value} is not from 1 to {most}"))),
        }
    }

    fn float(&self, name: &str) -> Result<f32, ModelFileError> {
        let value = self.file.metadata().f32(&self.key(name))?;
        self.positive(name, value)
    }

    fn float_or(&self, name: &str, default: f32) -> Result<f32, ModelFileError> {
        match self.file.metadata().opt_f32(&self.key(name))? {
            Some(value) => self.positive(name, value),
            None => Ok(default),
        }
    }

    fn positive(&self, name: &str, value: f32) -> Result<f32, ModelFileError> {
        if value.is_finite() && value > 0.0 {
            return Ok(value);
        }
        Err(self.invalid(name, format!("{value} is not a positive number")))
    }

    fn head_dim(&self, width: usize, heads: usize) -> Result<usize, ModelFileError> {
        if let Some(value) = self
            .file
            .metadata()
            .opt_u32(&self.key("attention.key_length"))?
        {
            return self.bounded("attention.key_length", value, MAX_WIDTH);
        }
        if !width.is_multiple_of(heads) {
            let reason = format!("{heads} heads do not divide a width of {width}");
            return Err(self.invalid("attention.head_count", reason));
        }
        Ok(width / heads)
    }

    /// Refuses, by name, what would change the result if it were ignored.
    fn refuse_unsupported(&self) -> Result<(), ModelFileError> {
        let metadata = self.file.metadata();
        let refuse = |name: &str, what: String| {
            Err(self.file.error(&self.key(name), Fault::Unsupported(what)))
        };
        if let Some(kind) = metadata.opt_str(&self.key("rope.scaling.type"))?
            && kind != "none"
        {
            return refuse("rope.scaling.type", format!("rope scaling {kind:?}"));
        }
        for name in ["rope.scaling.factor", "rope.scale_linear"] {
            if let Some(factor) = metadata.opt_f32(&self.key(name))?
                && factor != 1.0
                && factor != 0.0
            {
                return refuse(name, format!("rope scaling by {factor}"));
            }
        }
        for (name, what) in [
            ("attention.sliding_window", "a sliding window"),
            ("expert_count", "a mixture of experts"),
        ] {
            if metadata
                .opt_u32(&self.key(name))?
                .is_some_and(|value| value != 0)
            {
                return refuse(name, what.to_owned());
            }
        }
        Ok(())
    }

    fn check(&self, spec: &DecoderSpec) -> Result<(), ModelFileError> {
        let DecoderSpec {
            width,
            heads,
            kv_heads,
            head_dim,
            hidden,
            ..
        } = *spec;
        if !heads.is_multiple_of(kv_heads) {
            let reason = format!("{kv_heads} key heads do not divide {heads} query heads");
            return Err(self.invalid("attention.head_count_kv", reason));
        }
        if !head_dim.is_multiple_of(32) || head_dim > compere_cpu::MAX_HEAD_DIM {
            let most = compere_cpu::MAX_HEAD_DIM;
            let reason = format!("heads of {head_dim}; supported are multiples of 32 up to {most}");
            return Err(self.invalid("attention.key_length", reason));
        }
        for name in ["rope.dimension_count", "attention.value_length"] {
            let value = self.size_or(name, MAX_WIDTH, head_dim)?;
            if value != head_dim {
                return Err(
                    self.invalid(name, format!("{value} is not the head's size {head_dim}"))
                );
            }
        }
        for (name, value) in [("embedding_length", width), ("feed_forward_length", hidden)] {
            if !value.is_multiple_of(32) {
                return Err(self.invalid(name, format!("{value} is not a multiple of 32")));
            }
        }
        Ok(())
    }
}
