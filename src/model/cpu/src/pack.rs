//! Repacking: rows as they lie in a GGUF file go, one by one, to their places among the interleaved rows of a tile.

pub(crate) mod arena;
mod planes;

use std::fmt;

use arena::Arena;

use crate::matrix::{Matrix, TILE_ROWS};
use crate::quant::planes::{Q4_K, Q5_0, Q5_1, Q5_K, Q6_K};
use crate::quant::{BLOCK, Format, Q4_0, Q4_1, Q8_0, WeightKind};

/// Why bytes are not a matrix of the kind and shape asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackError {
    /// A row does not consist of whole blocks.
    PartialBlock {
        /// Inputs per row.
        cols: usize,
        /// Numbers per block of the kind.
        block: usize,
    },
    /// The bytes are not the expected number.
    Length {
        /// Bytes that the rows take.
        expected: usize,
        /// Bytes given.
        actual: usize,
    },
    /// No rows, no columns, or more than there is memory for.
    Shape {
        /// Output features.
        rows: usize,
        /// Input features.
        cols: usize,
    },
    /// A row beyond the last, or a matrix finished before its last row came.
    Row {
        /// Rows received, or the index of the row that does not exist.
        row: usize,
        /// Rows of the matrix.
        rows: usize,
    },
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PartialBlock { cols, block } => {
                write!(
                    f,
                    "rows of {cols} weights do not divide into blocks of {block}"
                )
            }
            Self::Length { expected, actual } => {
                write!(f, "{actual} bytes where the rows take {expected}")
            }
            Self::Shape { rows, cols } => {
                write!(f, "a matrix of {rows} x {cols} weights cannot be held")
            }
            Self::Row { row, rows } => write!(f, "row {row} of a matrix of {rows} rows"),
        }
    }
}

impl std::error::Error for PackError {}

/// A matrix being filled, so that a file can be read in pieces without a second copy of the tensor.
#[derive(Debug)]
pub struct Packer {
    matrix: Matrix,
    row_bytes: usize,
    next: usize,
}

impl Packer {
    /// A matrix by itself: as [`Packer::new_in`] with an arena of its own.
    ///
    /// # Errors
    /// As [`Packer::new_in`].
    pub fn new(kind: WeightKind, rows: usize, cols: usize) -> Result<Self, PackError> {
        Self::new_in(&mut Arena::of_one(), kind, rows, cols)
    }

    /// A matrix of `rows` output features by `cols` input features in memory of `arena`, to be filled row after row.
    ///
    /// # Errors
    /// [`PackError::PartialBlock`] and [`PackError::Shape`].
    pub fn new_in(
        arena: &mut Arena,
        kind: WeightKind,
        rows: usize,
        cols: usize,
    ) -> Result<Self, PackError> {
        if !cols.is_multiple_of(kind.block()) {
            return Err(PackError::PartialBlock {
                cols,
                block: kind.block(),
            });
        }
        let matrix =
            Matrix::zeroed(arena, kind, rows, cols).ok_or(PackError::Shape { rows, cols })?;
        let row_bytes = cols / kind.block() * kind.block_bytes();
        Ok(Self {
            matrix,
            row_bytes,
            next: 0,
        })
    }

    /// Bytes that one row takes in the file.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Appends whole rows in the layout of the file. Rows of several tensors may follow each other: one matrix then
    /// computes the products of all with one input.
    ///
    /// # Errors
    /// [`PackError::Length`] if `bytes` is not a number of whole rows, [`PackError::Row`] if they are too many.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), PackError> {
        if !bytes.len().is_multiple_of(self.row_bytes) {
            return Err(PackError::Length {
                expected: bytes.len().next_multiple_of(self.row_bytes),
                actual: bytes.len(),
            });
        }
        let rows = self.matrix.rows();
        let end = self.next + bytes.len() / self.row_bytes;
        if end > rows {
            return Err(PackError::Row { row: end - 1, rows });
        }
        for (row, bytes) in (self.next..).zip(bytes.chunks_exact(self.row_bytes)) {
            put(&mut self.matrix, row, bytes);
        }
        self.next = end;
        Ok(())
    }

    /// The matrix.
    ///
    /// # Errors
    /// [`PackError::Row`] if rows are missing.
    pub fn finish(self) -> Result<Matrix, PackError> {
        let rows = self.matrix.rows();
        if self.next != rows {
            return Err(PackError::Row {
                row: self.next,
                rows,
            });
        }
        Ok(self.matrix)
    }
}

fn put(matrix: &mut Matrix, row: usize, bytes: &[u8]) {
    match matrix.kind() {
        WeightKind::F32 => put_numbers::<4>(matrix, row, bytes),
        WeightKind::F16 | WeightKind::BF16 => put_numbers::<2>(matrix, row, bytes),
        WeightKind::Q8_0 => put_blocks::<Q8_0>(matrix, row, bytes),
        WeightKind::Q4_0 => put_blocks::<Q4_0>(matrix, row, bytes),
        WeightKind::Q4_1 => put_blocks::<Q4_1>(matrix, row, bytes),
        WeightKind::Q5_0 => planes::put::<Q5_0>(matrix, row, bytes),
        WeightKind::Q5_1 => planes::put::<Q5_1>(matrix, row, bytes),
        WeightKind::Q4_K => planes::put::<Q4_K>(matrix, row, bytes),
        WeightKind::Q5_K => planes::put::<Q5_K>(matrix, row, bytes),
        WeightKind::Q6_K => planes::put::<Q6_K>(matrix, row, bytes),
    }
}

fn put_numbers<const SIZE: usize>(matrix: &mut Matrix, row: usize, bytes: &[u8]) {
    let lane = row % TILE_ROWS;
    let tile = matrix.tile_mut(row / TILE_ROWS);
    for (column, number) in tile
        .chunks_exact_mut(TILE_ROWS * SIZE)
        .zip(bytes.chunks_exact(SIZE))
    {
        column[lane * SIZE..][..SIZE].copy_from_slice(number);
    }
}

fn put_blocks<F: Format>(matrix: &mut Matrix, row: usize, bytes: &[u8]) {
    let lane = row % TILE_ROWS;
    let layout = matrix.layout();
    let tile = matrix.tile_mut(row / TILE_ROWS);
    let (quants, scales) = tile.split_at_mut(layout.scales);
    let blocks = bytes.chunks_exact(F::HEADER + BLOCK * F::BITS / 8);
    let places = quants
        .chunks_exact_mut(layout.block_quants)
        .zip(scales.chunks_exact_mut(layout.block_scales));
    for (block, (quants, scales)) in blocks.zip(places) {
        let (header, source) = block.split_at(F::HEADER);
        scales[2 * lane..][..2].copy_from_slice(&header[..2]);
        if F::MIN {
            scales[2 * (TILE_ROWS + lane)..][..2].copy_from_slice(&header[2..4]);
        }
        // Four consecutive inputs of a row are what one 32-bit lane multiplies. In the file the low nibbles of a
        // block are inputs 0..16 and the high ones 16..32, so its bytes already pair input `k` with `k + 16`.
        for (line, four) in quants
            .chunks_exact_mut(4 * TILE_ROWS)
            .zip(source.chunks_exact(4))
        {
            line[4 * lane..][..4].copy_from_slice(four);
        }
    }
}
