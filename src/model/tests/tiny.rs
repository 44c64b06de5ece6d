//! Random models of every architecture, small enough to try everything on.

use std::iter::Cycle;
use std::slice::Iter;

use crate::model::gguf::testing::GgufBuilder;
use crate::model::gguf::{TensorKind, Value};

/// Shape of a tiny model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiny {
    pub(super) architecture: &'static str,
    pub(super) layers: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    pub(super) width: usize,
    pub(super) hidden: usize,
    pub(super) vocab: usize,
    pub(super) separate_head: bool,
    /// Kinds that the matrices have in turns, instead of the builder's own mixture.
    pub(super) kinds: &'static [TensorKind],
    /// Biases, norms of heads, norms of outputs.
    pub(super) parts: [bool; 3],
    /// Positions that layers with a window see.
    pub(super) window: Option<usize>,
    pub(super) seed: u64,
}

/// Three query heads a key head, a head width that is not the residual width over the heads, sizes that are no multiple
/// of the tiles.
pub(super) const TINY: Tiny = Tiny {
    architecture: "llama",
    layers: 2,
    heads: 6,
    kv_heads: 2,
    head_dim: 32,
    width: 96,
    hidden: 160,
    vocab: 75,
    separate_head: false,
    kinds: &[],
    parts: [false; 3],
    window: None,
    seed: 7,
};

/// The other architectures, with heads that end inside a block of 32 numbers, windows that end inside a block of
/// positions, and as many layers as show every kind.
pub(super) const OTHERS: [Tiny; 4] = [
    Tiny {
        window: Some(21),
        head_dim: 80,
        ..TINY
    },
    Tiny {
        architecture: "qwen2",
        parts: [true, false, false],
        head_dim: 48,
        ..TINY
    },
    Tiny {
        architecture: "qwen3",
        parts: [false, true, false],
        head_dim: 80,
        separate_head: true,
        ..TINY
    },
    Tiny {
        architecture: "gemma3",
        parts: [false, true, true],
        window: Some(19),
        layers: 7,
        heads: 2,
        kv_heads: 1,
        width: 64,
        hidden: 64,
        ..TINY
    },
];

impl Tiny {
    /// The file, to which a test may add.
    pub(super) fn builder(self) -> GgufBuilder {
        let tokens: Vec<String> = (0..self.vocab).map(|token| format!("t{token}")).collect();
        let key = |name: &str| format!("{}.{name}", self.architecture);
        let mut file = GgufBuilder::new()
            .text("general.architecture", self.architecture)
            .text("tokenizer.ggml.model", "gpt2")
            .strings("tokenizer.ggml.tokens", &tokens)
            .u32(&key("block_count"), self.layers as u32)
            .u32(&key("context_length"), 512)
            .u32(&key("embedding_length"), self.width as u32)
            .u32(&key("feed_forward_length"), self.hidden as u32)
            .u32(&key("attention.head_count"), self.heads as u32)
            .u32(&key("attention.head_count_kv"), self.kv_heads as u32)
            .u32(&key("attention.key_length"), self.head_dim as u32)
            .f32(&key("attention.layer_norm_rms_epsilon"), 1e-5)
            .value(&key("rope.freq_base"), Value::F32(1000.0));
        if let Some(window) = self.window {
            file = file.u32(&key("attention.sliding_window"), window as u32);
        }
        let mut random = Random {
            state: self.seed,
            kinds: self.kinds.iter().cycle(),
        };
        file = random.matrix(file, "token_embd", TensorKind::Q8_0, self.vocab, self.width);
        file = random.norm(file, "output_norm", self.width);
        if self.separate_head {
            file = random.matrix(file, "output", TensorKind::F16, self.vocab, self.width);
        }
        for layer in 0..self.layers {
            file = self.layer(file, layer, &mut random);
        }
        file
    }

