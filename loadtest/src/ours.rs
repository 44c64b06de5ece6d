//! Our runner on the same work that llama.cpp's tools measure: forward passes over given tokens, no sampling.

use std::path::Path;
use std::time::Instant;

use compere::engine::paged::batch::{Batch, BatchSequence, BlockId};
use compere::engine::paged::runner::{ModelRunner, RunnerLimits};

use crate::Failure;
use crate::figure::median;
use crate::peer::{DECODE_TOKENS, REPEATS};

/// A loaded model and the buffers that its steps reuse.
pub(crate) struct Ours {
    runner: Box<dyn ModelRunner>,
    limits: RunnerLimits,
    batch: Batch,
    logits: Vec<f32>,
    /// From opening the file to weights ready.
    pub(crate) load_seconds: f64,
}

impl Ours {
    pub(crate) fn load(model: &Path, threads: usize) -> Result<Self, Failure> {
        let start = Instant::now();
        let loaded = compere::model::load(model, &options(threads))?;
        let load_seconds = start.elapsed().as_secs_f64();
        let limits = loaded.runner.limits();
        Ok(Self {
            runner: Box::new(loaded.runner),
            limits,
            batch: Batch::default(),
            logits: Vec::new(),
            load_seconds,
        })
    }

    /// Tokens a second of a prompt of `tokens` in one step, after a warm-up step; the median of several.
    pub(crate) fn prefill(&mut self, tokens: usize) -> Result<f64, Failure> {
        let blocks = self.block_range(0, tokens);
        let row = Row {
            position: 0,
            rows: tokens,
            blocks,
        };
        self.step(std::slice::from_ref(&row))?;
        let mut samples = Vec::new();
        for _ in 0..REPEATS {
            let start = Instant::now();
            self.step(std::slice::from_ref(&row))?;
            samples.push(count(tokens) / start.elapsed().as_secs_f64());
        }
        Ok(median(samples))
    }

    /// Tokens a second of `streams` together, each generating after the same `depth` tokens held once.
    pub(crate) fn decode(&mut self, streams: usize, depth: usize) -> Result<f64, Failure> {
        assert_eq!(
            depth % self.limits.block_tokens,
            0,
            "a shared prefix is whole blocks"
        );
        let shared = self.block_range(0, depth);
        self.step(&[Row {
            position: 0,
            rows: depth,
            blocks: shared.clone(),
        }])?;
        let own = DECODE_TOKENS.div_ceil(self.limits.block_tokens) + 1;
        let tables: Vec<Vec<BlockId>> = (0..streams)
            .map(|stream| {
                let first = shared.len() + stream * own;
                shared
                    .iter()
                    .copied()
                    .chain((first..first + own).map(block))
                    .collect()
            })
            .collect();
        let decode = |this: &mut Self, at: usize| {
            let blocks = (depth + at) / this.limits.block_tokens + 1;
            let rows: Vec<Row> = tables
                .iter()
                .map(|table| Row {
                    position: depth + at,
                    rows: 1,
                    blocks: table[..blocks].to_vec(),
                })
                .collect();
            this.step(&rows)
        };
        decode(self, 0)?;
        let mut samples = Vec::new();
        for _ in 0..REPEATS {
            let start = Instant::now();
            for at in 0..DECODE_TOKENS {
                decode(self, at)?;
            }
            samples.push(count(streams * DECODE_TOKENS) / start.elapsed().as_secs_f64());
        }
        Ok(median(samples))
    }

    /// Logits of every position of a sequence.
    pub(crate) fn logits(&mut self, tokens: &[u32]) -> Result<Vec<Vec<f32>>, Failure> {
        self.batch.clear();
        self.batch.blocks = self.block_range(0, tokens.len());
        self.batch.sequences.push(BatchSequence {
            row: 0,
            rows: tokens.len(),
            position: 0,
            block: 0,
            blocks: self.batch.blocks.len(),
        });
        self.batch.tokens.extend(tokens);
        self.batch.logit_rows.extend(0..tokens.len());
        self.runner.forward(&self.batch, &mut self.logits)?;
        Ok(self
            .logits
            .chunks_exact(self.limits.vocab)
            .map(<[f32]>::to_vec)
            .collect())
    }

    fn block_range(&self, first: usize, tokens: usize) -> Vec<BlockId> {
        (first..first + tokens.div_ceil(self.limits.block_tokens))
            .map(block)
            .collect()
    }

    /// One forward pass; the logits of each sequence's last row are computed, as when a token is to be sampled.
    fn step(&mut self, rows: &[Row]) -> Result<(), Failure> {
        self.batch.clear();
        for row in rows {
            let start = self.batch.tokens.len();
            self.batch.sequences.push(BatchSequence {
                row: start,
                rows: row.rows,
                position: row.position,
                block: self.batch.blocks.len(),
                blocks: row.blocks.len(),
            });
            self.batch.blocks.extend_from_slice(&row.blocks);
            self.batch.tokens.extend(
                (0..row.rows).map(|at| token(start + at + row.position, self.limits.vocab)),
            );
            self.batch.logit_rows.push(start + row.rows - 1);
        }
        self.runner.forward(&self.batch, &mut self.logits)?;
        Ok(())
    }
}

struct Row {
    position: usize,
    rows: usize,
    blocks: Vec<BlockId>,
}

/// Load options of every measurement: a KV budget that holds the largest of them.
pub(crate) fn options(threads: usize) -> compere::model::LoadOptions {
    compere::model::LoadOptions {
        threads: Some(threads),
        kv_bytes: 256 << 20,
        max_context: Some(4096),
        quantise: None,
    }
}

/// Arbitrary tokens, spread over the vocabulary, the same in each run.
fn token(at: usize, vocab: usize) -> u32 {
    let spread = at.wrapping_mul(2_654_435_761) % (vocab - 100);
    u32::try_from(spread + 100).expect("a vocabulary fits u32")
}

fn block(index: usize) -> BlockId {
    BlockId(u32::try_from(index).expect("a pool's index fits u32"))
}

#[allow(
    clippy::cast_precision_loss,
    reason = "token counts are far below 2^52"
)]
fn count(tokens: usize) -> f64 {
    tokens as f64
}
