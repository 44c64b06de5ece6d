//! CPU kernels. Every operation gives the same bits at every instruction level and for every number of threads.

mod attention;
mod kv;
mod lanes;
#[cfg(target_arch = "x86_64")]
mod lanes_x86;
mod math;
mod norm;
mod pool;
mod rope;
mod shared;

pub use attention::{
    Attention, AttentionPlan, AttentionScratch, MAX_HEAD_DIM, PlanError, Projections,
};
pub use kv::{BLOCK_TOKENS, KvCache, KvShape, OutOfMemory};
pub use lanes::Level;
pub use math::swiglu;
pub use norm::add_and_normalise;
pub use pool::Pool;
pub use rope::Rope;
