//! The real decoder under the real engine: the same context gives the same bits, be it batched, cut into chunks, found in
//! the cache or computed again after a preemption, and every request the text that it gets alone.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use compere_cpu::Isa;
use proptest::prelude::*;

use super::default_model;
use super::tiny::{TINY, Tiny};
use crate::engine::paged::batch::Batch;
use crate::engine::paged::fake::byte_tokenizer;
use crate::engine::paged::runner::{ModelRunner, RunnerError, RunnerLimits};
use crate::engine::paged::{Config, PagedEngine};
use crate::engine::{Engine, FinishReason, GenerateRequest, Sampling, TokenEvent, TokenStream};
use crate::model::load::load_on;
use crate::model::{CpuRunner, LoadOptions};
use crate::telemetry::EngineStats;
use crate::tokenizer::{TokenId, Tokenizer};

/// What was seen so far, across engines: the hash of the logits after each context.
type Seen = Arc<Mutex<HashMap<Vec<TokenId>, u64>>>;

/// A decoder whose logits are compared with all that it or another one gave for the same context. It keeps the tokens
/// beside the KV that is made of them, and reads contexts back through the block tables.
struct Witness {
    runner: CpuRunner,
    blocks: usize,
    stored: Vec<TokenId>,
    seen: Seen,
}

impl Witness {
    fn new(runner: CpuRunner, blocks: usize, seen: Seen) -> Self {
        let limits = runner.limits();
        assert!(blocks <= limits.blocks);
        Self {
            runner,
            blocks,
            stored: vec![0; blocks * limits.block_tokens],
            seen,
        }
    }
}

impl ModelRunner for Witness {
    fn limits(&self) -> RunnerLimits {
        RunnerLimits {
            blocks: self.blocks,
            ..self.runner.limits()
        }
    }

    fn forward(&mut self, batch: &Batch, logits: &mut Vec<f32>) -> Result<(), RunnerError> {
        let RunnerLimits {
            block_tokens,
            vocab,
            ..
        } = self.runner.limits();
        let slots: Vec<Vec<usize>> = batch
            .sequences
            .iter()
            .map(|sequence| {
                let table = &batch.blocks[sequence.block..sequence.block + sequence.blocks];
                let end = sequence.position + sequence.rows;
                let slot = |at: usize| table[at / block_tokens].0 as usize * block_tokens;
                (0..end).map(|at| slot(at) + at % block_tokens).collect()
            })
            .collect();
        for (sequence, slots) in batch.sequences.iter().zip(&slots) {
            let rows = sequence.row..sequence.row + sequence.rows;
            for (slot, token) in slots[sequence.position..].iter().zip(&batch.tokens[rows]) {
                self.stored[*slot] = *token;
            }
        }
        self.runner.forward(batch, logits)?;
        let mut seen = self.seen.lock().unwrap();
        for (row, logits) in batch.logit_rows.iter().zip(logits.chunks(vocab)) {
            let owner = batch.sequences.partition_point(|s| s.row <= *row) - 1;
            let sequence = &batch.sequences[owner];
            let known = sequence.position + row - sequence.row + 1;
            let context = slots[owner][..known].iter().map(|slot| self.stored[*slot]);
            let mut hasher = DefaultHasher::new();
            logits
                .iter()
                .for_each(|logit| logit.to_bits().hash(&mut hasher));
            match seen.entry(context.collect()) {
                Entry::Vacant(entry) => drop(entry.insert(hasher.finish())),
                Entry::Occupied(entry) if *entry.get() == hasher.finish() => {}
                Entry::Occupied(entry) => {
                    let context = entry.key();
                    return Err(RunnerError(format!("other bits after {context:?}")));
                }
            }
        }
        Ok(())
    }
}

/// A model file and what is known of its answers.
struct Bench<'a> {
    path: &'a Path,
    seen: Seen,
}

