//! One tile's attention: the queries of a few rows on one key head go through the blocks they see, in order.

use std::ops::Range;

use super::kernel::{RankUpdate, Softmax, scale, update, widen};
use super::plan::{Row, Run};
use super::{Attention, HeadInput, MAX_HEAD_DIM, QUERY_STRIDE, ThreadScratch};
use crate::activations::RowWriter;
use crate::kv::BLOCK_TOKENS;
use crate::lanes::Lanes;
use crate::rope::rotate;

/// From this many queries on a block takes longer to compute than to arrive, and asking for it only costs.
const BUSY: usize = 24;

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
        if let Some(next) = next.as_ref().filter(|_| run.rows.len() * heads < BUSY) {
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

/// Tokens of a block that a row sees: from its window's start to itself.
#[inline(always)]
fn seen(row: &Row, start: usize, window: usize) -> Range<usize> {
    let first = row.first_seen(window).saturating_sub(start);
    first..(row.position + 1 - start).min(BLOCK_TOKENS)
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
    let (first, count) = (run.rows.start * heads, rows.len() * heads);
    // SAFETY: the queries are inside the tile, and each sees at least one token.
    unsafe {
        weigh::<L>(state, first..first + count, |query| {
            seen(&rows[query / heads], start, window)
        });
        let mut query = 0;
        while query < count {
            let together = L::ROWS.min(count - query);
            let all = &rows[query / heads..=(query + together - 1) / heads];
            let mut common = seen(&all[0], start, window);
            let mut alike = true;
            for row in all {
                let tokens = seen(row, start, window);
                alike &= tokens.start == common.start;
                common.end = common.end.min(tokens.end);
            }
            let at = first + query;
            if alike {
                gather::<L>(state, at..at + together, common.clone());
            } else {
                common.end = common.start;
            }
            // What one sees and another does not is added to the one alone: a weight of zero would let a NaN through.
            for i in 0..together {
                let tokens = seen(&rows[(query + i) / heads], start, window);
                let rest = if alike { common.end } else { tokens.start }..tokens.end;
                if !rest.is_empty() {
                    gather::<L>(state, at + i..at + i + 1, rest);
                }
            }
            query += together;
        }
    }
}

/// Turns the products of some queries with the block's keys into weights, and scales what they have gathered so far.
///
/// # Safety
/// L's features exist.
#[inline(always)]
unsafe fn weigh<L: Lanes>(
    state: &mut TileState<'_>,
    range: Range<usize>,
    seen: impl Fn(usize) -> Range<usize>,
) {
    let dim = state.dim;
    let scores = &mut state.scores[range.start * BLOCK_TOKENS..range.end * BLOCK_TOKENS];
    let queries = &state.queries[range.start * QUERY_STRIDE..range.end * QUERY_STRIDE];
    let out = &mut state.out[range.start * dim..range.end * dim];
    scores.fill(0.0);
    // SAFETY: the slices above hold what the update names; scores, queries, out and keys are different buffers.
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
            let tokens = seen(i);
            // What lies before the window weighs nothing.
            scores[i * BLOCK_TOKENS..][..tokens.start].fill(f32::NEG_INFINITY);
            let scores = scores[i * BLOCK_TOKENS..].as_mut_ptr();
            let factor = softmax.step::<L>(scores, tokens.end);
            // Multiplying by 1 would change no bit.
            if factor != 1.0 {
                scale::<L>(out.as_mut_ptr().add(i * dim), factor, dim);
            }
        }
    }
}

/// Adds the values of some tokens, at least one, to what some queries have gathered, each by its weight.
///
/// # Safety
/// L's features exist.
#[inline(always)]
unsafe fn gather<L: Lanes>(state: &mut TileState<'_>, range: Range<usize>, tokens: Range<usize>) {
    let dim = state.dim;
    let scores = &state.scores[range.start * BLOCK_TOKENS..range.end * BLOCK_TOKENS];
    let out = &mut state.out[range.start * dim..range.end * dim];
    // SAFETY: the slices above hold what the update names; scores, out and values are different buffers.
    unsafe {
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
