//! Causal attention over paged keys and values, with streaming softmax: every query goes through its blocks in order
//! and carries (largest, sum, output) on, so its bits depend on nothing but its own sequence. What is shared for speed
//! (a block widened once for all queries of a tile, several queries in one pass) never enters the arithmetic.

mod kernel;
mod plan;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub use plan::{AttentionPlan, PlanError};

use crate::activations::{Activations, RowWriter};
use crate::gemm::isa::Isa;
use crate::kv::{BLOCK_TOKENS, KvCache};
use crate::lanes::{LANES, Lanes, dispatch};
use crate::pool::Pool;
use crate::quant::Form;
use crate::rope::{Rope, rotate};
use crate::shared::Shared;
use kernel::{RankUpdate, Softmax, scale, update, widen};
use plan::{Row, Tile};

/// Rows that one task stores, and below which the caller stores them itself.
const STORE_ROWS: usize = 16;

/// From one query of a tile to the next: room for the largest head, and not a power of two, which would put all queries
/// into a few sets of the cache.
const QUERY_STRIDE: usize = MAX_HEAD_DIM + LANES;

/// Largest head that the stack buffers hold.
pub const MAX_HEAD_DIM: usize = 256;

/// Buffers of each thread, grown to the largest tile seen.
#[derive(Debug, Default)]
pub struct AttentionScratch {
    threads: Vec<ThreadScratch>,
}

#[derive(Debug, Default)]
struct ThreadScratch {
    floats: Vec<f32>,
    softmax: Vec<Softmax>,
}

/// Projections of a batch, one row a token: queries, then keys, then values, as wide as the heads say.
#[derive(Clone, Copy, Debug)]
pub struct Projections<'a> {
    /// `[rows][heads * head_dim]`
    pub queries: &'a [f32],
    /// `[rows][kv_heads * head_dim]`
    pub keys: &'a [f32],
    /// `[rows][kv_heads * head_dim]`
    pub values: &'a [f32],
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
}

