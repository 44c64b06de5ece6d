//! Inputs of matrix products: bytes with a scale per 32, laid out in panels of a few tokens, and for float weights
//! the numbers themselves.
//!
//! Quantising depends on nothing but the row itself, so a token's product is the same in every batch.

use std::marker::PhantomData;

use crate::gemm::isa::{Isa, Path};
use crate::pool::Pool;
use crate::quant::{BLOCK, Form};

/// Tokens per panel: a whole number of times as many as any path computes together.
pub(crate) const PANEL: usize = 12;

#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(32))]
struct Bytes([i8; BLOCK]);

/// Reusable buffer of `rows` tokens by `cols` input features.
#[derive(Debug, Default)]
pub struct Activations {
    rows: usize,
    cols: usize,
    /// `[panel][block][token of the panel]`.
    quants: Vec<Bytes>,
    /// In the same order.
    scales: Vec<f32>,
    /// Sums of a block's quants times -8, in the same order: what to add to a product whose weights are moved up by 8.
    shifts: Vec<i32>,
    /// The part of `shifts` that comes from the first half of the block, for weights with a scale per half.
    firsts: Vec<i32>,
    /// Sums of a block's quants times its scale, in the same order.
    sums: Vec<f32>,
    /// `[row][col]`.
    numbers: Vec<f32>,
}

/// Where one token's numbers are: those of block `b` at `b * PANEL` entries from here, and the next token's, if it is
/// of the same panel, one entry further.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lane {
    pub(crate) quants: *const [i8; BLOCK],
    pub(crate) scales: *const f32,
    pub(crate) shifts: *const i32,
    pub(crate) firsts: *const i32,
    pub(crate) sums: *const f32,
}

impl Activations {
    /// An empty buffer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tokens.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Input features.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Takes `rows x cols` numbers of `input` as the forms that the weights to be multiplied read
    /// ([`crate::WeightKind::form`]).
    ///
    /// # Panics
    /// When `input` is not `rows * cols` long, or [`Form::Int8`] is asked for and `cols` is not a multiple of
    /// [`BLOCK`].
    pub fn quantise(&mut self, rows: usize, cols: usize, input: &[f32], forms: &[Form]) {
        assert_eq!(input.len(), rows * cols, "length of the input");
        let writer = self.writer(rows, cols, forms);
        for row in 0..rows {
            // SAFETY: one thread, one row at a time.
            unsafe { writer.set(row, &input[row * cols..][..cols]) };
        }
    }

    /// Sizes the buffer for `rows x cols` numbers and returns the means to set each row once, from any thread.
    /// Until a row is set it holds what earlier use left there.
    ///
    /// # Panics
    /// When [`Form::Int8`] is asked for and `cols` is not a multiple of [`BLOCK`].
    pub fn writer(&mut self, rows: usize, cols: usize, forms: &[Form]) -> RowWriter<'_> {
        self.writer_on(Isa::best(), rows, cols, forms)
    }

    fn writer_on(&mut self, isa: Isa, rows: usize, cols: usize, forms: &[Form]) -> RowWriter<'_> {
        (self.rows, self.cols) = (rows, cols);
        let int8 = forms.contains(&Form::Int8);
        assert!(
            !int8 || cols.is_multiple_of(BLOCK),
            "{cols} inputs in blocks of {BLOCK}"
        );
        let blocks = if int8 {
            rows.div_ceil(PANEL) * PANEL * (cols / BLOCK)
        } else {
            0
        };
        self.quants.resize(blocks, Bytes::default());
        self.scales.resize(blocks, 0.0);
        self.shifts.resize(blocks, 0);
        self.firsts.resize(blocks, 0);
        self.sums.resize(blocks, 0.0);
        let float = forms.contains(&Form::Float);
        self.numbers
            .resize(if float { rows * cols } else { 0 }, 0.0);
        RowWriter {
            path: isa.path(),
            rows,
            cols,
            int8,
            float,
            quants: self.quants.as_mut_ptr(),
            scales: self.scales.as_mut_ptr(),
            shifts: self.shifts.as_mut_ptr(),
            firsts: self.firsts.as_mut_ptr(),
            sums: self.sums.as_mut_ptr(),
            numbers: self.numbers.as_mut_ptr(),
            borrow: PhantomData,
        }
    }

    /// Takes the rows, which are held as numbers, as bytes too.
    ///
    /// # Panics
    /// When they are not held as numbers, or the width is not a multiple of [`BLOCK`].
    pub(crate) fn add_bytes(&mut self, pool: &mut Pool) {
        let (rows, cols) = (self.rows, self.cols);
        let numbers = std::mem::take(&mut self.numbers);
        assert_eq!(numbers.len(), rows * cols);
        let writer = self.writer(rows, cols, &[Form::Int8]);
        pool.run(rows.div_ceil(PANEL), &|task, _| {
            for row in task * PANEL..rows.min((task + 1) * PANEL) {
                // SAFETY: every row belongs to one task.
                unsafe { writer.set(row, &numbers[row * cols..][..cols]) };
            }
        });
        self.numbers = numbers;
    }

    /// # Panics
    /// When the rows were not taken as [`Form::Int8`], or the row does not exist.
    pub(crate) fn lane(&self, row: usize) -> Lane {
        let start = row / PANEL * PANEL * (self.cols / BLOCK) + row % PANEL;
        Lane {
            quants: self.quants[start..].as_ptr().cast(),
            scales: self.scales[start..].as_ptr(),
            shifts: self.shifts[start..].as_ptr(),
            firsts: self.firsts[start..].as_ptr(),
            sums: self.sums[start..].as_ptr(),
        }
    }

    /// Whether rows are held in `form`.
    pub(crate) fn has(&self, form: Form) -> bool {
        match form {
            Form::Int8 => self.quants.len() >= self.rows * (self.cols / BLOCK),
            Form::Float => self.numbers.len() == self.rows * self.cols,
        }
    }

    /// # Panics
    /// When the rows were not taken as [`Form::Float`], or the row does not exist.
    pub(crate) fn numbers(&self, row: usize) -> &[f32] {
        &self.numbers[row * self.cols..][..self.cols]
    }
}

