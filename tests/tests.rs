//! Behaviour of the whole program, one module per subject.

mod avatar;
mod chat;
mod disconnect;
mod http;
mod json;
mod model_file;
mod sdk;
mod shutdown;
mod sse;
mod support;
mod template;
mod tidy;
mod tokenizer;
