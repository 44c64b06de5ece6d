//! Linear maps over the pool: matrix products cut by tiles of output rows, and the row operations around them.

use std::ops::Range;

use crate::activations::{Activations, RowWriter};
use crate::gemm::isa::Isa;
use crate::gemm::{CHUNK, OutView, chunks, multiply_on};
use crate::math::{geglu, swiglu};
use crate::matrix::{Matrix, TILE_ROWS};
use crate::norm::{add_and_normalise, normalise};
use crate::pool::Pool;
use crate::quant::{BLOCK, Form};
use crate::shared::Shared;

/// Tasks per thread that a product is cut into: enough that threads end together, few enough that claiming is free.
const TASKS_PER_THREAD: usize = 8;
/// Rows that one task normalises; fewer rows than this are not worth waking anybody.
const TASK_ROWS: usize = 4;

/// One matrix of a product and where its outputs go: `[tokens][weights.rows()]`.
pub struct Product<'a> {
    /// `[outputs][inputs]`
    pub weights: &'a Matrix,
    /// As long as tokens times outputs.
    pub out: &'a mut [f32],
}

/// Multiplies one input with several matrices.
///
/// # Panics
/// When an output's length or the input's width does not fit, or the input lacks the form that a matrix reads.
pub fn multiply_all<const N: usize>(
    pool: &mut Pool,
    isa: Isa,
    input: &Activations,
    products: [Product<'_>; N],
) {
    let tokens = input.rows();
    let parts = products.map(|product| {
        assert_eq!(
            product.out.len(),
            tokens * product.weights.rows(),
            "outputs of {:?}",
            product.weights
        );
        (
            product.weights,
            OutView::new(product.out, product.weights.rows()),
        )
    });
    let tiles = parts
        .iter()
        .map(|(weights, _)| weights.tiles())
        .sum::<usize>();
    let chunk = tiles.div_ceil(pool.threads() * TASKS_PER_THREAD).max(1);
    pool.run(tiles.div_ceil(chunk), &|task, _| {
        let mut wanted = task * chunk..tiles.min((task + 1) * chunk);
        for (weights, out) in &parts {
            let here = wanted.start.min(weights.tiles())..wanted.end.min(weights.tiles());
            // SAFETY: tasks have different tiles, and each matrix a view of its own.
            unsafe { multiply_on(isa, weights, here, input, 0..tokens, out) };
            wanted = wanted.start.saturating_sub(weights.tiles())
                ..wanted.end.saturating_sub(weights.tiles());
        }
    });
}

/// What the gate of a feed-forward layer goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// `x / (1 + exp(-x))`
    Silu,
    /// The Gaussian error linear unit, approximated by a hyperbolic tangent.
    Gelu,
}

/// The two projections of a gated feed-forward layer.
pub struct GatedProduct<'a> {
    /// `[hidden][inputs]`
    pub gate: &'a Matrix,
    /// `[hidden][inputs]`
    pub up: &'a Matrix,
    /// What the gate goes through.
    pub activation: Gate,
    /// What the next product reads of the result.
    pub forms: &'a [Form],
}

/// Work space of [`multiply_gated`], a part for each thread.
#[derive(Debug, Default)]
pub struct GatedScratch(Vec<Vec<f32>>);

/// Tiles whose outputs are whole blocks of the next input.
const BLOCK_TILES: usize = BLOCK / TILE_ROWS;

