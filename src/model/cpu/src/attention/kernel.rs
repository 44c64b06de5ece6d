//! The two inner loops of attention: the rank update that both products are made of, and the streaming softmax.

use crate::kv::BLOCK_TOKENS;
use crate::lanes::{LANES, Lanes, larger};
use crate::math::{weight, weight_of};

/// `out[row][..] += sum over i of factors[row][i] * lines[i][..]`, i ascending, for up to [`Lanes::ROWS`] rows at once.
/// Every element of the result is one chain of products added in order, so how rows and columns are cut changes nothing.
#[derive(Clone, Copy)]
pub(crate) struct RankUpdate {
    /// `[rows][out_stride]`, `columns` used.
    pub(crate) out: *mut f32,
    pub(crate) out_stride: usize,
    /// `[rows][STRIDE]`, `count` used.
    pub(crate) factors: *const f32,
    /// `[count][columns]`
    pub(crate) lines: *const f32,
    pub(crate) rows: usize,
    pub(crate) count: usize,
    /// A multiple of 16; also the distance between lines.
    pub(crate) columns: usize,
}

/// Adds to what is in `out`. The distance between the rows' factors is a constant, which keeps address arithmetic out of
/// the innermost loop.
///
/// # Safety
/// L's features exist and the pointers reach what their comments say; `out` overlaps neither input.
#[inline(always)]
pub(crate) unsafe fn update<L: Lanes, const STRIDE: usize>(args: RankUpdate) {
    let mut row = 0;
    while row < args.rows {
        let rows = (args.rows - row).min(L::ROWS);
        // SAFETY: the rows are inside; the rest is the caller's promise.
        unsafe {
            let part = RankUpdate {
                out: args.out.add(row * args.out_stride),
                factors: args.factors.add(row * STRIDE),
                rows,
                ..args
            };
            match rows {
                1 => update_rows::<L, STRIDE, 1>(part),
                2 => update_rows::<L, STRIDE, 2>(part),
                3 => update_rows::<L, STRIDE, 3>(part),
                4 => update_rows::<L, STRIDE, 4>(part),
                5 => update_rows::<L, STRIDE, 5>(part),
                _ => update_rows::<L, STRIDE, 6>(part),
            }
        }
        row += rows;
    }
}

#[inline(always)]
unsafe fn update_rows<L: Lanes, const STRIDE: usize, const ROWS: usize>(args: RankUpdate) {
    let mut column = 0;
    while column < args.columns {
        // SAFETY: two or one vectors from `column` on are inside `columns`, a multiple of the lanes.
        unsafe {
            if args.columns - column >= 2 * LANES {
                update_tile::<L, STRIDE, ROWS, 2>(args, column);
                column += 2 * LANES;
            } else {
                update_tile::<L, STRIDE, ROWS, 1>(args, column);
                column += LANES;
            }
        }
    }
}

#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "see the comment in it")]
unsafe fn update_tile<L: Lanes, const STRIDE: usize, const ROWS: usize, const WIDTH: usize>(
    args: RankUpdate,
    column: usize,
) {
    // Plain counted loops: adapters and closures have no target features of their own, and where they are not inlined
    // every vector goes through memory.
    // SAFETY: rows, lines and columns are in range by the callers.
    unsafe {
        let mut sums = [[L::splat(0.0); WIDTH]; ROWS];
        for row in 0..ROWS {
            for w in 0..WIDTH {
                sums[row][w] = L::load(args.out.add(row * args.out_stride + column + w * LANES));
            }
        }
        let mut line = args.lines.add(column);
        for i in 0..args.count {
            let mut values = [L::splat(0.0); WIDTH];
            for w in 0..WIDTH {
                values[w] = L::load(line.add(w * LANES));
            }
            for row in 0..ROWS {
                let factor = L::splat(*args.factors.add(row * STRIDE + i));
                for w in 0..WIDTH {
                    sums[row][w] = factor.mul_add(values[w], sums[row][w]);
                }
            }
            line = line.wrapping_add(args.columns);
        }
        for row in 0..ROWS {
            for w in 0..WIDTH {
                sums[row][w].store(args.out.add(row * args.out_stride + column + w * LANES));
            }
        }
    }
}

/// What streaming softmax carries from block to block for one query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Softmax {
    largest: f32,
    /// Sums of the weights, of the tokens that are equal modulo the lanes.
    sums: [f32; LANES],
}

impl Softmax {
    pub(crate) const START: Self = Self {
        largest: f32::NEG_INFINITY,
        sums: [0.0; LANES],
    };

    /// Turns a block's scores into weights, of which only the first `count` are not zero, and returns the factor that
    /// the output gathered so far must be multiplied with.
    ///
    /// # Safety
    /// L's features exist; `scores` reaches [`BLOCK_TOKENS`] values.
    #[inline(always)]
    pub(crate) unsafe fn step<L: Lanes>(&mut self, scores: *mut f32, count: usize) -> f32 {
        const { assert!(BLOCK_TOKENS == 2 * LANES) };
        // SAFETY: two vectors are one block of scores.
        unsafe {
            let mut low = L::load(scores);
            let mut high = L::load(scores.add(LANES));
            if count < BLOCK_TOKENS {
                low = low.keep_first(count, f32::NEG_INFINITY);
                high = high.keep_first(count.saturating_sub(LANES), f32::NEG_INFINITY);
            }
            let largest = larger(low.max(high).largest(), self.largest);
            let low = weight(low.sub(L::splat(largest)));
            let high = weight(high.sub(L::splat(largest)));
            low.store(scores);
            high.store(scores.add(LANES));
            // The weight of 0 is 1.
            let factor = if largest == self.largest {
                1.0
            } else {
                weight_of(self.largest - largest)
            };
            let sums = L::load(self.sums.as_ptr()).mul_add(L::splat(factor), low.add(high));
            sums.store(self.sums.as_mut_ptr());
            self.largest = largest;
            factor
        }
    }

    /// Sum of all weights.
    ///
    /// # Safety
    /// L's features exist.
    #[inline(always)]
    pub(crate) unsafe fn total<L: Lanes>(&self) -> f32 {
        // SAFETY: the sums are as many as the lanes.
        unsafe { L::load(self.sums.as_ptr()).sum() }
    }
}

/// `values[..] *= factor` over `len` values, a multiple of 16.
///
/// # Safety
/// L's features exist; `values` reaches `len`.
#[inline(always)]
pub(crate) unsafe fn scale<L: Lanes>(values: *mut f32, factor: f32, len: usize) {
    for i in (0..len).step_by(LANES) {
        // SAFETY: `i + LANES <= len`.
        unsafe {
            L::load(values.add(i))
                .mul(L::splat(factor))
                .store(values.add(i))
        }
    }
}

/// Half floats to f32, `len` of them, a multiple of 16.
///
/// # Safety
/// L's features exist; both pointers reach `len`.
#[inline(always)]
pub(crate) unsafe fn widen<L: Lanes>(from: *const u16, to: *mut f32, len: usize) {
    for i in (0..len).step_by(LANES) {
        // SAFETY: `i + LANES <= len`.
        unsafe { L::load_half(from.add(i)).store(to.add(i)) }
    }
}
