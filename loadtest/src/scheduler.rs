//! What the engine itself takes from one forward pass to the next, over a runner that computes nothing: with few and many
//! cached blocks, with few and many requests waiting.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use compere::engine::paged::batch::Batch;
use compere::engine::paged::fake::byte_tokenizer;
use compere::engine::paged::runner::{ModelRunner, RunnerError, RunnerLimits};
use compere::engine::paged::{Config, PagedEngine};
use compere::engine::{Engine, GenerateRequest, Priority, TokenStream};
use compere::telemetry::EngineStats;

use crate::Failure;
use crate::figure::{Bound, Figure, median};

/// Streams that decode meanwhile.
const STREAMS: usize = 32;
const VOCAB: usize = 256;
const BLOCK_TOKENS: usize = 16;
/// Tokens of one sequence; also of the prompts that fill the cache.
const CONTEXT: usize = 16_384;
/// Steps that count; as many before them do not.
const STEPS: usize = 2000;
const FEW_BLOCKS: usize = 1_000;
const MANY_BLOCKS: usize = 100_000;
/// As many as one step looks after.
const FEW_WAITING: usize = 256;
const MANY_WAITING: usize = 4096;

/// The figures, from the medians of `rounds` interleaved runs of each case.
pub(crate) fn figures(rounds: usize) -> Result<Vec<Figure>, Failure> {
    let cases = [
        (FEW_BLOCKS, FEW_WAITING),
        (MANY_BLOCKS, FEW_WAITING),
        (FEW_BLOCKS, MANY_WAITING),
    ];
    let mut took = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        for ((cached, waiting), took) in cases.into_iter().zip(&mut took) {
            took.push(median(gaps(cached, waiting)?));
        }
    }
    let [plain, cached, crowded] = took.map(|took| median(took) * 1e6);
    Ok(vec![
        Figure::new(
            "scheduler_step_32_streams",
            plain,
            "us",
            Bound::AtMost(300.0),
        ),
        Figure::new(
            "scheduler_step_100k_cached_blocks_ratio",
            cached / plain,
            "x",
            Bound::AtMost(1.5),
        ),
        Figure::new(
            "scheduler_step_4096_waiting_ratio",
            crowded / plain,
            "x",
            Bound::AtMost(1.5),
        ),
    ])
}

/// Seconds between forward passes while `STREAMS` decode, `cached` blocks are kept and `waiting` requests wait.
fn gaps(cached: usize, waiting: usize) -> Result<Vec<f64>, Failure> {
    let runner = Idle::new(cached);
    let gaps = Arc::clone(&runner.gaps);
    let config = Config {
        step_tokens: CONTEXT,
        mixed_step_tokens: 64,
        target_step_ms: 0,
        max_running: STREAMS,
        queue: MANY_WAITING + STREAMS,
        pin_share: 0.0,
        ..Config::default()
    };
    let engine = PagedEngine::start(
        Box::new(runner),
        byte_tokenizer(),
        Arc::new(EngineStats::default()),
        &config,
    )?;
    for prompt in 0..cached.div_ceil(CONTEXT / BLOCK_TOKENS - 1) {
        let last = engine.generate(request(prompt, CONTEXT - 1, 1))?;
        read(last);
    }
    let mut streams = Vec::new();
    for n in 0..STREAMS + waiting {
        streams.push(engine.generate(request(n, 8, CONTEXT - 8))?);
    }
    let seen = count(&gaps);
    while count(&gaps) < seen + 2 * STEPS {
        if !engine.heartbeat().alive {
            return Err("the engine died".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let gaps = gaps.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(gaps[seen + STEPS..seen + 2 * STEPS].to_vec())
}

fn count(gaps: &Mutex<Vec<f64>>) -> usize {
    gaps.lock().unwrap_or_else(PoisonError::into_inner).len()
}

fn read(mut stream: TokenStream) {
    while stream.blocking_next().is_some() {}
}

/// The `n`th request of its kind, unlike the others from its first block on.
fn request(n: usize, prompt: usize, max_tokens: usize) -> GenerateRequest {
    let spell = (0..).map(|digit| (n >> (digit * 4) & 15) as u32);
    GenerateRequest {
        prompt: spell
            .take(8)
            .chain(std::iter::repeat(65))
            .take(prompt)
            .collect(),
        max_tokens: Some(max_tokens),
        priority: match n {
            ..STREAMS => Priority::High,
            _ => [Priority::Low, Priority::Normal][n % 2],
        },
        deadline: n
            .is_multiple_of(2)
            .then(|| Instant::now() + Duration::from_secs(3600)),
        ..GenerateRequest::default()
    }
}

/// Computes nothing and notes how long it was left alone.
struct Idle {
    limits: RunnerLimits,
    left: Option<Instant>,
    gaps: Arc<Mutex<Vec<f64>>>,
}

impl Idle {
    fn new(cached: usize) -> Self {
        Self {
            limits: RunnerLimits {
                vocab: VOCAB,
                max_context: CONTEXT,
                block_tokens: BLOCK_TOKENS,
                blocks: cached + (STREAMS + 2) * CONTEXT / BLOCK_TOKENS,
            },
            left: None,
            gaps: Arc::default(),
        }
    }
}

impl ModelRunner for Idle {
    fn limits(&self) -> RunnerLimits {
        self.limits
    }

    fn forward(&mut self, batch: &Batch, logits: &mut Vec<f32>) -> Result<(), RunnerError> {
        if let Some(left) = self.left {
            let gap = left.elapsed().as_secs_f64();
            self.gaps
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(gap);
        }
        logits.clear();
        logits.resize(batch.logit_rows.len() * VOCAB, 0.0);
        self.left = Some(Instant::now());
        Ok(())
    }
}