    fn layer(self, mut file: GgufBuilder, layer: usize, random: &mut Random) -> GgufBuilder {
        let (queries, keys) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let name = |part: &str| format!("blk.{layer}.{part}");
        // Layers differ in kinds, so that every kind and mixed inputs occur.
        let other = [TensorKind::Q4_0, TensorKind::F16, TensorKind::F32][layer % 3];
        file = random.norm(file, &name("attn_norm"), self.width);
        file = random.norm(file, &name("ffn_norm"), self.width);
        for (part, kind, rows, cols) in [
            ("attn_q", TensorKind::Q4_1, queries, self.width),
            ("attn_k", TensorKind::Q4_1, keys, self.width),
            ("attn_v", other, keys, self.width),
            ("attn_output", TensorKind::Q4_1, self.width, queries),
            ("ffn_gate", TensorKind::Q4_1, self.hidden, self.width),
            ("ffn_up", other, self.hidden, self.width),
            ("ffn_down", TensorKind::Q8_0, self.width, self.hidden),
        ] {
            file = random.matrix(file, &name(part), kind, rows, cols);
        }
        let [biases, head_norms, output_norms] = self.parts;
        for (part, width) in [("attn_q", queries), ("attn_k", keys), ("attn_v", keys)] {
            if biases {
                let numbers: Vec<f32> = (0..width).map(|_| 0.5 * random.number()).collect();
                let name = format!("{}.bias", name(part));
                file = file.f32_tensor(&name, &[width as u64], &numbers);
            }
        }
        for (exists, part, width) in [
            (head_norms, "attn_q_norm", self.head_dim),
            (head_norms, "attn_k_norm", self.head_dim),
            (output_norms, "post_attention_norm", self.width),
            (output_norms, "post_ffw_norm", self.width),
        ] {
            if exists {
                file = random.norm(file, &name(part), width);
            }
        }
        file
    }
}

/// A small generator, the same everywhere.
struct Random {
    state: u64,
    kinds: Cycle<Iter<'static, TensorKind>>,
}

impl Random {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 16
    }

    /// From -1 to 1.
    fn number(&mut self) -> f32 {
        (self.next() % 20_001) as f32 / 10_000.0 - 1.0
    }

    fn norm(&mut self, file: GgufBuilder, name: &str, width: usize) -> GgufBuilder {
        let values: Vec<f32> = (0..width).map(|_| 1.0 + 0.3 * self.number()).collect();
        file.f32_tensor(&format!("{name}.weight"), &[width as u64], &values)
    }

    fn matrix(
        &mut self,
        file: GgufBuilder,
        name: &str,
        kind: TensorKind,
        rows: usize,
        cols: usize,
    ) -> GgufBuilder {
        let kind = self.kinds.next().copied().unwrap_or(kind);
        // Outputs of about the size of the inputs.
        let size = 1.5 / (cols as f32).sqrt();
        let blocks = rows * cols / kind.block_elements() as usize;
        let data: Vec<u8> = (0..blocks).flat_map(|_| self.block(kind, size)).collect();
        file.tensor(
            &format!("{name}.weight"),
            &[cols as u64, rows as u64],
            kind,
            data,
        )
    }

    fn block(&mut self, kind: TensorKind, size: f32) -> Vec<u8> {
        let mut bytes = Vec::new();
        let scale = size * (1.0 + 0.5 * self.number());
        match kind {
            TensorKind::F32 => return (self.number() * size).to_le_bytes().to_vec(),
            TensorKind::F16 => return half(self.number() * size).to_le_bytes().to_vec(),
            TensorKind::Q8_0 => bytes.extend(half(scale / 127.0).to_le_bytes()),
            TensorKind::Q4_0 => bytes.extend(half(scale / 8.0).to_le_bytes()),
            TensorKind::Q4_1 => {
                bytes.extend(half(scale / 7.5).to_le_bytes());
                bytes.extend(half(-scale * (1.0 + 0.1 * self.number())).to_le_bytes());
            }
            TensorKind::BF16 => {
                return (self.number() * size).to_le_bytes()[2..].to_vec();
            }
            TensorKind::Q5_0 => bytes.extend(half(scale / 16.0).to_le_bytes()),
            TensorKind::Q5_1 => {
                bytes.extend(half(scale / 15.5).to_le_bytes());
                bytes.extend(half(-scale * (1.0 + 0.1 * self.number())).to_le_bytes());
            }
            // Factors of six bits are 32 on average.
            TensorKind::Q4_K | TensorKind::Q5_K => {
                let levels = if kind == TensorKind::Q4_K { 7.5 } else { 15.5 };
                bytes.extend(half(scale / levels / 32.0).to_le_bytes());
                bytes.extend(half(scale / 32.0).to_le_bytes());
            }
            TensorKind::Q6_K => {}
            other => panic!("no random {other}"),
        }
        while bytes.len() < kind.block_bytes() as usize {
            bytes.push(self.next() as u8);
        }
        if kind == TensorKind::Q6_K {
            bytes[208..].copy_from_slice(&half(scale / 2048.0).to_le_bytes());
        }
        bytes
    }
}

/// The half float nearest below; fine for numbers of ordinary size.
fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    let exponent = (bits >> 23 & 0xff) as i32 - 127 + 15;
    if exponent <= 0 {
        return (bits >> 16 & 0x8000) as u16 | (value.abs() * 2f32.powi(24)) as u16;
    }
    ((bits >> 16 & 0x8000) | (exponent as u32) << 10 | (bits >> 13 & 0x3ff)) as u16
}
