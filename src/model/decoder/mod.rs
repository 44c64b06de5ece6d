//! The decoder: embeds the rows of a batch, carries them through the layers and turns those asked for into logits.

mod architecture;
mod buffers;
mod keys;
mod read;
mod refuse;
mod rope;
mod spec;

use compere_cpu::{
    Attention, AttentionPlan, Form, GatedProduct, HeadInput, Isa, KvCache, NormRows, Pool, Product,
    Rope, Rows, multiply_all, multiply_gated, normalise_rows,
};

pub use rope::{RopeScaling, RopeSpec};
pub use spec::{Activation, DecoderSpec, Pairs, Sliding};

use self::buffers::Buffers;
use super::weights::{Layer, Weights};
use crate::tokenizer::TokenId;

/// Both forms of activations: what matrices of any kind read.
const BOTH: [Form; 2] = [Form::Int8, Form::Float];

/// Weights and everything that a step needs besides the KV memory.
#[derive(Debug)]
pub(crate) struct Decoder {
    spec: DecoderSpec,
    weights: Weights,
    rope: Rope,
    /// That of the layers with a window.
    sliding_rope: Option<Rope>,
    isa: Isa,
    buffers: Buffers,
}

/// What computes a step, and where its keys and values go.
pub(crate) struct Step<'a> {
    pub(crate) pool: &'a mut Pool,
    pub(crate) cache: &'a mut KvCache,
    /// The batch; it has been told which rows are wanted.
    pub(crate) plan: &'a AttentionPlan,
}

impl Decoder {
    pub(crate) fn new(spec: DecoderSpec, weights: Weights, isa: Isa) -> Self {
        let sliding = spec.sliding.as_ref();
        Self {
            rope: spec.rope.build(spec.head_dim),
            sliding_rope: sliding.map(|sliding| sliding.rope.build(spec.head_dim)),
            spec,
            weights,
            isa,
            buffers: Buffers::default(),
        }
    }

    pub(crate) fn spec(&self) -> &DecoderSpec {
        &self.spec
    }

    /// Computes the rows of `tokens`, whose sequences `step.plan` knows, and writes `logit_rows.len() * vocab` logits.
    /// Tokens are in the vocabulary, rows in the batch and ascending, and those that the plan was told are wanted. In
    /// the last layer, other rows are only needed for their keys and values.
    pub(crate) fn forward(
        &mut self,
        mut step: Step<'_>,
        tokens: &[TokenId],
        logit_rows: &[usize],
        logits: &mut Vec<f32>,
    ) {
        self.rope.cover(step.plan.positions());
        if let Some(rope) = &mut self.sliding_rope {
            rope.cover(step.plan.positions());
        }
        self.buffers.fit(&self.spec, tokens.len());
        logits.resize(logit_rows.len() * self.spec.vocab, 0.0);
        self.embed(tokens);
        for layer in 0..self.spec.layers {
            let last = layer + 1 == self.spec.layers;
            let keep = (last && logit_rows.len() < tokens.len()).then_some(logit_rows);
            self.project(&mut step, layer, keep);
            if keep.is_some_and(<[usize]>::is_empty) {
                return;
            }
            self.attend(&mut step, layer, keep.map_or(Rows::All, |_| Rows::Wanted));
            self.feed_forward(&mut step, layer);
        }
        self.head(step.pool, logits);
    }

    /// The residual stream starts at zero, and the embedding is the first thing added to it.
    fn embed(&mut self, tokens: &[TokenId]) {
        self.buffers.x.fill(0.0);
        let rows = self.buffers.delta.chunks_exact_mut(self.spec.width);
        for (row, &token) in rows.zip(tokens) {
            self.weights.embedding.row(token as usize, row);
            if self.spec.embedding_scale != 1.0 {
                row.iter_mut().for_each(|x| *x *= self.spec.embedding_scale);
            }
        }
    }

    /// Stores keys and values of every row, and makes the queries of those to keep.
    fn project(&mut self, step: &mut Step<'_>, index: usize, keep: Option<&[usize]>) {
        let layer = &self.weights.layers[index];
        let buffers = &mut self.buffers;
        let before = index.checked_sub(1).map(|last| &self.weights.layers[last]);
        let rows = NormRows {
            x: &mut buffers.x,
            delta: &mut buffers.delta,
            before: before.and_then(|layer| layer.hidden_out_norm.as_deref()),
            weight: &layer.attention_norm,
            epsilon: self.spec.epsilon,
        };
        let forms = forms_of_projections(layer);
        normalise_rows(step.pool, self.isa, rows, forms, &mut buffers.input);
        let keys = Product {
            weights: &layer.key,
            out: &mut buffers.keys,
        };
        let values = Product {
            weights: &layer.value,
            out: &mut buffers.values,
        };
        match keep {
            None => {
                let queries = Product {
                    weights: &layer.query,
                    out: &mut buffers.queries,
                };
                let products = [queries, keys, values];
                multiply_all(step.pool, self.isa, &buffers.input, products);
            }
            Some(keep) => {
                multiply_all(step.pool, self.isa, &buffers.input, [keys, values]);
                buffers.keep(&self.spec, keep);
                // A row's bytes depend on the row alone: they are those it has among all.
                let (rows, width) = (keep.len(), self.spec.width);
                let form = [layer.query.kind().form()];
                buffers.input.quantise(rows, width, &buffers.delta, &form);
                let queries = Product {
                    weights: &layer.query,
                    out: &mut buffers.queries,
                };
                multiply_all(step.pool, self.isa, &buffers.input, [queries]);
            }
        }
        let (keys, values) = (&self.buffers.keys, &self.buffers.values);
        let keys = HeadInput {
            numbers: keys,
            bias: layer.key_bias.as_deref(),
            norm: layer.key_norm.as_deref(),
        };
        let values = HeadInput {
            numbers: values,
            bias: layer.value_bias.as_deref(),
            norm: None,
        };
        let (mut attention, pool) = self.attention(step, index);
        attention.store(pool, keys, values);
    }

