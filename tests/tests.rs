//! Behaviour of the whole program, one module per subject.

mod model_file;
/// Prompts of the default model's vocabulary against the reference's, and content that imitates markup.
mod template;
/// Token ids of the default model's vocabulary against the reference tokenizer's.
mod tokenizer;