/// Sets the rows of an [`Activations`]; threads may share it, each setting rows of its own.
#[derive(Debug)]
pub struct RowWriter<'a> {
    path: Path,
    rows: usize,
    cols: usize,
    int8: bool,
    float: bool,
    quants: *mut Bytes,
    scales: *mut f32,
    shifts: *mut i32,
    firsts: *mut i32,
    sums: *mut f32,
    numbers: *mut f32,
    borrow: PhantomData<&'a mut Activations>,
}

// SAFETY: it stands for `&mut Activations`, and callers of `set` promise that no two threads set one row.
unsafe impl Sync for RowWriter<'_> {}
// SAFETY: as above; nothing is tied to a thread.
unsafe impl Send for RowWriter<'_> {}

impl RowWriter<'_> {
    /// Sets one row.
    ///
    /// # Safety
    /// No other thread sets the same row at the same time.
    ///
    /// # Panics
    /// When the row does not exist or is not `cols` long.
    pub unsafe fn set(&self, row: usize, input: &[f32]) {
        assert_eq!(input.len(), self.cols, "length of a row");
        // SAFETY: nobody else sets the row.
        unsafe { self.set_part(row, 0, input) };
    }

    /// Sets the inputs of one row from `col` on, of whole blocks where they are taken as [`Form::Int8`].
    ///
    /// # Safety
    /// No other thread sets the same inputs at the same time.
    ///
    /// # Panics
    /// When the row has no such inputs, or they are no whole blocks.
    pub unsafe fn set_part(&self, row: usize, col: usize, input: &[f32]) {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let end = col.checked_add(input.len());
        assert!(
            end.is_some_and(|end| end <= self.cols),
            "inputs from {col} on of {}",
            self.cols
        );
        if self.float {
            // SAFETY: `numbers` has `rows * cols` elements, and nobody else has these (the caller's promise).
            unsafe {
                let place = self.numbers.add(row * self.cols + col);
                std::slice::from_raw_parts_mut(place, input.len()).copy_from_slice(input);
            }
        }
        if !self.int8 {
            return;
        }
        assert!(
            col.is_multiple_of(BLOCK) && input.len().is_multiple_of(BLOCK),
            "whole blocks"
        );
        let first = row / PANEL * PANEL * (self.cols / BLOCK) + row % PANEL + col / BLOCK * PANEL;
        // SAFETY: the blocks were checked, nobody else has them, and a path is only made when the processor has its
        // instructions.
        unsafe {
            match self.path {
                Path::Portable => self.set_blocks(first, input),
                #[cfg(target_arch = "x86_64")]
                Path::Avx2 => self.set_blocks_avx2(first, input),
                #[cfg(target_arch = "x86_64")]
                Path::Avx512 => self.set_blocks_avx512(first, input),
            }
        }
    }

    /// The same code, compiled for wider vectors.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn set_blocks_avx2(&self, first: usize, input: &[f32]) {
        // SAFETY: as the caller's.
        unsafe { self.set_blocks(first, input) }
    }

    /// The same code, compiled for the widest vectors.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn set_blocks_avx512(&self, first: usize, input: &[f32]) {
        // SAFETY: as the caller's.
        unsafe { self.set_blocks(first, input) }
    }

    /// # Safety
    /// `input` is whole blocks; the places from `first` on, [`PANEL`] apart, exist, and nobody else has them.
    #[inline(always)]
    unsafe fn set_blocks(&self, first: usize, input: &[f32]) {
        for index in 0..input.len() / BLOCK {
            let place = first + index * PANEL;
            // SAFETY: the caller's promise; `input` has this block, and an array of f32 lies like a slice of them.
            unsafe {
                let block = &*input.as_ptr().add(index * BLOCK).cast::<[f32; BLOCK]>();
                let quants = &mut (*self.quants.add(place)).0;
                let (scale, [first, second]) = quantise_block(block, quants);
                let total = first + second;
                self.scales.add(place).write(scale);
                self.shifts.add(place).write(-8 * total);
                self.firsts.add(place).write(-8 * first);
                self.sums.add(place).write(scale * total as f32);
            }
        }
    }
}