    /// Lets the queries attend, and computes what attention adds to the residual stream.
    fn attend(&mut self, step: &mut Step<'_>, index: usize, rows: Rows) {
        let layer = &self.weights.layers[index];
        let mut scratch = std::mem::take(&mut self.buffers.attention);
        let mut inner = std::mem::take(&mut self.buffers.inner);
        let queries = HeadInput {
            numbers: &self.buffers.queries,
            bias: layer.query_bias.as_deref(),
            norm: layer.query_norm.as_deref(),
        };
        let (attention, pool) = self.attention(step, index);
        let forms = [layer.attention_out.kind().form()];
        attention.attend(pool, &mut scratch, (rows, queries), &forms, &mut inner);
        let product = Product {
            weights: &layer.attention_out,
            out: &mut self.buffers.delta,
        };
        multiply_all(step.pool, self.isa, &inner, [product]);
        (self.buffers.attention, self.buffers.inner) = (scratch, inner);
    }

    fn attention<'a>(
        &'a self,
        step: &'a mut Step<'_>,
        index: usize,
    ) -> (Attention<'a>, &'a mut Pool) {
        let sliding = self.spec.sliding(index);
        let sliding_rope = self.sliding_rope.as_ref().filter(|_| sliding.is_some());
        let attention = Attention {
            isa: self.isa,
            plan: step.plan,
            rope: sliding_rope.unwrap_or(&self.rope),
            cache: step.cache,
            layer: index,
            group: self.spec.heads / self.spec.kv_heads,
            scale: self.spec.attention_scale,
            window: sliding.map(|sliding| sliding.window),
            epsilon: self.spec.epsilon,
        };
        (attention, step.pool)
    }

    fn feed_forward(&mut self, step: &mut Step<'_>, index: usize) {
        let layer = &self.weights.layers[index];
        let buffers = &mut self.buffers;
        let rows = NormRows {
            x: &mut buffers.x,
            delta: &mut buffers.delta,
            before: layer.attention_out_norm.as_deref(),
            weight: &layer.hidden_norm,
            epsilon: self.spec.epsilon,
        };
        let forms = forms_of(layer.gate.kind().form(), layer.up.kind().form());
        normalise_rows(step.pool, self.isa, rows, forms, &mut buffers.input);
        let gated = GatedProduct {
            gate: &layer.gate,
            up: &layer.up,
            activation: self.spec.activation.into(),
            forms: &[layer.down.kind().form()],
        };
        let (scratch, inner) = (&mut buffers.gated, &mut buffers.inner);
        multiply_gated(step.pool, self.isa, &buffers.input, &gated, scratch, inner);
        let product = Product {
            weights: &layer.down,
            out: &mut buffers.delta,
        };
        multiply_all(step.pool, self.isa, &buffers.inner, [product]);
    }

    /// Turns the rows that are left into logits.
    fn head(&mut self, pool: &mut Pool, logits: &mut [f32]) {
        let buffers = &mut self.buffers;
        let last = self.weights.layers.last();
        let rows = NormRows {
            x: &mut buffers.x,
            delta: &mut buffers.delta,
            before: last.and_then(|layer| layer.hidden_out_norm.as_deref()),
            weight: &self.weights.final_norm,
            epsilon: self.spec.epsilon,
        };
        let head = self.weights.head();
        let forms = [head.kind().form()];
        normalise_rows(pool, self.isa, rows, &forms, &mut buffers.input);
        let product = Product {
            weights: head,
            out: logits,
        };
        multiply_all(pool, self.isa, &buffers.input, [product]);
    }
}

fn forms_of_projections(layer: &Layer) -> &'static [Form] {
    let [query, key, value] =
        [&layer.query, &layer.key, &layer.value].map(|matrix| matrix.kind().form());
    if query == key {
        forms_of(query, value)
    } else {
        &BOTH
    }
}

fn forms_of(a: Form, b: Form) -> &'static [Form] {
    match (a, b) {
        (Form::Int8, Form::Int8) => &BOTH[..1],
        (Form::Float, Form::Float) => &BOTH[1..],
        _ => &BOTH,
    }
}