impl Attention<'_> {
    /// Rotates the keys and stores keys and values of every row; then attends, and takes `[rows][heads * head_dim]` as
    /// `forms` into `out`.
    ///
    /// # Panics
    /// When a buffer's length does not fit the plan and the cache's shape, or the rope does not cover its positions.
    pub fn run(
        &mut self,
        pool: &mut Pool,
        scratch: &mut AttentionScratch,
        input: Projections<'_>,
        forms: &[Form],
        out: &mut Activations,
    ) {
        let shape = self.cache.shape();
        let (rows, width) = (self.plan.row_count(), shape.heads * shape.head_dim);
        assert!(input.keys.len() == rows * width && input.values.len() == rows * width);
        assert_eq!(input.queries.len(), rows * width * self.group);
        assert!(shape.head_dim <= MAX_HEAD_DIM && shape.head_dim == self.rope.head_dim());
        self.store(pool, input);
        let writer = out.writer(rows, width * self.group, forms);
        self.attend(pool, scratch, input.queries, &writer);
    }

    fn store(&self, pool: &mut Pool, input: Projections<'_>) {
        let rows = self.plan.rows();
        pool.run(rows.len().div_ceil(STORE_ROWS), &|task, _| {
            let rows = &rows[task * STORE_ROWS..rows.len().min((task + 1) * STORE_ROWS)];
            let (attention, input) = (self, &input);
            // SAFETY: the plan has checked that no block is written by two sequences, and the rows of one sequence
            // have different positions; so tasks write different memory, and nothing reads it in this region.
            unsafe { dispatch!(self.isa, store_rows(attention: &Attention<'_>, input: &Projections<'_>, rows: &[Row])) }
        });
    }

    fn attend(
        &self,
        pool: &mut Pool,
        scratch: &mut AttentionScratch,
        queries: &[f32],
        out: &RowWriter<'_>,
    ) {
        let (tiles, heads) = (self.plan.tiles(), self.cache.shape().heads);
        let largest = tiles.iter().map(|tile| tile.count).max().unwrap_or(0) * self.group;
        scratch.fit(pool.threads(), largest, self.cache.shape().head_dim);
        let threads = Shared::new(&mut scratch.threads);
        let whole = self.plan.whole_tasks();
        let split = (tiles.len() * heads - whole) * self.group;
        pool.run(whole + split, &|task, thread| {
            let (index, group) = match task.checked_sub(whole) {
                None => (task, 0..self.group),
                Some(part) => {
                    let query = part % self.group;
                    (whole + part / self.group, query..query + 1)
                }
            };
            let job = &TileJob {
                attention: self,
                tile: tiles[index / heads],
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

/// Stores keys and values of some rows.
///
/// # Safety
/// L's features exist; nothing else touches the rows' places in the cache meanwhile.
#[inline(always)]
unsafe fn store_rows<L: Lanes>(attention: &Attention<'_>, input: &Projections<'_>, rows: &[Row]) {
    let shape = attention.cache.shape();
    let dim = shape.head_dim;
    let mut rotated = [0.0f32; MAX_HEAD_DIM];
    let mut halves = [0u16; MAX_HEAD_DIM];
    for row in rows {
        let block = attention.plan.block(row, row.position / BLOCK_TOKENS);
        let slot = row.position % BLOCK_TOKENS;
        let factors = attention.rope.factors(row.position);
        for head in 0..shape.heads {
            let at = attention.cache.head(block, attention.layer, head);
            let from = (row.input * shape.heads + head) * dim;
            let (keys, values) = (
                &input.keys[from..from + dim],
                &input.values[from..from + dim],
            );
            // SAFETY: `head_dim` is a multiple of the lanes and at most the buffers' length; the slot is inside the
            // block, where keys lie a block's tokens apart and values `head_dim` apart.
            unsafe {
                rotate::<L>(
                    keys.as_ptr(),
                    factors.as_ptr(),
                    1.0,
                    rotated.as_mut_ptr(),
                    dim,
                );
                for i in (0..dim).step_by(LANES) {
                    L::load(rotated.as_ptr().add(i)).store_half(halves.as_mut_ptr().add(i));
                    L::load(values.as_ptr().add(i)).store_half(at.values.add(slot * dim + i));
                }
                for (i, half) in halves[..dim].iter().enumerate() {
                    *at.keys.add(i * BLOCK_TOKENS + slot) = *half;
                }
            }
        }
    }
}

/// Some query heads of one key head for the rows of one tile.
struct TileJob<'a> {
    attention: &'a Attention<'a>,
    tile: Tile,
    head: usize,
    /// Which of the key head's query heads.
    group: Range<usize>,
    queries: &'a [f32],
    out: &'a RowWriter<'a>,
}

/// A tile's buffers: queries are ordered row by row, each with its heads.
struct TileState<'a> {
    /// `[queries][QUERY_STRIDE]`, `head_dim` used, rotated and scaled.
    queries: &'a mut [f32],
    /// `[queries][head_dim]`
    out: &'a mut [f32],
    /// `[queries][BLOCK_TOKENS]`
    scores: &'a mut [f32],
    /// `[head_dim][BLOCK_TOKENS]`
    keys: &'a mut [f32],
    /// `[BLOCK_TOKENS][head_dim]`
    values: &'a mut [f32],
    softmax: &'a mut [Softmax],
    dim: usize,
}

/// # Safety
/// L's features exist; no other task has this tile, head and group; nobody writes the cache meanwhile.
#[inline(always)]
unsafe fn run_tile<L: Lanes>(job: &TileJob<'_>, scratch: &mut ThreadScratch) {
    let plan = job.attention.plan;
    let rows = &plan.rows()[job.tile.first..][..job.tile.count];
    let heads = job.group.len();
    let mut state = TileState::new(
        scratch,
        rows.len() * heads,
        job.attention.cache.shape().head_dim,
    );
    // SAFETY: the caller's promise.
    unsafe { load_queries::<L>(job, rows, &mut state) };
    let blocks = rows
        .iter()
        .map(|row| row.position / BLOCK_TOKENS + 1)
        .max()
        .unwrap_or(0);
    for index in 0..blocks {
        let block_of =
            |row: &Row| (row.position / BLOCK_TOKENS >= index).then(|| plan.block(row, index));
        let mut first = 0;
        while first < rows.len() {
            let block = block_of(&rows[first]);
            let alike = rows[first..]
                .iter()
                .take_while(|row| block_of(row) == block)
                .count();
            if let Some(block) = block {
                let at = job
                    .attention
                    .cache
                    .head(block, job.attention.layer, job.head);
                // SAFETY: a head's keys and values are as long as the state's buffers.
                unsafe {
                    widen::<L>(at.keys, state.keys.as_mut_ptr(), state.keys.len());
                    widen::<L>(at.values, state.values.as_mut_ptr(), state.values.len());
                    attend_block::<L>(&mut state, rows, first..first + alike, index, heads);
                }
            }
            first += alike;
        }
    }
    // SAFETY: the caller's promise.
    unsafe { write_out::<L>(job, rows, &mut state) };
}

impl<'a> TileState<'a> {
    fn new(scratch: &'a mut ThreadScratch, queries: usize, dim: usize) -> Self {
        let (query_part, rest) = scratch.floats.split_at_mut(queries * QUERY_STRIDE);
        let (out, rest) = rest.split_at_mut(queries * dim);
        let (scores, rest) = rest.split_at_mut(queries * BLOCK_TOKENS);
        let (keys, rest) = rest.split_at_mut(dim * BLOCK_TOKENS);
        out.fill(0.0);
        let softmax = &mut scratch.softmax[..queries];
        softmax.fill(Softmax::START);
        Self {
            queries: query_part,
            out,
            scores,
            keys,
            values: &mut rest[..dim * BLOCK_TOKENS],
            softmax,
            dim,
        }
    }
}

#[inline(always)]
unsafe fn load_queries<L: Lanes>(job: &TileJob<'_>, rows: &[Row], state: &mut TileState<'_>) {
    let dim = state.dim;
    let scale = 1.0 / (dim as f32).sqrt();
    let total = job.attention.cache.shape().heads * job.attention.group;
    let mut to = state.queries.chunks_exact_mut(QUERY_STRIDE);
    for row in rows {
        let factors = job.attention.rope.factors(row.position);
        for head in job.group.clone() {
            let from = (row.input * total + job.head * job.attention.group + head) * dim;
            let (from, to) = (
                &job.queries[from..from + dim],
                to.next().expect("one place a query"),
            );
            // SAFETY: all slices have `head_dim` values, the factors twice as many.
            unsafe { rotate::<L>(from.as_ptr(), factors.as_ptr(), scale, to.as_mut_ptr(), dim) };
        }
    }
}

/// Lets the queries of `range` attend to the block that is widened in the state: the sequence's block `index`.
#[inline(always)]
unsafe fn attend_block<L: Lanes>(
    state: &mut TileState<'_>,
    rows: &[Row],
    range: Range<usize>,
    index: usize,
    heads: usize,
) {
    let count_of = |row: &Row| (row.position + 1 - index * BLOCK_TOKENS).min(BLOCK_TOKENS);
    let mut first = range.start;
    while first < range.end {
        let count = count_of(&rows[first]);
        let alike = rows[first..range.end]
            .iter()
            .take_while(|row| count_of(row) == count)
            .count();
        // SAFETY: the rows are inside the tile.
        unsafe { attend_rows::<L>(state, first * heads..(first + alike) * heads, count) };
        first += alike;
    }
}

/// Lets some queries attend to the first `count` tokens of the widened block.
#[inline(always)]
unsafe fn attend_rows<L: Lanes>(state: &mut TileState<'_>, range: Range<usize>, count: usize) {
    let dim = state.dim;
    let scores = &mut state.scores[range.start * BLOCK_TOKENS..range.end * BLOCK_TOKENS];
    let queries = &state.queries[range.start * QUERY_STRIDE..range.end * QUERY_STRIDE];
    let out = &mut state.out[range.start * dim..range.end * dim];
    scores.fill(0.0);
    // SAFETY: the slices above hold what the updates name; scores, queries, out, keys and values are different buffers.
    unsafe {
        update::<L, QUERY_STRIDE>(RankUpdate {
            out: scores.as_mut_ptr(),
            out_stride: BLOCK_TOKENS,
            factors: queries.as_ptr(),
            lines: state.keys.as_ptr(),
            rows: range.len(),
            count: dim,
            columns: BLOCK_TOKENS,
        });
        for (i, softmax) in state.softmax[range.clone()].iter_mut().enumerate() {
            let factor = softmax.step::<L>(scores.as_mut_ptr().add(i * BLOCK_TOKENS), count);
            // Multiplying by 1 would change no bit.
            if factor != 1.0 {
                scale::<L>(out.as_mut_ptr().add(i * dim), factor, dim);
            }
        }
        update::<L, BLOCK_TOKENS>(RankUpdate {
            out: out.as_mut_ptr(),
            out_stride: dim,
            factors: scores.as_ptr(),
            lines: state.values.as_ptr(),
            rows: range.len(),
            count,
            columns: dim,
        });
    }
}

#[inline(always)]
unsafe fn write_out<L: Lanes>(job: &TileJob<'_>, rows: &[Row], state: &mut TileState<'_>) {
    let dim = state.dim;
    let mut query = 0;
    for row in rows {
        for head in job.group.clone() {
            let from = &mut state.out[query * dim..][..dim];
            let col = (job.head * job.attention.group + head) * dim;
            // SAFETY: nobody else has this row's head; `from` has `head_dim` values.
            unsafe {
                scale::<L>(
                    from.as_mut_ptr(),
                    1.0 / state.softmax[query].total::<L>(),
                    dim,
                );
                job.out.set_part(row.input, col, from);
            }
            query += 1;
        }
    }
}