/// Adding and subtracting this rounds a small number to the nearest integer, ties to even, and leaves that integer in
/// the low bits: 1.5 * 2^23.
const ROUND: f32 = 12_582_912.0;

/// Below this the reciprocal of the scale would overflow; such inputs are taken as zero.
const TINY: f32 = f32::MIN_POSITIVE * 128.0;

/// Quantises to -127..=127; returns the scale and the sums of each half's quants. A block that holds an infinity or NaN gets
/// a NaN for its scale, so that the fault stays visible in every product.
#[inline(always)]
fn quantise_block(input: &[f32; BLOCK], out: &mut [i8; BLOCK]) -> (f32, [i32; 2]) {
    // As integers, absolute values order like numbers, with infinity and NaN above all: the order of the maxima
    // cannot matter.
    let mut largest = 0;
    for x in input {
        largest = largest.max(x.to_bits() & 0x7fff_ffff);
    }
    let largest = f32::from_bits(largest);
    if !largest.is_finite() {
        out.fill(0);
        return (f32::NAN, [0; 2]);
    }
    if largest < TINY {
        out.fill(0);
        return (0.0, [0; 2]);
    }
    let inverse = 127.0 / largest;
    let mut quants = [0; BLOCK];
    for (quant, x) in quants.iter_mut().zip(input) {
        *quant = (x * inverse + ROUND).to_bits() as i32 - ROUND.to_bits() as i32;
    }
    // Loops of their own: together with the sums the compiler finds no vectors in them.
    for (out, quant) in out.iter_mut().zip(quants) {
        *out = quant as i8;
    }
    let (first, second) = quants.split_at(BLOCK / 2);
    (largest / 127.0, [first.iter().sum(), second.iter().sum()])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numbers of every magnitude, among them what no model should produce.
    fn number() -> impl Strategy<Value = f32> {
        prop_oneof![
            20 => -1.0..1.0_f32,
            4 => any::<f32>(),
            1 => Just(0.0_f32),
            1 => Just(f32::MAX),
            1 => Just(f32::MIN_POSITIVE / 4.0),
        ]
    }

    type Held = (Vec<[i8; BLOCK]>, Vec<u32>, [Vec<i32>; 2], Vec<u32>);

    fn held(isa: Isa, input: &[f32]) -> Held {
        let mut activations = Activations::new();
        let writer = activations.writer_on(isa, 1, input.len(), &[Form::Int8]);
        // SAFETY: one thread.
        unsafe { writer.set(0, input) };
        let bits = |numbers: &[f32]| numbers.iter().step_by(PANEL).map(|x| x.to_bits()).collect();
        (
            activations
                .quants
                .iter()
                .step_by(PANEL)
                .map(|bytes| bytes.0)
                .collect(),
            bits(&activations.scales),
            [&activations.shifts, &activations.firsts]
                .map(|shifts| shifts.iter().step_by(PANEL).copied().collect()),
            bits(&activations.sums),
        )
    }

    proptest! {
        #[test]
        fn every_path_quantises_to_the_same_bits(input in prop::collection::vec(number(), 3 * BLOCK)) {
            let expected = held(Isa::available()[0], &input);
            for isa in Isa::available() {
                prop_assert_eq!(&held(isa, &input), &expected, "{}", isa.name());
            }
        }

        #[test]
        fn quants_are_the_nearest_to_the_input(input in prop::collection::vec(-1e3..1e3_f32, BLOCK)) {
            let (quants, scales, shifts, sums) = held(Isa::best(), &input);
            let scale = f32::from_bits(scales[0]);
            for (quant, x) in quants[0].iter().zip(&input) {
                prop_assert!((f32::from(*quant) * scale - x).abs() <= scale * 0.5001, "{} for {}", quant, x);
            }
            let sum = |quants: &[i8]| quants.iter().map(|quant| i32::from(*quant)).sum::<i32>();
            let total = sum(&quants[0]);
            prop_assert_eq!(shifts[0][0], -8 * total);
            prop_assert_eq!(shifts[1][0], -8 * sum(&quants[0][..BLOCK / 2]));
            prop_assert_eq!(f32::from_bits(sums[0]), scale * total as f32);
        }
    }
}
