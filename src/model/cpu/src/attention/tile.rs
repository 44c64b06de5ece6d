//! One tile's attention: the queries of a few rows on one key head go through the blocks they see, in order.

use std::ops::Range;

use super::kernel::{RankUpdate, Softmax, scale, update, widen};
use super::plan::{Row, Run};
use super::{Attention, HeadInput, MAX_HEAD_DIM, QUERY_STRIDE, ThreadScratch};
use crate::activations::RowWriter;
use crate::kv::BLOCK_TOKENS;
use crate::lanes::Lanes;
use crate::rope::rotate;

/// Some query heads of one key head for the rows of one tile.
pub(super) struct TileJob<'a> {
    pub(super) attention: &'a Attention<'a>,
    pub(super) rows: &'a [Row],
    pub(super) head: usize,
    /// Which of the key head's query heads.
    pub(super) group: Range<usize>,
    pub(super) queries: &'a HeadInput<'a>,
    pub(super) out: &'a RowWriter<'a>,
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
pub(super) unsafe fn run_tile<L: Lanes>(job: &TileJob<'_>, scratch: &mut ThreadScratch) {
    let plan = job.attention.plan;
    let (rows, window) = (job.rows, job.attention.window.unwrap_or(usize::MAX));
    let heads = job.group.len();
    let mut state = TileState::new(
        scratch,
        rows.len() * heads,
        job.attention.cache.shape().head_dim,
    );
    // SAFETY: the caller's promise.
    unsafe { load_queries::<L>(job, rows, &mut state) };
    let head_of = |run: &Run| {
        job.attention
            .cache
            .head(run.block, job.attention.layer, job.head)
    };
    let first = rows.iter().map(|row| row.first_seen(window)).min();
    let mut next = plan.run_from(rows, window, first.unwrap_or(0) / BLOCK_TOKENS, 0);
    while let Some(run) = next {
        let at = head_of(&run);
        next = plan.run_from(rows, window, run.index, run.rows.end);
        if let Some(next) = &next {
            // Keys and values of a head lie together.
            L::fetch(
                head_of(next).keys.cast(),
                size_of::<u16>() * 2 * state.keys.len(),
            );
        }
        // SAFETY: a head's keys and values are as long as the state's buffers.
        unsafe {
            widen::<L>(at.keys, state.keys.as_mut_ptr(), state.keys.len());
            widen::<L>(at.values, state.values.as_mut_ptr(), state.values.len());
            attend_block::<L>(&mut state, &rows[run.rows.clone()], &run, (window, heads));
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
    let (dim, attention) = (state.dim, job.attention);
    let total = attention.cache.shape().heads * attention.group;
    let mut prepared = [0.0; MAX_HEAD_DIM];
    let mut to = state.queries.chunks_exact_mut(QUERY_STRIDE);
    for row in rows {
        let factors = attention.rope.factors(row.position);
        for head in job.group.clone() {
            let place = (row.input, job.head * attention.group + head, total);
            let to = to.next().expect("one place a query");
            // SAFETY: all slices have `head_dim` values, the factors twice as many.
            unsafe {
                let from = job
                    .queries
                    .head::<L>(place, attention.epsilon, dim, &mut prepared);
                rotate::<L>(
                    from.as_ptr(),
                    factors.as_ptr(),
                    attention.scale,
                    to.as_mut_ptr(),
                    dim,
                );
            }
        }
    }
}

/// Lets the queries of `rows`, the run's, attend to its block, which is widened in the state.
#[inline(always)]
unsafe fn attend_block<L: Lanes>(
    state: &mut TileState<'_>,
    rows: &[Row],
    run: &Run,
    (window, heads): (usize, usize),
) {
    let start = run.index * BLOCK_TOKENS;
    let seen = |row: &Row| {
        let first = row.first_seen(window).saturating_sub(start);
        first..(row.position + 1 - start).min(BLOCK_TOKENS)
    };
    let mut first = 0;
    while first < rows.len() {
        let tokens = seen(&rows[first]);
        let alike = rows[first..]
            .iter()
            .take_while(|row| seen(row) == tokens)
            .count();
        let queries = run.rows.start + first..run.rows.start + first + alike;
        // SAFETY: the rows are inside the tile.
        unsafe { attend_rows::<L>(state, queries.start * heads..queries.end * heads, tokens) };
        first += alike;
    }
}

/// Lets some queries attend to some tokens, at least one, of the widened block.
#[inline(always)]
unsafe fn attend_rows<L: Lanes>(
    state: &mut TileState<'_>,
    range: Range<usize>,
    tokens: Range<usize>,
) {
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
            // What lies before the window weighs nothing.
            scores[i * BLOCK_TOKENS..][..tokens.start].fill(f32::NEG_INFINITY);
            let scores = scores[i * BLOCK_TOKENS..].as_mut_ptr();
            let factor = softmax.step::<L>(scores, tokens.end);
            // Multiplying by 1 would change no bit.
            if factor != 1.0 {
                scale::<L>(out.as_mut_ptr().add(i * dim), factor, dim);
            }
        }
        update::<L, BLOCK_TOKENS>(RankUpdate {
            out: out.as_mut_ptr(),
            out_stride: dim,
            factors: scores[tokens.start..].as_ptr(),
            lines: state.values[tokens.start * dim..].as_ptr(),
            rows: range.len(),
            count: tokens.len(),
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