/// How an engine answered.
#[derive(Debug)]
struct Answers {
    texts: Vec<String>,
    preemptions: u64,
    cached: u64,
}

impl Bench<'_> {
    /// Submits all at once and reads them to their ends; a `None` limit of blocks is plenty.
    fn serve(
        &self,
        isa: Isa,
        blocks: Option<usize>,
        config: &Config,
        requests: &[GenerateRequest],
    ) -> Answers {
        let options = LoadOptions {
            threads: Some(2),
            kv_bytes: 64 << 20,
            max_context: None,
            quantise: None,
        };
        let loaded = load_on(isa, self.path, &options).unwrap();
        let blocks = blocks.unwrap_or(loaded.runner.limits().blocks);
        let witness = Witness::new(loaded.runner, blocks, Arc::clone(&self.seen));
        let stats = Arc::new(EngineStats::default());
        // A tiny model's tokens spell nothing: any distinct text will do.
        let tokenizer =
            Tokenizer::new(loaded.tokenizer).map_or_else(|_| byte_tokenizer(), Arc::new);
        let engine =
            PagedEngine::start(Box::new(witness), tokenizer, Arc::clone(&stats), config).unwrap();
        let streams: Vec<TokenStream> = requests
            .iter()
            .map(|request| engine.generate(request.clone()).unwrap())
            .collect();
        let texts = streams.into_iter().map(read).collect();
        engine.shutdown();
        assert_eq!(stats.kv_blocks_used.load(Relaxed), 0);
        Answers {
            texts,
            preemptions: stats.preemptions.load(Relaxed),
            cached: stats.prefix_hit_tokens.load(Relaxed),
        }
    }

    /// What each request gets by itself, its prompt in one chunk.
    fn alone(&self, isa: Isa, requests: &[GenerateRequest]) -> Vec<String> {
        let whole = Config {
            mixed_step_tokens: 512,
            ..Config::default()
        };
        let each = requests.iter().map(|request| {
            let request = std::slice::from_ref(request);
            self.serve(isa, None, &whole, request).texts.concat()
        });
        each.collect()
    }
}

fn read(mut stream: TokenStream) -> String {
    let mut text = String::new();
    loop {
        match stream.blocking_next().expect("a terminal event ends it") {
            TokenEvent::Text(delta) => text.push_str(&delta),
            other @ (TokenEvent::Prompt(_) | TokenEvent::Scored { .. }) => {
                panic!("nobody asked for {other:?}")
            }
            TokenEvent::Finished(finish) => {
                let failed = matches!(finish.reason, FinishReason::Error(_));
                assert!(!failed, "{finish:?}");
                return text;
            }
        }
    }
}

fn request(prompt: Vec<TokenId>, max_tokens: usize, seed: Option<u64>) -> GenerateRequest {
    GenerateRequest {
        prompt,
        max_tokens: Some(max_tokens),
        sampling: Sampling {
            temperature: if seed.is_some() { 1.0 } else { 0.0 },
            seed: seed.unwrap_or(0),
            ..Sampling::default()
        },
        ..GenerateRequest::default()
    }
}

/// `shared` tokens that all prompts of a model begin with, and `own` that only those of the same `kind` share.
fn prompt(vocab: u32, shared: u32, own: u32, kind: u32) -> Vec<TokenId> {
    let common = (0..shared).map(|at| at * 13 + 5);
    let tail = (0..own).map(|at| at * 17 + kind * 1009);
    common.chain(tail).map(|token| token % vocab).collect()
}

#[test]
fn a_crowd_on_the_default_model_gets_the_bits_of_each_alone() {
    let path = default_model();
    let bench = Bench {
        path: &path,
        seen: Seen::default(),
    };
    let requests: Vec<_> = (0..3)
        .map(|n| request(prompt(49_152, 24, 6, n), 16, (n == 1).then_some(7)))
        .collect();
    let alone = bench.alone(Isa::best(), &requests);
    let block = compere_cpu::BLOCK_TOKENS;
    let whole = (24 + 6 + 16_usize).div_ceil(block);
    let config = Config {
        step_tokens: 20,
        mixed_step_tokens: 9,
        target_step_ms: 0,
        max_running: 3,
        ..Config::default()
    };
    let crowd = bench.serve(Isa::best(), Some(whole + 1), &config, &requests);
    assert_eq!(crowd.texts, alone);
}

