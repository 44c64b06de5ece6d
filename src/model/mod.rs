//! Models: their files, weights and the decoder.

pub mod gguf;
