//! The engine as a whole, driven step by step on one thread, and as callers see it.

mod choices;
mod crowds;
mod equality;
mod fairness;
mod lifetime;
mod logprobs;
mod pinning;
mod properties;
mod refusals;
mod speculation;
mod starvation;
mod support;
mod text;
mod thread;
mod warming;
