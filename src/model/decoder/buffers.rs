//! Work space of a step: sized to its rows, grown and never given back, so that a step of a size seen before allocates
//! nothing.

use compere_cpu::{Activations, AttentionScratch, GatedScratch};

use super::DecoderSpec;

/// Buffers of `[rows][width]` each.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// The residual stream; after the last layer's keys and values are stored, of the wanted rows only.
    pub(super) x: Vec<f32>,
    /// What is added to it next; between norm and product, the normalised rows. As many rows as `x`.
    pub(super) delta: Vec<f32>,
    pub(super) queries: Vec<f32>,
    pub(super) keys: Vec<f32>,
    pub(super) values: Vec<f32>,
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

    /// Keeps these rows, ascending, of the residual stream and what is added to it.
    pub(super) fn keep(&mut self, spec: &DecoderSpec, rows: &[usize]) {
        let width = spec.width;
        for buffer in [&mut self.x, &mut self.delta] {
            for (to, &from) in rows.iter().enumerate() {
                buffer.copy_within(from * width..(from + 1) * width, to * width);
            }
            buffer.truncate(rows.len() * width);
        }
        self.queries.truncate(rows.len() * spec.query_width());
    }
}
