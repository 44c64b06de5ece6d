//! Products of packed weights and activations.
//!
//! Every path computes the same bits. For block-quantised weights: integer sums within a block are exact; blocks are
//! added in ascending order, each as `y = (w * a) * sum + y` and, for kinds with a minimum, then `y = min * sum_a + y`
//! (`w`, `a` the scales of weights and activations, `sum_a` the scaled sum of the activations), fused multiply-adds
//! both. Kinds of other widths follow the same rule, see [`planes`]. For float weights see [`float`]. So an output
//! depends on its row and its token alone.

mod float;
pub(crate) mod isa;
mod planes;
mod portable;
#[cfg(test)]
mod tests;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use std::marker::PhantomData;
use std::ops::Range;

use crate::activations::{Activations, PANEL};
use crate::matrix::{Matrix, TILE_ROWS};
use crate::quant::planes::{Q4_K, Q5_0, Q5_1, Q5_K, Q6_K};
use crate::quant::{BLOCK, Format, Q4_0, Q4_1, Q8_0, WeightKind};
use isa::{Isa, Path};

/// Where products go: output `row` of `token` is element `(token - first_token) * stride + row - first_row` of a borrowed
/// slice. Threads may share a view, each computing tiles or tokens of its own.
#[derive(Debug)]
pub struct OutView<'a> {
    /// Place of row 0 of token 0, which need not be inside the slice.
    start: *mut f32,
    len: usize,
    stride: usize,
    first_token: usize,
    first_row: usize,
    borrow: PhantomData<&'a mut [f32]>,
}

// SAFETY: it stands for `&mut [f32]`, and callers of `multiply` promise that concurrent calls write disjoint parts.
unsafe impl Sync for OutView<'_> {}
// SAFETY: as above; nothing is tied to a thread.
unsafe impl Send for OutView<'_> {}

impl<'a> OutView<'a> {
    /// A view of `out` in which tokens are `stride` elements apart.
    #[must_use]
    pub fn new(out: &'a mut [f32], stride: usize) -> Self {
        Self::window(out, stride, 0, 0)
    }

    /// A view that has places only from `first_token` and `first_row` on.
    #[must_use]
    pub fn window(out: &'a mut [f32], stride: usize, first_token: usize, first_row: usize) -> Self {
        let before = first_token.wrapping_mul(stride).wrapping_add(first_row);
        Self {
            start: out.as_mut_ptr().wrapping_sub(before),
            len: out.len(),
            stride,
            first_token,
            first_row,
            borrow: PhantomData,
        }
    }

    /// Whether it has a place for every one of `rows` of every one of `tokens`; neither is empty.
    fn holds(&self, tokens: &Range<usize>, rows: &Range<usize>) -> bool {
        let before = tokens.start < self.first_token || rows.start < self.first_row;
        if before || rows.end - self.first_row > self.stride {
            return false;
        }
        let last = (tokens.end - 1 - self.first_token).checked_mul(self.stride);
        let end = last.and_then(|start| start.checked_add(rows.end - self.first_row));
        end.is_some_and(|end| end <= self.len)
    }
}

/// One tile of a block-quantised matrix, and where its products go.
struct Tile<'a> {
    quants: *const u8,
    scales: *const u8,
    blocks: usize,
    input: &'a Activations,
    tokens: Range<usize>,
    /// Place of the tile's first row for token 0, which need not be inside the view.
    out: *mut f32,
    stride: usize,
    /// Rows of the tile that exist.
    rows: usize,
}

impl Tile<'_> {
    /// Steps through the tokens, at most `most` at a time and never across panels: `(first, count)`.
    #[inline]
    fn steps(&self, most: usize) -> impl Iterator<Item = (usize, usize)> {
        let mut token = self.tokens.start;
        let end = self.tokens.end;
        std::iter::from_fn(move || {
            let first = token;
            token += most.min(end - first).min(PANEL - first % PANEL);
            (token > first).then_some((first, token - first))
        })
    }

    /// Place of the tile's first row for `token`.
    #[inline]
    fn place(&self, token: usize) -> *mut f32 {
        self.out.wrapping_add(token * self.stride)
    }
}

/// All outputs of `weights` for all tokens of `input`, on this thread: output `row` of `token` goes to
/// `out[token * weights.rows() + row]`.
///
/// # Panics
/// As [`multiply`].
pub fn product(weights: &Matrix, input: &Activations, out: &mut [f32]) {
    let view = OutView::new(out, weights.rows());
    // SAFETY: the view is used by this call only.
    unsafe { multiply(weights, 0..weights.tiles(), input, 0..input.rows(), &view) }
}

