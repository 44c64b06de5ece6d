//! Linear maps over the pool: matrix products cut by tiles of output rows, and the row operations around them.

use std::ops::Range;

use crate::activations::Activations;
use crate::gemm::isa::Isa;
use crate::gemm::{OutView, multiply_on};
use crate::math::swiglu;
use crate::matrix::{Matrix, TILE_ROWS};
use crate::norm::add_and_normalise;
use crate::pool::Pool;
use crate::quant::Form;
use crate::shared::Shared;

/// Tasks per thread that a product is cut into: enough that threads end together, few enough that claiming is free.
const TASKS_PER_THREAD: usize = 8;
/// Rows that one task normalises or quantises; fewer rows than this are not worth waking anybody.
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

/// The two projections of a gated feed-forward layer.
pub struct GatedProduct<'a> {
    /// `[hidden][inputs]`
    pub gate: &'a Matrix,
    /// `[hidden][inputs]`
    pub up: &'a Matrix,
    /// `[tokens][hidden]`, the result.
    pub hidden: &'a mut [f32],
    /// `[tokens][hidden]`, work space.
    pub scratch: &'a mut [f32],
}

/// `hidden <- silu(gate x) * (up x)`.
///
/// # Panics
/// When a length does not fit, the hidden width is no multiple of 16, or the input lacks a form.
pub fn multiply_gated(pool: &mut Pool, isa: Isa, input: &Activations, product: GatedProduct<'_>) {
    let GatedProduct {
        gate,
        up,
        hidden,
        scratch,
    } = product;
    let (tokens, width) = (input.rows(), gate.rows());
    assert!(
        width == up.rows() && width.is_multiple_of(TILE_ROWS),
        "{gate:?} {up:?}"
    );
    assert!(hidden.len() == tokens * width && scratch.len() == tokens * width);
    let (hidden, scratch) = (OutView::new(hidden, width), OutView::new(scratch, width));
    let chunk = gate
        .tiles()
        .div_ceil(pool.threads() * TASKS_PER_THREAD)
        .max(1);
    pool.run(gate.tiles().div_ceil(chunk), &|task, _| {
        let tiles = task * chunk..gate.tiles().min((task + 1) * chunk);
        let columns = tiles.start * TILE_ROWS..tiles.end * TILE_ROWS;
        // SAFETY: tasks have different tiles, so also different columns; the parts are taken after the products.
        unsafe {
            multiply_on(isa, gate, tiles.clone(), input, 0..tokens, &hidden);
            multiply_on(isa, up, tiles, input, 0..tokens, &scratch);
            for token in 0..tokens {
                swiglu(
                    isa,
                    hidden.part(token, columns.clone()),
                    scratch.part(token, columns.clone()),
                );
            }
        }
    });
}

/// Residual stream and norm of some rows.
pub struct NormRows<'a> {
    /// `[rows][width]`; the delta is added to it.
    pub x: &'a mut [f32],
    /// `[rows][width]`; afterwards it holds the normalised rows.
    pub delta: &'a mut [f32],
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
                add_and_normalise(isa, x.part(at), delta, rows.weight, rows.epsilon);
                writer.set(row, delta);
            }
        }
    });
}

/// Takes `[rows][width]` as `forms` into `out`.
///
/// # Panics
/// When the length is no whole number of rows or the width is no multiple of 32.
pub fn quantise_rows(
    pool: &mut Pool,
    input: &[f32],
    width: usize,
    forms: &[Form],
    out: &mut Activations,
) {
    let count = input.len() / width;
    assert_eq!(input.len(), count * width);
    let writer = out.writer(count, width, forms);
    for_rows(pool, count, &|range| {
        for row in range {
            // SAFETY: every row belongs to one task.
            unsafe { writer.set(row, &input[row * width..(row + 1) * width]) };
        }
    });
}

fn for_rows(pool: &mut Pool, rows: usize, body: &(dyn Fn(Range<usize>) + Sync)) {
    pool.run(rows.div_ceil(TASK_ROWS), &|task, _| {
        body(task * TASK_ROWS..rows.min((task + 1) * TASK_ROWS));
    });
}
