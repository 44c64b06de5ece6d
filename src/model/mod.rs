//! Models: their files, weights and the decoder.

pub mod checkpoint;
pub mod fetch;
pub mod gguf;
pub mod quantise;
pub mod safetensors;
pub mod spec;

mod config;
mod decoder;
mod float;
mod load;
mod runner;
#[cfg(test)]
mod tests;
mod weights;

pub use config::Config;
pub use decoder::{Activation, DecoderSpec, Pairs, RopeScaling, RopeSpec, Sliding};
pub use load::{LoadOptions, LoadedModel, ModelError, describe, load};
pub use quantise::Quantise;
pub use runner::CpuRunner;
