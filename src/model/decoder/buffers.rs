//! Work space of a step: sized to its rows, grown and never given back, so that a step of a size seen before allocates
//! nothing.

use compere_cpu::{Activations, AttentionScratch, GatedScratch};

use super::DecoderSpec;

/// Buffers of `[rows][width]` each.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// The residual stream.
    pub(super) x: Vec<f32>,
    /// What is added to it next; between norm and product, the normalised rows.
    pub(super) delta: Vec<f32>,
    pub(super) queries: Vec<f32>,
    pub(super) keys: Vec<f32>,
    pub(super) values: Vec<f32>,
    /// `x` and `delta` of the rows whose logits are wanted.
    pub(super) last_x: Vec<f32>,
    pub(super) last_delta: Vec<f32>,
    /// Input of the products that follow a norm.
    pub(super) input: Activations,
    /// Input of the product that follows attention, or the gated products.
    pub(super) inner: Activations,
    pub(super) gated: GatedScratch,
    pub(super) attention: AttentionScratch,
}

impl Buffers {
    /// Makes every buffer fit `rows` rows.
    pub(super) fn fit(&mut self, spec: &DecoderSpec, rows: usize) {
        for (buffer, width) in [
            (&mut self.x, spec.width),
            (&mut self.delta, spec.width),
            (&mut self.queries, spec.query_width()),
            (&mut self.keys, spec.kv_width()),
            (&mut self.values, spec.kv_width()),
        ] {
            buffer.resize(rows * width, 0.0);
        }
    }

    /// Copies the rows whose logits are wanted.
    pub(super) fn gather(&mut self, width: usize, rows: &[usize]) {
        self.last_x.clear();
        self.last_delta.clear();
        for &row in rows {
            self.last_x
                .extend_from_slice(&self.x[row * width..][..width]);
            self.last_delta
                .extend_from_slice(&self.delta[row * width..][..width]);
        }
    }
}
