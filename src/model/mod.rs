//! Models: their files, weights and the decoder.

pub mod fetch;
pub mod gguf;
pub mod spec;

mod config;
mod decoder;
mod load;
mod runner;
#[cfg(test)]
mod tests;
mod weights;

pub use config::Config;
pub use decoder::{Activation, DecoderSpec, Pairs, RopeScaling, RopeSpec, Sliding};
pub use load::{LoadOptions, LoadedModel, ModelError, load};
pub use runner::CpuRunner;