#[derive(Clone, Debug)]
struct Scenario {
    model: Tiny,
    isa: usize,
    spare_blocks: usize,
    max_running: usize,
    step_tokens: usize,
    target_step_ms: u64,
    asks: Vec<(u32, u32, u32, usize, Option<u64>)>,
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let model = (
        1..3_usize,
        1..3_usize,
        1..4_usize,
        0..100_u64,
        any::<bool>(),
    )
        .prop_map(|(layers, kv_heads, group, seed, separate_head)| Tiny {
            layers,
            kv_heads,
            heads: kv_heads * group,
            separate_head,
            seed,
            ..TINY
        });
    let asks = (
        0..2_u32,
        1..50_u32,
        0..3_u32,
        1..40_usize,
        proptest::option::of(0..3_u64),
    );
    (
        model,
        0..3_usize,
        0..4_usize,
        1..5_usize,
        1..40_usize,
        0..2_u64,
        prop::collection::vec(asks, 2..7),
    )
        .prop_map(
            |(model, isa, spare_blocks, max_running, extra, target_step_ms, asks)| Scenario {
                model,
                isa,
                spare_blocks,
                max_running,
                step_tokens: max_running + extra,
                target_step_ms,
                asks,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_crowd_on_any_tiny_model_gets_the_bits_of_each_alone(scenario in scenarios()) {
        let folder = tempfile::tempdir().unwrap();
        let path = scenario.model.builder().write(folder.path());
        let bench = Bench { path: &path, seen: Seen::default() };
        let sets = Isa::available();
        let isa = sets[scenario.isa % sets.len()];
        let requests: Vec<_> = scenario
            .asks
            .iter()
            .map(|&(shared, own, kind, max_tokens, seed)| {
                request(prompt(75, shared * 40, own, kind), max_tokens, seed)
            })
            .collect();
        let alone = bench.alone(sets[0], &requests);
        let longest = requests.iter().map(|r| r.prompt.len() + r.max_tokens.unwrap_or(0)).max();
        let blocks = longest.unwrap_or(1).div_ceil(compere_cpu::BLOCK_TOKENS) + scenario.spare_blocks;
        let config = Config {
            step_tokens: scenario.step_tokens,
            mixed_step_tokens: scenario.max_running + 1,
            target_step_ms: scenario.target_step_ms,
            max_running: scenario.max_running,
            pin_share: 0.0,
            ..Config::default()
        };
        let crowd = bench.serve(isa, Some(blocks), &config, &requests);
        prop_assert_eq!(crowd.texts, alone);
    }
}

/// The ways in which the above can differ do occur.
#[test]
fn a_small_pool_preempts_and_shares() {
    let folder = tempfile::tempdir().unwrap();
    let path = TINY.builder().write(folder.path());
    let bench = Bench {
        path: &path,
        seen: Seen::default(),
    };
    let block = compere_cpu::BLOCK_TOKENS as u32;
    let requests: Vec<_> = (0..6)
        .map(|n| request(prompt(75, 2 * block, 5, n), 3 * block as usize, None))
        .collect();
    let alone = bench.alone(Isa::best(), &requests);
    let config = Config {
        max_running: 4,
        step_tokens: 64,
        mixed_step_tokens: 16,
        pin_share: 0.0,
        ..Config::default()
    };
    let crowd = bench.serve(Isa::best(), Some(9), &config, &requests);
    assert_eq!(crowd.texts, alone);
    assert!(crowd.preemptions > 0 && crowd.cached > 0, "{crowd:?}");
}
