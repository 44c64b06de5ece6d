//! The JSON of requests and answers: reads bodies into what turns understand, and writes what turns say.

pub(super) mod chat;
pub(super) mod chat_answer;
pub(super) mod completion;
mod options;
pub(super) mod respond;
mod text;
pub(super) mod text_answer;
pub(super) mod tokens;
