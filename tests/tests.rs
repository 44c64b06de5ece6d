//! Tests of the whole service, as its clients see it.

mod support;

mod avatar; // turns as events and as one object
mod chat; // OpenAI's chat completions, streamed or not
mod disconnect; // who leaves costs nothing any more
mod http; // routes, methods, ids, limits of connections and bodies
mod json; // what bodies may hold
mod sdk; // the official OpenAI client against a real server
mod shutdown; // refuse, finish, end, close
mod sse; // streams that no text breaks
