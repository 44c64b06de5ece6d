//! Our engine: one thread, a paged KV cache, continuous batching.
//!
//! A request's life: `intake` checks it and puts it into the bounded queue; `step` takes it in; `scheduler` admits it
//! when its whole context fits the blocks of `kv`, and gives it rows of each step's [`batch`]; the [`runner`] computes
//! them; `sampler` chooses a token, `logprobs` says how likely it was; `output` and `stop` make text of it; the stream carries it to the reader.
//! `handle` is the thread round all this, and the only part that callers see.

pub mod batch;
mod bell;
mod choices;
mod config;
mod ending;
pub mod fake;
mod handle;
mod intake;
mod kv;
mod logprobs;
mod order;
mod output;
mod pace;
mod pins;
mod queue;
pub mod runner;
mod sampler;
mod scheduler;
mod sequence;
mod shared;
mod speculate;
mod step;
mod stop;
#[cfg(test)]
mod tests;
mod threads;

pub use config::{Config, StartError};
pub use handle::PagedEngine;
