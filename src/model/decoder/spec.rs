//! What a decoder looks like, as data: one description for every architecture.

use compere_cpu::Gate;

use super::rope::RopeSpec;

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
    /// Numbers of one head, a multiple of 16.
    pub head_dim: usize,
    /// Width between the two halves of the feed-forward layer.
    pub hidden: usize,
    /// Tokens of the vocabulary.
    pub vocab: usize,
    /// Positions that the model was made for.
    pub context: usize,
    /// Added to the mean of squares in norms.
    pub epsilon: f32,
    /// Rotary position embedding of the layers that see all of the past.
    pub rope: RopeSpec,
    /// How rows of queries and keys are paired for it.
    pub pairs: Pairs,
    /// The layers that see only the latest positions, where there are any.
    pub sliding: Option<Sliding>,
    /// What attention's scores are multiplied with.
    pub attention_scale: f32,
    /// What embeddings are multiplied with.
    pub embedding_scale: f32,
    /// What the gate of the feed-forward layer goes through.
    pub activation: Activation,
    /// Whether queries, keys and values have biases.
    pub biases: bool,
    /// Whether each head of queries and keys goes through a norm.
    pub head_norms: bool,
    /// Whether the outputs of attention and of the feed-forward layer go through a norm before they are added.
    pub output_norms: bool,
}

/// Which numbers of a head the rotary embedding turns together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// Numbers 2i and 2i + 1.
    Neighbours,
    /// Numbers i and i + half a head.
    Halves,
}

/// What the gate of the feed-forward layer goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x / (1 + exp(-x))`
    Silu,
    /// The Gaussian error linear unit, approximated by a hyperbolic tangent.
    Gelu,
}

/// Layers that see only the latest positions.
#[derive(Clone, Debug, PartialEq)]
pub struct Sliding {
    /// Positions that a row sees, its own included; at least 1.
    pub window: usize,
    /// Which layers, `[layers]`.
    pub layers: Vec<bool>,
    /// Their rotary position embedding.
    pub rope: RopeSpec,
}

impl DecoderSpec {
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

    /// What `layer` is limited to, if it is.
    #[must_use]
    pub fn sliding(&self, layer: usize) -> Option<&Sliding> {
        let limited = |sliding: &&Sliding| sliding.layers.get(layer) == Some(&true);
        self.sliding.as_ref().filter(limited)
    }
}

impl From<Activation> for Gate {
    fn from(activation: Activation) -> Self {
        match activation {
            Activation::Silu => Self::Silu,
            Activation::Gelu => Self::Gelu,
        }
    }
}
