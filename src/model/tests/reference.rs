//! A decoder as plainly as it can be written: weights as numbers, one token after another, no cache but two lists.

use crate::model::decoder::{Activation, DecoderSpec, Pairs, RopeScaling, RopeSpec};
use crate::model::gguf::{GgufFile, TensorKind};

/// Where numbers lose precision on their way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Inputs {
    /// Nowhere.
    Exact,
    /// Where ours do: a product with quantised weights reads the nearest of 255 steps between the largest of 32 inputs
    /// and its opposite; keys and values are half floats.
    Rounded,
}

/// Logits of every position.
pub(super) fn logits(
    file: &GgufFile,
    spec: &DecoderSpec,
    tokens: &[u32],
    inputs: Inputs,
) -> Vec<Vec<f32>> {
    let matrix = |file, name: &str| Numbers {
        inputs,
        ..matrix(file, name)
    };
    let embedding = matrix(file, "token_embd.weight");
    let mut xs: Vec<Vec<f32>> = tokens
        .iter()
        .map(|&token| embedding.row(token as usize).to_vec())
        .collect();
    for x in xs.iter_mut().flatten() {
        *x *= spec.embedding_scale;
    }
    for layer in 0..spec.layers {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let normal = norms(file, &name("attn_norm.weight"), spec, &xs);
        let projections = ["attn_q", "attn_k", "attn_v"].map(|part| {
            let mut rows = matrix(file, &name(&format!("{part}.weight"))).times(&normal);
            if spec.biases {
                add_to_each(&mut rows, &vector(file, &name(&format!("{part}.bias"))));
            }
            if spec.head_norms && part != "attn_v" {
                let weight = vector(file, &name(&format!("{part}_norm.weight")));
                rows = rows
                    .iter()
                    .map(|row| heads_normed(row, &weight, spec))
                    .collect();
            }
            rows
        });
        let attended = attention(spec, layer, projections, inputs);
        let mut out = matrix(file, &name("attn_output.weight")).times(&attended);
        if spec.output_norms {
            out = norms(file, &name("post_attention_norm.weight"), spec, &out);
        }
        add(&mut xs, &out);
        let normal = norms(file, &name("ffn_norm.weight"), spec, &xs);
        let mut hidden = matrix(file, &name("ffn_gate.weight")).times(&normal);
        let up = matrix(file, &name("ffn_up.weight")).times(&normal);
        for (gate, up) in hidden.iter_mut().flatten().zip(up.iter().flatten()) {
            *gate = activated(spec.activation, *gate) * up;
        }
        let mut out = matrix(file, &name("ffn_down.weight")).times(&hidden);
        if spec.output_norms {
            out = norms(file, &name("post_ffw_norm.weight"), spec, &out);
        }
        add(&mut xs, &out);
    }
    let normal = norms(file, "output_norm.weight", spec, &xs);
    let head = file
        .tensor("output.weight")
        .map(|_| matrix(file, "output.weight"));
    head.unwrap_or(embedding).times(&normal)
}

