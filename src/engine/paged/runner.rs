//! The border between scheduling and computing: the engine knows a device only through [`ModelRunner`].

use super::batch::Batch;

/// Computes one forward pass. Owns the weights and the KV memory; knows nothing of requests.
pub trait ModelRunner: Send {
    /// What the scheduler has to work with; constant for the runner's life.
    fn limits(&self) -> RunnerLimits;

    /// Computes every row of `batch`, stores its keys and values in the rows' KV blocks, and writes the logits asked
    /// for into `logits`: `batch.logit_rows.len() * vocab` values, row after row in that order. `logits` is resized;
    /// its old content is of no interest.
    ///
    /// A row attends to every position of its sequence up to its own. The same row gives the same bits whatever else
    /// is in the batch and however its prompt was cut into chunks.
    ///
    /// # Errors
    /// A failure ends every sequence of the batch; the runner must stay usable.
    fn forward(&mut self, batch: &Batch, logits: &mut Vec<f32>) -> Result<(), RunnerError>;
}

/// A runner's declared limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunnerLimits {
    /// Size of the vocabulary: logits per row.
    pub vocab: usize,
    /// Most positions of one sequence.
    pub max_context: usize,
    /// Tokens per KV block.
    pub block_tokens: usize,
    /// KV blocks in the pool.
    pub blocks: usize,
}

/// A forward pass that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("forward pass failed: {0}")]
pub struct RunnerError(pub String);
