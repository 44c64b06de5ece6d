//! The decoder: embeds the rows of a batch, carries them through the layers and turns those asked for into logits.

mod buffers;
mod spec;

use compere_cpu::{
    Attention, AttentionPlan, Form, GatedProduct, Isa, KvCache, NormRows, Pool, Product,
    Projections, Rope, multiply_all, multiply_gated, normalise_rows,
};

pub use spec::DecoderSpec;

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
    isa: Isa,
    buffers: Buffers,
}

/// What computes a step, and where its keys and values go.
pub(crate) struct Step<'a> {
    pub(crate) pool: &'a mut Pool,
    pub(crate) cache: &'a mut KvCache,
    pub(crate) plan: &'a AttentionPlan,
}

impl Decoder {
    pub(crate) fn new(spec: DecoderSpec, weights: Weights, isa: Isa) -> Self {
        Self {
            rope: Rope::new(spec.head_dim, spec.rope_base),
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
    /// Tokens are in the vocabulary, rows in the batch.
    pub(crate) fn forward(
        &mut self,
        mut step: Step<'_>,
        tokens: &[TokenId],
        logit_rows: &[usize],
        logits: &mut Vec<f32>,
    ) {
        self.rope.cover(step.plan.positions());
        self.buffers.fit(&self.spec, tokens.len());
        self.embed(tokens);
        for layer in 0..self.spec.layers {
            self.attention(&mut step, layer);
            self.feed_forward(&mut step, layer);
        }
        logits.resize(logit_rows.len() * self.spec.vocab, 0.0);
        if !logit_rows.is_empty() {
            self.head(step.pool, logit_rows, logits);
        }
    }

    /// The residual stream starts at zero, and the embedding is the first thing added to it.
    fn embed(&mut self, tokens: &[TokenId]) {
        self.buffers.x.fill(0.0);
        for (row, &token) in self
            .buffers
            .delta
            .chunks_exact_mut(self.spec.width)
            .zip(tokens)
        {
            self.weights.embedding.row(token as usize, row);
        }
    }

    fn attention(&mut self, step: &mut Step<'_>, index: usize) {
        let layer = &self.weights.layers[index];
        let buffers = &mut self.buffers;
        let rows = NormRows {
            x: &mut buffers.x,
            delta: &mut buffers.delta,
            weight: &layer.attention_norm,
            epsilon: self.spec.epsilon,
        };
        normalise_rows(
            step.pool,
            self.isa,
            rows,
            forms_of_projections(layer),
            &mut buffers.input,
        );
        let products = [
            Product {
                weights: &layer.query,
                out: &mut buffers.queries,
            },
            Product {
                weights: &layer.key,
                out: &mut buffers.keys,
            },
            Product {
                weights: &layer.value,
                out: &mut buffers.values,
            },
        ];
        multiply_all(step.pool, self.isa, &buffers.input, products);
        let projections = Projections {
            queries: &buffers.queries,
            keys: &buffers.keys,
            values: &buffers.values,
        };
        Attention {
            isa: self.isa,
            plan: step.plan,
            rope: &self.rope,
            cache: step.cache,
            layer: index,
            group: self.spec.heads / self.spec.kv_heads,
        }
        .run(
            step.pool,
            &mut buffers.attention,
            projections,
            &[layer.attention_out.kind().form()],
            &mut buffers.inner,
        );
        let product = Product {
            weights: &layer.attention_out,
            out: &mut buffers.delta,
        };
        multiply_all(step.pool, self.isa, &buffers.inner, [product]);
    }

    fn feed_forward(&mut self, step: &mut Step<'_>, index: usize) {
        let layer = &self.weights.layers[index];
        let buffers = &mut self.buffers;
        let rows = NormRows {
            x: &mut buffers.x,
            delta: &mut buffers.delta,
            weight: &layer.hidden_norm,
            epsilon: self.spec.epsilon,
        };
        let forms = forms_of(layer.gate.kind().form(), layer.up.kind().form());
        normalise_rows(step.pool, self.isa, rows, forms, &mut buffers.input);
        let gated = GatedProduct {
            gate: &layer.gate,
            up: &layer.up,
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

    fn head(&mut self, pool: &mut Pool, logit_rows: &[usize], logits: &mut [f32]) {
        let buffers = &mut self.buffers;
        buffers.gather(self.spec.width, logit_rows);
        let rows = NormRows {
            x: &mut buffers.last_x,
            delta: &mut buffers.last_delta,
            weight: &self.weights.final_norm,
            epsilon: self.spec.epsilon,
        };
        let head = self.weights.head();
        normalise_rows(
            pool,
            self.isa,
            rows,
            &[head.kind().form()],
            &mut buffers.input,
        );
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
