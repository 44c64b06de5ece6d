//! The architectures that one decoder computes, and how they differ.

use super::spec::{Activation, Pairs};

/// What an architecture's name in a file stands for.
#[derive(Debug)]
pub(super) struct Architecture {
    pub(super) name: &'static str,
    pub(super) pairs: Pairs,
    pub(super) activation: Activation,
    /// Whether files must have biases of queries, keys and values; all may.
    pub(super) biases: bool,
    pub(super) head_norms: bool,
    pub(super) output_norms: bool,
    /// Whether embeddings are multiplied with the root of the width.
    pub(super) embedding_root: bool,
    /// What a window in the metadata means.
    pub(super) window: Window,
    /// A size for which files leave it to the reader that scores are divided by the root of width over heads, not by the
    /// root of a head's size: its number of layers.
    pub(super) wide_scores: Option<usize>,
}

/// Which layers a window in the metadata limits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Window {
    /// The metadata does not say; it is refused.
    Unknown,
    /// Every layer.
    Every,
    /// All but each `period`th, where the metadata does not say otherwise; limited layers have a rotary base of their
    /// own.
    Pattern { period: u32, base: f32 },
}

const LLAMA: Architecture = Architecture {
    name: "llama",
    // Files hold the rows of queries and keys in an order in which pairs are neighbours.
    pairs: Pairs::Neighbours,
    activation: Activation::Silu,
    biases: false,
    head_norms: false,
    output_norms: false,
    embedding_root: false,
    // Mistral comes under this name.
    window: Window::Every,
    wide_scores: None,
};

static KNOWN: [Architecture; 4] = [
    LLAMA,
    Architecture {
        name: "qwen2",
        pairs: Pairs::Halves,
        biases: true,
        window: Window::Unknown,
        ..LLAMA
    },
    Architecture {
        name: "qwen3",
        pairs: Pairs::Halves,
        head_norms: true,
        window: Window::Unknown,
        ..LLAMA
    },
    Architecture {
        name: "gemma3",
        pairs: Pairs::Halves,
        activation: Activation::Gelu,
        head_norms: true,
        output_norms: true,
        embedding_root: true,
        window: Window::Pattern {
            period: 6,
            base: 10_000.0,
        },
        // The model of 27 billion weights.
        wide_scores: Some(62),
        ..LLAMA
    },
];

/// The architecture of that name.
pub(super) fn find(name: &str) -> Option<&'static Architecture> {
    KNOWN.iter().find(|known| known.name == name)
}