/// Computes the outputs of `tiles` of `weights` for `tokens` of `input`.
///
/// # Safety
/// Calls that share a view at the same time differ in every tile or in every token.
///
/// # Panics
/// When tiles or tokens do not exist, the input's width is not the weights', the input does not hold the form that the
/// weights read, or the view has no place for an output.
pub unsafe fn multiply(
    weights: &Matrix,
    tiles: Range<usize>,
    input: &Activations,
    tokens: Range<usize>,
    out: &OutView<'_>,
) {
    // SAFETY: the caller's promise is the same.
    unsafe { multiply_on(Isa::best(), weights, tiles, input, tokens, out) }
}

/// [`multiply`] with a given instruction set, to compare them.
///
/// # Safety
/// As [`multiply`].
///
/// # Panics
/// As [`multiply`].
pub unsafe fn multiply_on(
    isa: Isa,
    weights: &Matrix,
    tiles: Range<usize>,
    input: &Activations,
    tokens: Range<usize>,
    out: &OutView<'_>,
) {
    if tiles.is_empty() || tokens.is_empty() {
        return;
    }
    check(weights, &tiles, input, &tokens, out);
    let path = isa.path();
    // SAFETY: ranges, form and places were checked; the caller promises that nobody else writes these outputs.
    unsafe {
        match weights.kind() {
            WeightKind::F32 | WeightKind::F16 | WeightKind::BF16 => {
                float::multiply(path, weights, tiles, input, tokens, out)
            }
            WeightKind::Q8_0 => blocks::<Q8_0>(path, weights, tiles, input, tokens, out),
            WeightKind::Q4_0 => blocks::<Q4_0>(path, weights, tiles, input, tokens, out),
            WeightKind::Q4_1 => blocks::<Q4_1>(path, weights, tiles, input, tokens, out),
            WeightKind::Q5_0 => planes::multiply::<Q5_0>(path, weights, tiles, input, tokens, out),
            WeightKind::Q5_1 => planes::multiply::<Q5_1>(path, weights, tiles, input, tokens, out),
            WeightKind::Q4_K => planes::multiply::<Q4_K>(path, weights, tiles, input, tokens, out),
            WeightKind::Q5_K => planes::multiply::<Q5_K>(path, weights, tiles, input, tokens, out),
            WeightKind::Q6_K => planes::multiply::<Q6_K>(path, weights, tiles, input, tokens, out),
        }
    }
}

fn check(
    weights: &Matrix,
    tiles: &Range<usize>,
    input: &Activations,
    tokens: &Range<usize>,
    out: &OutView<'_>,
) {
    assert!(
        tiles.end <= weights.tiles(),
        "tiles {tiles:?} of {}",
        weights.tiles()
    );
    assert!(
        tokens.end <= input.rows(),
        "tokens {tokens:?} of {}",
        input.rows()
    );
    assert_eq!(input.cols(), weights.cols(), "inputs of {weights:?}");
    let form = weights.kind().form();
    assert!(input.has(form), "{weights:?} reads {form:?} activations");
    let rows = tiles.start * TILE_ROWS..weights.rows().min(tiles.end * TILE_ROWS);
    assert!(
        out.holds(tokens, &rows),
        "no place for rows {rows:?} of tokens {tokens:?} in {out:?}"
    );
}

/// # Safety
/// The ranges exist, the input is int8, every output has a place, and nobody else writes it.
unsafe fn blocks<F: Format>(
    path: Path,
    weights: &Matrix,
    tiles: Range<usize>,
    input: &Activations,
    tokens: Range<usize>,
    out: &OutView<'_>,
) {
    let layout = weights.layout();
    let parts =
        chunks(tokens).flat_map(|tokens| tiles.clone().map(move |tile| (tokens.clone(), tile)));
    for (tokens, index) in parts {
        let bytes = weights.tile(index);
        let row = index * TILE_ROWS;
        let tile = Tile {
            quants: bytes.as_ptr(),
            scales: bytes[layout.scales..].as_ptr(),
            blocks: weights.cols() / BLOCK,
            input,
            tokens,
            out: out.start.wrapping_add(row),
            stride: out.stride,
            rows: TILE_ROWS.min(weights.rows() - row),
        };
        // SAFETY: tokens and outputs exist by the caller's promise; a path is only made when the processor has its
        // instructions.
        unsafe {
            match path {
                Path::Portable => portable::tile::<F>(&tile),
                #[cfg(target_arch = "x86_64")]
                Path::Avx2 => avx2::tile::<F>(&tile),
                #[cfg(target_arch = "x86_64")]
                Path::Avx512 => avx512::tile::<F>(&tile),
            }
        }
    }
}

/// Tokens that all tiles are multiplied with before the next ones' turn: their inputs stay in the second-level cache.
pub(crate) const CHUNK: usize = 8 * PANEL;

/// Parts of `tokens`, cut between panels.
pub(crate) fn chunks(tokens: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let cuts = tokens.start / CHUNK..tokens.end.div_ceil(CHUNK);
    cuts.map(move |cut| tokens.start.max(cut * CHUNK)..tokens.end.min((cut + 1) * CHUNK))
}
