//! Our engine: one thread, a paged KV cache, continuous batching.

pub mod batch;
pub mod runner;
