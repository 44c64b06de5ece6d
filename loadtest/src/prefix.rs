//! What a second request pays when it shares a long prefix with the first: through the whole engine, scheduler included.

use std::path::Path;
use std::sync::Arc;

use compere::engine::paged::{self, PagedEngine};
use compere::engine::{Engine, GenerateRequest, TokenEvent};
use compere::telemetry::EngineStats;
use compere::tokenizer::Tokenizer;

use crate::Failure;
use crate::figure::median;
use crate::ours::options;

const SHARED: usize = 1_500;
const OWN: usize = 30;

/// Median over `rounds` of the second request's time to first token over the first's, each round on a fresh prefix.
pub(crate) fn second_ttft_share(
    model: &Path,
    threads: usize,
    rounds: usize,
) -> Result<f64, Failure> {
    let loaded = compere::model::load(model, &options(threads))?;
    let tokenizer = Arc::new(Tokenizer::new(loaded.tokenizer)?);
    let stats = Arc::new(EngineStats::default());
    let engine = PagedEngine::start(
        Box::new(loaded.runner),
        tokenizer,
        stats,
        &paged::Config::default(),
    )?;
    let mut shares = Vec::new();
    for round in 0..rounds {
        let cold = first_token_seconds(&engine, prompt(round, 0))?;
        let warm = first_token_seconds(&engine, prompt(round, 1))?;
        eprintln!(
            "prefix {round}: first {:.0} ms, second {:.1} ms",
            cold * 1e3,
            warm * 1e3
        );
        shares.push(warm / cold);
    }
    Ok(median(shares))
}

/// A prefix of the round and an end of the request's own, of arbitrary tokens.
fn prompt(round: usize, request: usize) -> Vec<u32> {
    let token = |at: usize, salt: usize| {
        let value = (at + salt * 10_007).wrapping_mul(2_654_435_761) % 40_000 + 200;
        u32::try_from(value).expect("below 2^32")
    };
    let shared = (0..SHARED).map(|at| token(at, round + 1));
    let own = (0..OWN).map(|at| token(at, 1_000 + round * 2 + request));
    shared.chain(own).collect()
}

fn first_token_seconds(engine: &PagedEngine, prompt: Vec<u32>) -> Result<f64, Failure> {
    let mut stream = engine.generate(GenerateRequest {
        prompt,
        max_tokens: Some(1),
        ..GenerateRequest::default()
    })?;
    while let Some(event) = stream.blocking_next() {
        if let TokenEvent::Finished(finish) = event {
            return Ok(finish.timings.first_token.as_secs_f64());
        }
    }
    Err("a stream ended without its last event".into())
}