fn activated(activation: Activation, x: f32) -> f32 {
    match activation {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Gelu => {
            let inner = (2.0 / std::f32::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        }
    }
}

fn add(xs: &mut [Vec<f32>], ys: &[Vec<f32>]) {
    for (x, y) in xs.iter_mut().flatten().zip(ys.iter().flatten()) {
        *x += y;
    }
}

fn add_to_each(rows: &mut [Vec<f32>], bias: &[f32]) {
    for row in rows {
        row.iter_mut().zip(bias).for_each(|(x, bias)| *x += bias);
    }
}

fn norms(file: &GgufFile, name: &str, spec: &DecoderSpec, xs: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let weight = vector(file, name);
    xs.iter().map(|x| normed(x, &weight, spec)).collect()
}

fn normed(x: &[f32], weight: &[f32], spec: &DecoderSpec) -> Vec<f32> {
    let squares: f32 = x.iter().map(|x| x * x).sum();
    let rms = (squares / x.len() as f32 + spec.epsilon).sqrt();
    x.iter()
        .zip(weight)
        .map(|(x, weight)| x / rms * weight)
        .collect()
}

fn heads_normed(row: &[f32], weight: &[f32], spec: &DecoderSpec) -> Vec<f32> {
    let heads = row.chunks(spec.head_dim);
    heads.flat_map(|head| normed(head, weight, spec)).collect()
}

/// Turns each pair of a head by its angle, where the file has it.
fn rotate(head: &mut [f32], position: usize, pairs: Pairs, rope: &RopeSpec) {
    let (dim, magnitude) = match rope.scaling {
        RopeScaling::Yarn { magnitude, .. } => (head.len(), magnitude),
        _ => (head.len(), 1.0),
    };
    for (pair, frequency) in rope.frequencies(dim).iter().enumerate() {
        let (first, second) = match pairs {
            Pairs::Neighbours => (2 * pair, 2 * pair + 1),
            Pairs::Halves => (pair, pair + dim / 2),
        };
        let angle = position as f64 * frequency;
        let (sin, cos) = (
            angle.sin() as f32 * magnitude,
            angle.cos() as f32 * magnitude,
        );
        (head[first], head[second]) = (
            head[first] * cos - head[second] * sin,
            head[first] * sin + head[second] * cos,
        );
    }
}

fn attention(
    spec: &DecoderSpec,
    layer: usize,
    [mut queries, mut keys, mut values]: [Vec<Vec<f32>>; 3],
    inputs: Inputs,
) -> Vec<Vec<f32>> {
    let dim = spec.head_dim;
    let sliding = spec.sliding(layer);
    let rope = sliding.map_or(&spec.rope, |sliding| &sliding.rope);
    for rows in [&mut queries, &mut keys] {
        for (position, row) in rows.iter_mut().enumerate() {
            for head in row.chunks_mut(dim) {
                rotate(head, position, spec.pairs, rope);
            }
        }
    }
    if inputs == Inputs::Rounded {
        let stored = keys.iter_mut().chain(&mut values).flatten();
        stored.for_each(|x| *x = to_half(*x));
    }
    let head = |row: &[f32], index: usize| row[index * dim..(index + 1) * dim].to_vec();
    let one = |position: usize, index: usize| -> Vec<f32> {
        let query = head(&queries[position], index);
        let kv = index / (spec.heads / spec.kv_heads);
        let hidden = |at: usize| sliding.is_some_and(|sliding| position - at >= sliding.window);
        let seen: Vec<usize> = (0..=position).filter(|&at| !hidden(at)).collect();
        let scores: Vec<f32> = seen
            .iter()
            .map(|&at| dot(&query, &head(&keys[at], kv)) * spec.attention_scale)
            .collect();
        let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights: Vec<f32> = scores.iter().map(|score| (score - largest).exp()).collect();
        let sum: f32 = weights.iter().sum();
        let mut out = vec![0.0; dim];
        for (&at, weight) in seen.iter().zip(&weights) {
            for (out, value) in out.iter_mut().zip(head(&values[at], kv)) {
                *out += weight / sum * value;
            }
        }
        out
    };
    (0..queries.len())
        .map(|position| {
            (0..spec.heads)
                .flat_map(|index| one(position, index))
                .collect()
        })
        .collect()
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

struct Numbers {
    cols: usize,
    quantised: bool,
    inputs: Inputs,
    numbers: Vec<f32>,
}

impl Numbers {
    fn row(&self, row: usize) -> &[f32] {
        &self.numbers[row * self.cols..(row + 1) * self.cols]
    }

    fn times(&self, xs: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let rounded = self.quantised && self.inputs == Inputs::Rounded;
        let product = |x: &Vec<f32>| {
            let x = if rounded { bytes(x) } else { x.clone() };
            let rows = self.numbers.chunks(self.cols);
            rows.map(|row| dot(row, &x)).collect()
        };
        xs.iter().map(product).collect()
    }
}

fn bytes(x: &[f32]) -> Vec<f32> {
    let block = |block: &[f32]| {
        let scale = block.iter().fold(0.0, |max: f32, x| max.max(x.abs())) / 127.0;
        let round = |x: &f32| {
            if scale == 0.0 {
                0.0
            } else {
                (x / scale).round_ties_even() * scale
            }
        };
        block.iter().map(round).collect::<Vec<f32>>()
    };
    x.chunks(32).flat_map(block).collect()
}

fn vector(file: &GgufFile, name: &str) -> Vec<f32> {
    matrix(file, name).numbers
}

fn matrix(file: &GgufFile, name: &str) -> Numbers {
    let tensor = file.tensor(name).unwrap();
    let mut bytes = Vec::new();
    file.read_tensor(tensor, &mut bytes).unwrap();
    let blocks = bytes.chunks(tensor.kind.block_bytes() as usize);
    Numbers {
        cols: tensor.dims[0] as usize,
        quantised: tensor.kind.block_elements() >= 32,
        inputs: Inputs::Exact,
        numbers: blocks
            .flat_map(|block| numbers(tensor.kind, block))
            .collect(),
    }
}

fn numbers(kind: TensorKind, block: &[u8]) -> Vec<f32> {
    let half_at = |at: usize| half(u16::from_le_bytes([block[at], block[at + 1]]));
    let nibbles = |bytes: &[u8]| -> Vec<f32> {
        let low = bytes.iter().map(|byte| f32::from(byte & 15));
        low.chain(bytes.iter().map(|byte| f32::from(byte >> 4)))
            .collect()
    };
    match kind {
        TensorKind::F32 => vec![f32::from_le_bytes(block.try_into().unwrap())],
        TensorKind::F16 => vec![half_at(0)],
        TensorKind::Q8_0 => block[2..]
            .iter()
            .map(|&q| half_at(0) * f32::from(q as i8))
            .collect(),
        TensorKind::Q4_0 => nibbles(&block[2..])
            .iter()
            .map(|q| half_at(0) * (q - 8.0))
            .collect(),
        TensorKind::Q4_1 => nibbles(&block[4..])
            .iter()
            .map(|q| half_at(0) * q + half_at(2))
            .collect(),
        other => super::kinds::numbers(other, block),
    }
}

/// The nearest half float, for numbers of ordinary size.
fn to_half(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits((bits + 0xfff + (bits >> 13 & 1)) & !0x1fff)
}

pub(super) fn half(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 0x3ff) / 1024.0);
    let size = match exponent {
        0 => fraction * 2f32.powi(-14),
        _ => (1.0 + fraction) * 2f32.powi(exponent - 15),
    };
    if bits >> 15 == 1 { -size } else { size }
}
