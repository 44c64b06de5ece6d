//! Compere answers live-stream viewers through a digital avatar: an HTTP service, a turn loop and our own inference
//! engine with a paged KV cache and continuous batching, in one process.
//!
//! # Map
//!
//! | module | what it owns |
//! | --- | --- |
//! | [`cli`], [`commands`] | the command line, one file per verb |
//! | [`app`] | the composition root: builds every part from [`config`] and owns the background tasks |
//! | [`config`] | the sum of the parts' `Config`s; the only reader of the environment |
//! | [`http`] | the only user of axum: routes, wire types, errors |
//! | [`harness`] | the registry of what operators change on air: skills, hooks, tools, prompts |
//! | [`activate`] | makes a loaded harness live: checked, measured, its prefix warm and pinned |
//! | [`turn`] | one conversational turn: prompt, generation, speakable segments, outcome |
//! | [`tools`] | what runs the tools of a round: HTTP endpoints, MCP servers, the catalog |
//! | [`template`] | the model's chat template, rendered to sections that keep content apart from markup |
//! | [`tokenizer`] | text to token ids and back |
//! | [`engine`] | the trait that turns speak to, and [`engine::paged`], our engine |
//! | [`model`] | the only user of tensors: files, weights, the decoder |
//! | [`telemetry`] | metrics, rolling quantiles, logs |
//! | [`shutdown`] | stop accepting, finish, stop |
//!
//! `tests/tidy.rs` holds the table of who may import whom.
//!
//! # Invariants
//!
//! Of the service:
//!
//! 1. Every accepted turn ends in exactly one terminal event and is counted under exactly one outcome; outcomes and
//!    those in flight add up to the accepted, always.
//! 2. A turn pins what it was started with (model, prompt) from start to end.
//! 3. A failed reload changes nothing that is live, and says so.
//! 4. What is not implemented is refused by name; nothing is silently ignored, truncated or dropped.
//! 5. No byte of a control token ever reaches speech.
//!
//! Of the paged engine:
//!
//! 6. Dropping a stream frees its KV blocks within one step: queued, in prefill, in decode, streamed or not. Tokens
//!    sampled later than that are counted as zombies, and there are none.
//! 7. The engine thread never awaits, never waits for a lock that others hold, never blocks on a slow client: a
//!    stream's channel holds all tokens it may produce. Every queue is bounded.
//! 8. After every step each KV block is in exactly one state: free, referenced, or cached and unreferenced.
//! 9. Greedy output is bit-identical whatever the batch, the chunking, the prefix hits or preemption.
//! 10. Decode is never starved: a running stream's gap between tokens is bounded by one step with a full prefill chunk.
#![forbid(unsafe_code)]

pub mod activate;
pub mod app;
pub mod cli;
pub mod commands;
pub mod config;
pub mod engine;
pub mod harness;
pub mod http;
pub mod model;
pub mod shutdown;
pub mod telemetry;
pub mod template;
pub mod tokenizer;
pub mod tools;
pub mod turn;
