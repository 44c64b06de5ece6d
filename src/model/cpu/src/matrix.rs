//! Packed weights: tiles of 16 output rows whose numbers are interleaved, so that a vector lane is an output row and
//! no sum is ever taken across lanes. One layout serves vectors of 128, 256 and 512 bits and matrix tiles.
//!
//! A tile of a block-quantised kind holds, for each block of 32 inputs, lines of 64 bytes: four consecutive inputs of
//! each of the 16 rows (4-bit kinds: inputs `k` in the low and `k + 16` in the high nibbles, so 4 lines; 8-bit: 8);
//! after the lines of all blocks, for each block 16 f16 scales and, where the kind has them, 16 f16 minima.
//! Kinds of five and six bits, and those with blocks of 256, have their bits above the fourth in lines of their own:
//! see [`crate::quant::planes`].
//! A tile of a float kind holds the 16 rows' numbers for input 0, then for input 1, and so on.

use crate::pack::arena::{Arena, Region};
use crate::pack::{PackError, Packer};
use crate::quant::half::to_f32;
use crate::quant::planes::{self, Planes};
use crate::quant::{BLOCK, Format, Q4_0, Q4_1, Q8_0, WeightKind};

/// Output rows per tile.
pub const TILE_ROWS: usize = 16;

/// Bytes of a cache line; tiles start on one.
const LINE: usize = 64;

/// Weights of one linear map: `rows` output features by `cols` input features.
pub struct Matrix {
    kind: WeightKind,
    rows: usize,
    cols: usize,
    layout: Layout,
    region: Region,
}

/// Where things lie in a tile, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Quants of one block (float kinds: numbers of one input), all rows of the tile.
    pub(crate) block_quants: usize,
    /// Scales and minima of one block.
    pub(crate) block_scales: usize,
    /// Start of the scales.
    pub(crate) scales: usize,
    /// From one tile to the next.
    pub(crate) tile: usize,
}

impl Layout {
    fn new(kind: WeightKind, cols: usize) -> Option<Self> {
        let (block_quants, block_scales) = match kind {
            WeightKind::F32 => (TILE_ROWS * 4, 0),
            WeightKind::F16 | WeightKind::BF16 => (TILE_ROWS * 2, 0),
            WeightKind::Q8_0 => (Q8_0::BLOCK_QUANTS, Q8_0::BLOCK_SCALES),
            WeightKind::Q4_0 => (Q4_0::BLOCK_QUANTS, Q4_0::BLOCK_SCALES),
            WeightKind::Q4_1 => (Q4_1::BLOCK_QUANTS, Q4_1::BLOCK_SCALES),
            WeightKind::Q5_0 => planes::sizes::<planes::Q5_0>(),
            WeightKind::Q5_1 => planes::sizes::<planes::Q5_1>(),
            WeightKind::Q4_K => planes::sizes::<planes::Q4_K>(),
            WeightKind::Q5_K => planes::sizes::<planes::Q5_K>(),
            WeightKind::Q6_K => planes::sizes::<planes::Q6_K>(),
        };
        let blocks = cols / kind.block();
        let scales = blocks.checked_mul(block_quants)?;
        let tile = blocks.checked_mul(block_scales)?.checked_add(scales)?;
        Some(Self {
            block_quants,
            block_scales,
            scales,
            tile: tile.checked_next_multiple_of(LINE)?,
        })
    }
}

impl std::fmt::Debug for Matrix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Matrix({:?}, {} x {})", self.kind, self.rows, self.cols)
    }
}

impl Matrix {
    /// Packs `bytes`, the matrix in the layout of a GGUF file: row after row. [`Packer`] does so in pieces.
    ///
    /// # Errors
    /// When the bytes are not `rows` whole rows of `cols` weights (see [`PackError`]).
    pub fn pack(
        kind: WeightKind,
        rows: usize,
        cols: usize,
        bytes: &[u8],
    ) -> Result<Self, PackError> {
        let mut packer = Packer::new(kind, rows, cols)?;
        let expected = rows.saturating_mul(packer.row_bytes());
        if bytes.len() != expected {
            let actual = bytes.len();
            return Err(PackError::Length { expected, actual });
        }
        packer.push(bytes)?;
        packer.finish()
    }

    /// `None` if the shape is empty or there is no memory of its size.
    pub(crate) fn zeroed(
        arena: &mut Arena,
        kind: WeightKind,
        rows: usize,
        cols: usize,
    ) -> Option<Self> {
        let layout = Layout::new(kind, cols)?;
        let bytes = rows.div_ceil(TILE_ROWS).checked_mul(layout.tile)?;
        if bytes == 0 {
            return None;
        }
        Some(Self {
            kind,
            rows,
            cols,
            layout,
            region: arena.take(bytes)?,
        })
    }

    /// How the weights are stored.
    #[must_use]
    pub fn kind(&self) -> WeightKind {
        self.kind
    }

