//! Causal attention over paged keys and values, with streaming softmax: every query goes through its blocks in order
//! and carries (largest, sum, output) on, so its bits depend on nothing but its own sequence. What is shared for speed
//! (a block widened once for all queries of a tile, several queries in one pass) never enters the arithmetic. Where a
//! window ends the past, blocks before it are not visited, and of its first block only what is inside is read.

mod kernel;
mod plan;
mod store;
#[cfg(test)]
mod tests;
mod tile;

pub use plan::{AttentionPlan, PlanError, Rows, Work};

use crate::activations::{Activations, RowWriter};
use crate::gemm::isa::Isa;
use crate::kv::{BLOCK_TOKENS, KvCache};
use crate::lanes::{LANES, Lanes, dispatch};
use crate::norm::in_place;
use crate::pool::Pool;
use crate::quant::{BLOCK, Form};
use crate::rope::Rope;
use crate::shared::Shared;
use kernel::Softmax;
use plan::{Cut, Row};
use store::{StoreJob, store_rows};
use tile::{TileJob, run_tile};

/// Rows that one task stores, and below which the caller stores them itself.
const STORE_ROWS: usize = 16;

/// From one query of a tile to the next: room for the largest head, and not a power of two, which would put all queries
/// into a few sets of the cache.
const QUERY_STRIDE: usize = MAX_HEAD_DIM + LANES;

/// Largest head that the stack buffers hold.
pub const MAX_HEAD_DIM: usize = 256;

/// Buffers of each thread, for the largest tile that there may be.
#[derive(Debug, Default)]
pub struct AttentionScratch {
    threads: Vec<ThreadScratch>,
}

#[derive(Debug, Default)]
struct ThreadScratch {
    floats: Vec<f32>,
    softmax: Vec<Softmax>,
}

/// Heads as a projection gives them, and what they go through first.
#[derive(Clone, Copy, Debug)]
pub struct HeadInput<'a> {
    /// `[rows][heads * head_dim]`
    pub numbers: &'a [f32],
    /// `[heads * head_dim]`, added to every row.
    pub bias: Option<&'a [f32]>,
    /// `[head_dim]`, the weight of a norm that each head goes through.
    pub norm: Option<&'a [f32]>,
}

/// One layer's attention.
pub struct Attention<'a> {
    /// Instructions to use.
    pub isa: Isa,
    /// The batch.
    pub plan: &'a AttentionPlan,
    /// Covers the plan's positions.
    pub rope: &'a Rope,
    /// Where keys and values live.
    pub cache: &'a mut KvCache,
    /// Which layer of the cache.
    pub layer: usize,
    /// Query heads on each key head.
    pub group: usize,
    /// What scores are multiplied with.
    pub scale: f32,
    /// Positions that a row attends to, its own included; `None` is all up to its own.
    pub window: Option<usize>,
    /// Added to the mean of squares in the heads' norms.
    pub epsilon: f32,
}

