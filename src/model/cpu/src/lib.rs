//! CPU kernels. Every operation gives the same bits with every instruction set and for every number of threads.

mod activations;
#[cfg(test)]
mod allocations;
mod attention;
mod gemm;
mod kv;
mod lanes;
#[cfg(target_arch = "x86_64")]
mod lanes_x86;
mod linear;
mod math;
mod matrix;
mod norm;
mod pack;
mod pool;
mod quant;
mod rope;
mod shared;

pub use activations::{Activations, RowWriter};
pub use attention::{
    Attention, AttentionPlan, AttentionScratch, HeadInput, MAX_HEAD_DIM, PlanError, Rows, Work,
};
pub use gemm::isa::Isa;
pub use gemm::{OutView, multiply, multiply_on, product};
pub use kv::{BLOCK_TOKENS, KvCache, KvShape, OutOfMemory};
pub use linear::{
    Gate, GatedProduct, GatedScratch, NormRows, Product, multiply_all, multiply_gated,
    normalise_rows,
};
pub use math::{geglu, swiglu};
pub use matrix::{Matrix, TILE_ROWS};
pub use norm::{add_and_normalise, normalise};
pub use pack::arena::Arena;
pub use pack::{PackError, Packer};
pub use pool::Pool;
pub use quant::{BLOCK, Form, WeightKind};
pub use rope::Rope;
