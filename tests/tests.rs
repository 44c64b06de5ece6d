//! Behaviour of the whole program, one module per subject.

mod model_file;
#[allow(
    clippy::unwrap_used,
    reason = "what fails here fails the test that asked, and the place tells why"
)]
mod support;

/// Turns as events and as one object.
mod avatar;
/// Model files that lie.
mod bad_models;
/// OpenAI's chat completions, streamed or not.
mod chat;
/// OpenAI's text completions: raw prompts, choices, likelihoods.
mod completions;
/// Who leaves costs nothing any more.
mod disconnect;
/// The shipped harnesses: clean, small, and what they let pass.
mod harnesses;
/// Routes, methods, ids, and the limits of connections and bodies.
mod http;
/// What bodies may hold.
mod json;
/// Operators beside the program on the real model: edits, secrets, a trial.
mod operators;
/// The program on the real model: command line, signals, exit codes.
mod program;
/// Changes of a harness while the server answers.
mod reload;
/// Live rooms: one speaks, the others wait, give way, or come too late.
mod rooms;
/// The official OpenAI client against a real server.
mod sdk;
/// The way down: refuse, finish, end, close.
mod shutdown;
/// Streams that no text breaks.
mod sse;
/// Prompts of the default model's vocabulary against the reference's, and content that imitates markup.
mod template;
/// The rules of the tree.
mod tidy;
/// Token ids of the default model's vocabulary against the reference tokenizer's.
mod tokenizer;
/// `/tokenize` and `/detokenize`.
mod tokens;
/// Small vocabularies of every supported rule against the reference tokenizers.
mod vocabularies;
