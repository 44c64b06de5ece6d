//! Behaviour of the whole program, one module per subject.

mod model_file;
/// Token ids of the default model's vocabulary against the reference tokenizer's.
mod tokenizer;