/// `out <- activation(gate x) * (up x)`, `[tokens][hidden]`. The numbers are taken as `forms` as soon as a task has them, and
/// never lie in memory as a whole.
///
/// # Panics
/// When the matrices differ in shape, the hidden width is no multiple of 32, or the input lacks a form.
pub fn multiply_gated(
    pool: &mut Pool,
    isa: Isa,
    input: &Activations,
    product: &GatedProduct<'_>,
    scratch: &mut GatedScratch,
    out: &mut Activations,
) {
    let width = product.gate.rows();
    assert!(
        width == product.up.rows() && width.is_multiple_of(BLOCK),
        "{:?} {:?}",
        product.gate,
        product.up
    );
    let units = width / BLOCK;
    let chunk = units.div_ceil(pool.threads() * TASKS_PER_THREAD);
    let most = 2 * chunk * BLOCK * input.rows().min(CHUNK);
    scratch
        .0
        .resize_with(pool.threads().max(scratch.0.len()), Vec::new);
    for part in &mut scratch.0 {
        part.resize(most.max(part.len()), 0.0);
    }
    let threads = Shared::new(&mut scratch.0);
    let writer = out.writer(input.rows(), width, product.forms);
    pool.run(units.div_ceil(chunk), &|task, thread| {
        let units = task * chunk..units.min((task + 1) * chunk);
        // SAFETY: no two tasks run on one thread at once.
        let scratch = unsafe { &mut threads.part(thread..thread + 1)[0] };
        // SAFETY: tasks have different units, so they set different inputs.
        unsafe { gated_part(isa, input, product, units, scratch, &writer) };
    });
}

/// # Safety
/// Nobody else sets these units of `out`.
unsafe fn gated_part(
    isa: Isa,
    input: &Activations,
    product: &GatedProduct<'_>,
    units: Range<usize>,
    scratch: &mut [f32],
    out: &RowWriter<'_>,
) {
    let tiles = units.start * BLOCK_TILES..units.end * BLOCK_TILES;
    let (first, width) = (units.start * BLOCK, units.len() * BLOCK);
    for tokens in chunks(0..input.rows()) {
        let (gate, rest) = scratch.split_at_mut(tokens.len() * width);
        let up = &mut rest[..tokens.len() * width];
        for (weights, to) in [(product.gate, &mut *gate), (product.up, &mut *up)] {
            let view = OutView::window(to, width, tokens.start, first);
            // SAFETY: the view is this call's own.
            unsafe { multiply_on(isa, weights, tiles.clone(), input, tokens.clone(), &view) };
        }
        match product.activation {
            Gate::Silu => swiglu(isa, gate, up),
            Gate::Gelu => geglu(isa, gate, up),
        }
        for (row, numbers) in tokens.zip(gate.chunks_exact(width)) {
            // SAFETY: the caller's promise.
            unsafe { out.set_part(row, first, numbers) };
        }
    }
}

/// Residual stream and norm of some rows.
pub struct NormRows<'a> {
    /// `[rows][width]`; the delta is added to it.
    pub x: &'a mut [f32],
    /// `[rows][width]`; afterwards it holds the normalised rows.
    pub delta: &'a mut [f32],
    /// `[width]`: the weight of a norm of the delta itself, before it is added.
    pub before: Option<&'a [f32]>,
    /// `[width]`
    pub weight: &'a [f32],
    /// Added to the mean of squares.
    pub epsilon: f32,
}

/// Adds the delta, normalises, and takes the rows as `forms` into `out`.
///
/// # Panics
/// When the lengths are no whole number of rows or the width is no multiple of 32.
pub fn normalise_rows(
    pool: &mut Pool,
    isa: Isa,
    rows: NormRows<'_>,
    forms: &[Form],
    out: &mut Activations,
) {
    let width = rows.weight.len();
    let count = rows.x.len() / width;
    assert!(rows.x.len() == count * width && rows.delta.len() == rows.x.len());
    let writer = out.writer(count, width, forms);
    let (x, delta) = (Shared::new(rows.x), Shared::new(rows.delta));
    for_rows(pool, count, &|range| {
        for row in range {
            let at = row * width..(row + 1) * width;
            // SAFETY: every row belongs to one task.
            unsafe {
                let delta = delta.part(at.clone());
                if let Some(weight) = rows.before {
                    normalise(isa, delta, weight, rows.epsilon);
                }
                add_and_normalise(isa, x.part(at), delta, rows.weight, rows.epsilon);
                writer.set(row, delta);
            }
        }
    });
}

fn for_rows(pool: &mut Pool, rows: usize, body: &(dyn Fn(Range<usize>) + Sync)) {
    pool.run(rows.div_ceil(TASK_ROWS), &|task, _| {
        body(task * TASK_ROWS..rows.min((task + 1) * TASK_ROWS));
    });
}
