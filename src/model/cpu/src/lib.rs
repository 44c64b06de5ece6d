//! CPU kernels.

mod activations;
mod gemm;
mod matrix;
mod pack;
mod quant;

pub use activations::{Activations, RowWriter};
pub use gemm::isa::Isa;
pub use gemm::{OutView, multiply, multiply_on, product};
pub use matrix::{Matrix, TILE_ROWS};
pub use pack::arena::Arena;
pub use pack::{PackError, Packer};
pub use quant::{BLOCK, Form, WeightKind};