    /// Output features.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Input features.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Bytes of memory that the packed weights take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.region.len()
    }

    /// Independent units of work: tiles of [`TILE_ROWS`] output rows, the last of which may be partial.
    #[must_use]
    pub fn tiles(&self) -> usize {
        self.rows.div_ceil(TILE_ROWS)
    }

    /// Writes the weights of one output row as numbers: an embedding, when the matrix is a table of them.
    ///
    /// # Panics
    /// When `row` is not below `rows`, or `out` is not `cols` long.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        assert_eq!(out.len(), self.cols, "length of a row");
        match self.kind {
            WeightKind::F32 => self.row_numbers(row, out, f32::from_le_bytes),
            WeightKind::F16 => {
                self.row_numbers(row, out, |bytes| to_f32(u16::from_le_bytes(bytes)))
            }
            WeightKind::BF16 => self.row_numbers(row, out, bf16),
            WeightKind::Q8_0 => self.row_blocks::<Q8_0>(row, out),
            WeightKind::Q4_0 => self.row_blocks::<Q4_0>(row, out),
            WeightKind::Q4_1 => self.row_blocks::<Q4_1>(row, out),
            WeightKind::Q5_0 => self.row_planes::<planes::Q5_0>(row, out),
            WeightKind::Q5_1 => self.row_planes::<planes::Q5_1>(row, out),
            WeightKind::Q4_K => self.row_planes::<planes::Q4_K>(row, out),
            WeightKind::Q5_K => self.row_planes::<planes::Q5_K>(row, out),
            WeightKind::Q6_K => self.row_planes::<planes::Q6_K>(row, out),
        }
    }

    fn row_numbers<const SIZE: usize>(
        &self,
        row: usize,
        out: &mut [f32],
        number: impl Fn([u8; SIZE]) -> f32,
    ) {
        let lane = row % TILE_ROWS;
        let (numbers, _) = self.tile(row / TILE_ROWS).as_chunks::<SIZE>();
        for (out, column) in out.iter_mut().zip(numbers.chunks_exact(TILE_ROWS)) {
            *out = number(column[lane]);
        }
    }

    fn row_blocks<F: Format>(&self, row: usize, out: &mut [f32]) {
        let lane = row % TILE_ROWS;
        let (quants, scales) = self.tile(row / TILE_ROWS).split_at(self.layout.scales);
        let blocks = quants
            .chunks_exact(self.layout.block_quants)
            .zip(scales.chunks_exact(self.layout.block_scales));
        for (out, (quants, scales)) in out.chunks_exact_mut(BLOCK).zip(blocks) {
            let scale = half_at(scales, lane);
            let min = if F::MIN {
                half_at(scales, TILE_ROWS + lane)
            } else {
                0.0
            };
            for (k, out) in out.iter_mut().enumerate() {
                let quant = quant::<F>(quants, lane, k) - F::OFFSET;
                *out = if F::MIN {
                    quant as f32 * scale + min
                } else {
                    quant as f32 * scale
                };
            }
        }
    }

    fn row_planes<P: Planes>(&self, row: usize, out: &mut [f32]) {
        let lane = row % TILE_ROWS;
        let (quants, scales) = self.tile(row / TILE_ROWS).split_at(self.layout.scales);
        for (unit, out) in out.chunks_exact_mut(BLOCK).enumerate() {
            let quants = &quants[unit * P::UNIT..][..P::UNIT];
            let factors = planes::factors::<P>(scales, unit, lane);
            for (k, out) in out.iter_mut().enumerate() {
                let quant = planes::quant::<P>(quants, lane, k) - P::OFFSET;
                let scaled = (quant * factors.halves[k / (BLOCK / 2)]) as f32 * factors.scale;
                *out = if P::MIN { scaled + factors.min } else { scaled };
            }
        }
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    pub(crate) fn tile(&self, tile: usize) -> &[u8] {
        &self.region[tile * self.layout.tile..][..self.layout.tile]
    }

    pub(crate) fn tile_mut(&mut self, tile: usize) -> &mut [u8] {
        let layout = self.layout;
        &mut self.region[tile * layout.tile..][..layout.tile]
    }
}

/// The value of the upper half of a single.
pub(crate) fn bf16(bytes: [u8; 2]) -> f32 {
    f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16)
}

/// The `index`-th f16 of `scales`.
pub(crate) fn half_at(scales: &[u8], index: usize) -> f32 {
    to_f32(u16::from_le_bytes([
        scales[2 * index],
        scales[2 * index + 1],
    ]))
}

/// The quant of input `k` in the block whose lines are `quants`, for one row of the tile.
#[inline]
pub(crate) fn quant<F: Format>(quants: &[u8], lane: usize, k: usize) -> i32 {
    let place = |k: usize| quants[k / 4 * LINE + 4 * lane + k % 4];
    match F::BITS {
        8 => i32::from(place(k) as i8),
        _ if k < BLOCK / 2 => i32::from(place(k) & 15),
        _ => i32::from(place(k - BLOCK / 2) >> 4),
    }
}
