//! Models: their files, weights and the decoder.

pub mod fetch;
pub mod gguf;
pub mod spec;
