//! Models: their files, weights and the decoder.

pub mod gguf;

mod decoder;
mod load;
mod runner;
mod weights;

pub use decoder::DecoderSpec;
pub use load::{LoadOptions, LoadedModel, ModelError, load};
pub use runner::CpuRunner;
