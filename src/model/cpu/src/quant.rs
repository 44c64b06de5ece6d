//! The weight types of GGUF files that can be packed: block sizes in the file, and how quants become numbers.

pub(crate) mod half;
pub(crate) mod planes;

use crate::matrix::TILE_ROWS;

/// Inputs that share one scale, in weights and activations alike.
pub const BLOCK: usize = 32;

/// How a tensor's numbers are stored in a GGUF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types, reason = "the names that GGUF gives its types")]
pub enum WeightKind {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of an IEEE single.
    BF16,
    /// Blocks of 32: f16 scale `d`, 32 signed bytes `q`; a weight is `d * q`.
    Q8_0,
    /// Blocks of 32: f16 scale `d`, 32 nibbles `q`; a weight is `d * (q - 8)`.
    Q4_0,
    /// Blocks of 32: f16 scale `d`, f16 minimum `m`, 32 nibbles `q`; a weight is `d * q + m`.
    Q4_1,
    /// Blocks of 32: f16 scale `d`, the fifth bits, 32 nibbles; a weight is `d * (q - 16)`.
    Q5_0,
    /// Blocks of 32: f16 scale `d`, f16 minimum `m`, the fifth bits, 32 nibbles; a weight is `d * q + m`.
    Q5_1,
    /// Blocks of 256: f16 `d` and `m`, for each 32 a factor `s` and `t` of six bits, 256 nibbles; a weight is
    /// `d * s * q - m * t`.
    Q4_K,
    /// As [`Self::Q4_K`], with five bits a quant.
    Q5_K,
    /// Blocks of 256: quants of six bits, for each 16 a signed byte `s`, f16 `d`; a weight is `d * s * (q - 32)`.
    Q6_K,
}

/// Which form of the activations a product with a kind of weights reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Signed bytes with a scale per 32.
    Int8,
    /// The numbers themselves.
    Float,
}

impl WeightKind {
    /// Numbers per block of the file.
    #[must_use]
    pub fn block(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => 1,
            Self::Q8_0 | Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 => BLOCK,
            Self::Q4_K | Self::Q5_K | Self::Q6_K => 8 * BLOCK,
        }
    }

    /// Bytes per block of the file.
    #[must_use]
    pub fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::Q8_0 => 34,
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q4_K => 144,
            Self::Q5_K => 176,
            Self::Q6_K => 210,
        }
    }

    /// The form of activations that products with this kind read.
    #[must_use]
    pub fn form(self) -> Form {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => Form::Float,
            Self::Q8_0
            | Self::Q4_0
            | Self::Q4_1
            | Self::Q5_0
            | Self::Q5_1
            | Self::Q4_K
            | Self::Q5_K
            | Self::Q6_K => Form::Int8,
        }
    }
}

/// What a kernel must know of a block-quantised type at compile time. A weight is `scale * (q - OFFSET) + min`.
pub(crate) trait Format {
    /// Bits per quant: 8 means signed bytes, 4 unsigned nibbles.
    const BITS: usize;
    /// Subtracted from every quant.
    const OFFSET: i32;
    /// Whether blocks carry a minimum beside their scale.
    const MIN: bool;
    /// Bytes before the quants in a block of the file: the scale and, where there is one, the minimum.
    const HEADER: usize = if Self::MIN { 4 } else { 2 };
    /// Bytes of a block's quants in a tile.
    const BLOCK_QUANTS: usize = TILE_ROWS * BLOCK * Self::BITS / 8;
    /// Bytes of a block's scales and minima in a tile.
    const BLOCK_SCALES: usize = TILE_ROWS * Self::HEADER;
}

pub(crate) struct Q8_0;
pub(crate) struct Q4_0;
pub(crate) struct Q4_1;

impl Format for Q8_0 {
    const BITS: usize = 8;
    const OFFSET: i32 = 0;
    const MIN: bool = false;
}

impl Format for Q4_0 {
    const BITS: usize = 4;
    const OFFSET: i32 = 8;
    const MIN: bool = false;
}

impl Format for Q4_1 {
    const BITS: usize = 4;
    const OFFSET: i32 = 0;
    const MIN: bool = true;
}