impl Attention<'_> {
    /// Prepares and rotates the keys, prepares the values, and stores both of every row of the batch.
    ///
    /// # Panics
    /// When a length does not fit the plan and the cache's shape, or the rope does not cover its positions.
    pub fn store(&mut self, pool: &mut Pool, keys: HeadInput<'_>, values: HeadInput<'_>) {
        let shape = self.cache.shape();
        let rows = &self.plan.cut(Rows::All).rows;
        self.check(&keys, rows.len(), shape.heads);
        self.check(&values, rows.len(), shape.heads);
        let job = &StoreJob {
            attention: self,
            keys,
            values,
        };
        pool.run(rows.len().div_ceil(STORE_ROWS), &|task, _| {
            let rows = &rows[task * STORE_ROWS..rows.len().min((task + 1) * STORE_ROWS)];
            // SAFETY: the plan has checked that no block is written by two sequences, and the rows of one sequence
            // have different positions; so tasks write different memory, and nothing reads it in this region.
            unsafe { dispatch!(self.isa, store_rows(job: &StoreJob<'_>, rows: &[Row])) }
        });
    }

    /// Prepares, rotates and scales the queries of these rows, lets them attend to what is stored, and takes
    /// `[rows][heads * head_dim]` as `forms` into `out`.
    ///
    /// # Panics
    /// When a length does not fit the plan and the cache's shape, the rope does not cover the positions, or bytes are
    /// asked for and the heads together are no whole blocks.
    pub fn attend(
        &self,
        pool: &mut Pool,
        scratch: &mut AttentionScratch,
        (which, queries): (Rows, HeadInput<'_>),
        forms: &[Form],
        out: &mut Activations,
    ) {
        let shape = self.cache.shape();
        let (cut, heads) = (self.plan.cut(which), shape.heads * self.group);
        self.check(&queries, cut.rows.len(), heads);
        // Heads are set one by one; where one ends inside a block, bytes can only be taken when all are there.
        let at_once = shape.head_dim.is_multiple_of(BLOCK) || !forms.contains(&Form::Int8);
        let first = if at_once { forms } else { &[Form::Float] };
        let writer = out.writer(cut.rows.len(), heads * shape.head_dim, first);
        self.run(pool, scratch, (cut, &queries), &writer);
        if !at_once {
            out.add_bytes(pool);
        }
    }

    fn check(&self, input: &HeadInput<'_>, rows: usize, heads: usize) {
        let dim = self.cache.shape().head_dim;
        assert!(dim <= MAX_HEAD_DIM && dim == self.rope.head_dim());
        assert_eq!(input.numbers.len(), rows * heads * dim);
        assert!(input.bias.is_none_or(|bias| bias.len() == heads * dim));
        assert!(input.norm.is_none_or(|norm| norm.len() == dim));
    }

    fn run(
        &self,
        pool: &mut Pool,
        scratch: &mut AttentionScratch,
        (cut, queries): (&Cut, &HeadInput<'_>),
        out: &RowWriter<'_>,
    ) {
        let (tiles, heads) = (&cut.tiles, self.cache.shape().heads);
        let most = Work::tile_queries(self.group);
        scratch.fit(pool.threads(), most, self.cache.shape().head_dim);
        let threads = Shared::new(&mut scratch.threads);
        let whole = cut.whole_tasks;
        let split = (tiles.len() * heads - whole) * self.group;
        pool.run(whole + split, &|task, thread| {
            let (index, group) = match task.checked_sub(whole) {
                None => (task, 0..self.group),
                Some(part) => {
                    let query = part % self.group;
                    (whole + part / self.group, query..query + 1)
                }
            };
            let tile = tiles[index / heads];
            let job = &TileJob {
                attention: self,
                rows: &cut.rows[tile.first..][..tile.count],
                head: index % heads,
                group,
                queries,
                out,
            };
            // SAFETY: no two tasks run on one thread at once.
            let scratch = unsafe { &mut threads.part(thread..thread + 1)[0] };
            // SAFETY: tasks differ in tile, head or part, so they set different inputs of `out`; nobody writes the
            // cache in this region.
            unsafe { dispatch!(self.isa, run_tile(job: &TileJob<'_>, scratch: &mut ThreadScratch)) }
        });
    }
}

impl AttentionScratch {
    fn fit(&mut self, threads: usize, queries: usize, head_dim: usize) {
        let floats =
            queries * (QUERY_STRIDE + head_dim + BLOCK_TOKENS) + 2 * head_dim * BLOCK_TOKENS;
        if self.threads.len() < threads {
            self.threads.resize_with(threads, ThreadScratch::default);
        }
        for thread in &mut self.threads {
            if thread.floats.len() < floats {
                thread.floats.resize(floats, 0.0);
            }
            if thread.softmax.len() < queries {
                thread.softmax.resize(queries, Softmax::START);
            }
        }
    }
}

impl<'a> HeadInput<'a> {
    /// Head `head` of row `row`, of `heads` in a row: as it lies in `numbers`, or prepared in `scratch`.
    ///
    /// # Safety
    /// L's features exist.
    #[inline(always)]
    unsafe fn head<'b, L: Lanes>(
        &self,
        (row, head, heads): (usize, usize, usize),
        epsilon: f32,
        dim: usize,
        scratch: &'b mut [f32; MAX_HEAD_DIM],
    ) -> &'b [f32]
    where
        'a: 'b,
    {
        let numbers: &'a [f32] = &self.numbers[(row * heads + head) * dim..][..dim];
        if self.bias.is_none() && self.norm.is_none() {
            return numbers;
        }
        let scratch = &mut scratch[..dim];
        scratch.copy_from_slice(numbers);
        if let Some(bias) = self.bias {
            let bias = &bias[head * dim..][..dim];
            for (number, bias) in scratch.iter_mut().zip(bias) {
                *number += bias;
            }
        }
        if let Some(norm) = self.norm {
            // SAFETY: both have `dim` elements (checked), a multiple of the lanes.
            unsafe { in_place::<L>(scratch.as_mut_ptr(), norm.as_ptr(), dim, epsilon) };
        }
        scratch
    }
}
