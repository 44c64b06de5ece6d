//! The JSON of requests and answers: reads bodies into what turns understand, and writes what turns say.

pub(super) mod chat;
pub(super) mod completion;
pub(super) mod respond;
mod text;
pub(super) mod tokens;
