//! One step's work as plain data: what crosses from the scheduler to the model.

use crate::tokenizer::TokenId;

/// Index of a KV block in the runner's pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// Rows of all sequences, one after another. Kept and refilled by the engine, so a step allocates nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// One token a row, `[rows]`.
    pub tokens: Vec<TokenId>,
    /// Whose rows they are, in row order; together they cover every row once.
    pub sequences: Vec<BatchSequence>,
    /// Block tables of all sequences, one after another; each sequence names its range.
    pub blocks: Vec<BlockId>,
    /// Rows whose logits are wanted, ascending.
    pub logit_rows: Vec<usize>,
}

/// One sequence's share of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchSequence {
    /// First row in the batch.
    pub row: usize,
    /// Number of rows, at least 1.
    pub rows: usize,
    /// Position of the first row: the tokens whose KV is already stored.
    pub position: usize,
    /// First entry in `Batch::blocks`.
    pub block: usize,
    /// Number of blocks: enough for `position + rows` tokens.
    pub blocks: usize,
}

impl Batch {
    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.tokens.clear();
        self.sequences.clear();
        self.blocks.clear();
        self.logit_rows.clear();
    }
}
