//! Random models of every architecture, of widths that every type can hold.

use std::path::Path;

use compere::model::gguf::TensorKind;

use super::file::{Writer, put_text};
use crate::Failure;

const LAYERS: usize = 8;
const WIDTH: u64 = 768;
const KEYS: u64 = 256;
const HEAD: u64 = 64;
const HIDDEN: u64 = 2048;
const VOCAB: u64 = 32_000;

/// What a model of an architecture has beside the matrices that all have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Architecture {
    /// As files name it.
    pub(super) name: &'static str,
    biases: bool,
    head_norms: bool,
    output_norms: bool,
    /// Positions that most layers see, where not all.
    window: Option<u64>,
}

/// All that the decoder computes.
pub(super) const ARCHITECTURES: [Architecture; 4] = [
    Architecture {
        name: "llama",
        biases: false,
        head_norms: false,
        output_norms: false,
        window: None,
    },
    Architecture {
        name: "qwen2",
        biases: true,
        head_norms: false,
        output_norms: false,
        window: None,
    },
    Architecture {
        name: "qwen3",
        biases: false,
        head_norms: true,
        output_norms: false,
        window: None,
    },
    Architecture {
        name: "gemma3",
        biases: false,
        head_norms: true,
        output_norms: true,
        window: Some(256),
    },
];

/// Writes a random model of 75 million parameters, every matrix Q8_0.
pub(super) fn write(architecture: Architecture, target: &Path) -> Result<(), Failure> {
    let names = tensors(architecture);
    let tensors: Vec<(&str, &[u64])> = names
        .iter()
        .map(|(name, dims)| (name.as_str(), dims.as_slice()))
        .collect();
    let header = metadata(architecture, tensors.len());
    let mut out = Writer::new(target, &header, &tensors, TensorKind::Q8_0)?;
    let mut state = 1_u32;
    for (name, dims) in &tensors {
        let size = 1.7 / f32::from(u16::try_from(dims[0])?).sqrt();
        out.tensor(dims, TensorKind::Q8_0, |_, numbers| {
            for number in numbers {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let unit = f32::from(u16::try_from(state >> 16).expect("16 bits")) / 32_768.0 - 1.0;
                *number = match dims.len() {
                    1 if name.ends_with("bias") => unit / 2.0,
                    1 => 1.0,
                    _ => unit * size,
                };
            }
        })?;
    }
    out.finish()
}

/// Token ids for it, the same everywhere: two prompts of 64.
pub(super) fn prompts() -> Vec<Vec<u32>> {
    let token = |at: u32| at.wrapping_mul(2_654_435_761) % VOCAB as u32;
    [1, 1000]
        .map(|from| (from..from + 64).map(token).collect())
        .into()
}

fn tensors(architecture: Architecture) -> Vec<(String, Vec<u64>)> {
    let mut names = vec![
        ("token_embd.weight".to_owned(), vec![WIDTH, VOCAB]),
        ("output_norm.weight".to_owned(), vec![WIDTH]),
    ];
    let mut parts = vec![
        ("attn_norm.weight", vec![WIDTH]),
        ("attn_q.weight", vec![WIDTH, WIDTH]),
        ("attn_k.weight", vec![WIDTH, KEYS]),
        ("attn_v.weight", vec![WIDTH, KEYS]),
        ("attn_output.weight", vec![WIDTH, WIDTH]),
        ("ffn_norm.weight", vec![WIDTH]),
        ("ffn_gate.weight", vec![WIDTH, HIDDEN]),
        ("ffn_up.weight", vec![WIDTH, HIDDEN]),
        ("ffn_down.weight", vec![HIDDEN, WIDTH]),
    ];
    if architecture.biases {
        let widths = [
            ("attn_q.bias", WIDTH),
            ("attn_k.bias", KEYS),
            ("attn_v.bias", KEYS),
        ];
        parts.extend(widths.map(|(part, width)| (part, vec![width])));
    }
    if architecture.head_norms {
        let norms = ["attn_q_norm.weight", "attn_k_norm.weight"];
        parts.extend(norms.map(|part| (part, vec![HEAD])));
    }
    if architecture.output_norms {
        let norms = ["post_attention_norm.weight", "post_ffw_norm.weight"];
        parts.extend(norms.map(|part| (part, vec![WIDTH])));
    }
    for layer in 0..LAYERS {
        let of_layer =
            |(part, dims): &(&str, Vec<u64>)| (format!("blk.{layer}.{part}"), dims.clone());
        names.extend(parts.iter().map(of_layer));
    }
    names
}

/// The bytes before the table of tensors.
fn metadata(architecture: Architecture, tensors: usize) -> Vec<u8> {
    let texts = [
        ("general.architecture", architecture.name),
        ("tokenizer.ggml.model", "gpt2"),
    ];
    let mut sizes = vec![
        ("block_count", LAYERS as u64),
        ("context_length", 4096),
        ("embedding_length", WIDTH),
        ("feed_forward_length", HIDDEN),
        ("attention.head_count", WIDTH / HEAD),
        ("attention.head_count_kv", KEYS / HEAD),
        ("attention.key_length", HEAD),
        ("attention.value_length", HEAD),
    ];
    sizes.extend(
        architecture
            .window
            .map(|window| ("attention.sliding_window", window)),
    );
    let floats = [
        ("attention.layer_norm_rms_epsilon", 1e-5_f32),
        ("rope.freq_base", 1e4),
    ];
    let mut out = b"GGUF\x03\0\0\0".to_vec();
    let keys = texts.len() + sizes.len() + floats.len() + 1;
    let counts = [tensors as u64, keys as u64];
    out.extend(counts.iter().flat_map(|count| count.to_le_bytes()));
    for (key, text) in texts {
        put_text(&mut out, key);
        out.extend(8_u32.to_le_bytes());
        put_text(&mut out, text);
    }
    for (key, size) in sizes {
        put_text(&mut out, &format!("{}.{key}", architecture.name));
        out.extend(10_u32.to_le_bytes());
        out.extend(size.to_le_bytes());
    }
    for (key, number) in floats {
        put_text(&mut out, &format!("{}.{key}", architecture.name));
        out.extend(6_u32.to_le_bytes());
        out.extend(number.to_le_bytes());
    }
    put_text(&mut out, "tokenizer.ggml.tokens");
    out.extend([9_u32, 8].iter().flat_map(|kind| kind.to_le_bytes()));
    out.extend(VOCAB.to_le_bytes());
    for token in 0..VOCAB {
        put_text(&mut out, &format!("t{token}"));
    }
    out
}
