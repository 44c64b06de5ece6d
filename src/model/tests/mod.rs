//! The decoder agrees with independent ones, and gives the same bits however its work is put together.

mod agreement;
mod architectures;
mod checkpoints;
mod invariance;
mod kinds;
mod reference;
mod refusal;
mod tiny;

use std::path::PathBuf;

use compere_cpu::Isa;

use super::load::load_on;
use super::{CpuRunner, LoadOptions};
use crate::engine::paged::batch::{Batch, BatchSequence, BlockId};
use crate::engine::paged::runner::ModelRunner;
use crate::tokenizer::TokenId;

/// The default model, where the suite's setup puts it.
fn default_model() -> PathBuf {
    let cached = || {
        let home = std::env::var_os("HOME").expect("a home folder");
        PathBuf::from(home).join(".cache/compere/models/SmolLM2-135M-Instruct.Q4_1.gguf")
    };
    std::env::var_os("COMPERE_TEST_MODEL").map_or_else(cached, PathBuf::from)
}

fn runner(isa: Isa, threads: usize, path: &std::path::Path) -> CpuRunner {
    let options = LoadOptions {
        threads: Some(threads),
        kv_bytes: 64 << 20,
        ..LoadOptions::default()
    };
    load_on(isa, path, &options).unwrap().runner
}

/// Tokens of one sequence that a step computes.
#[derive(Clone, Debug)]
struct Piece {
    tokens: Vec<TokenId>,
    position: usize,
    blocks: Vec<u32>,
}

/// A batch of these pieces, with the logits of every row.
fn batch(pieces: &[Piece]) -> Batch {
    let mut batch = Batch::default();
    for piece in pieces {
        batch.sequences.push(BatchSequence {
            row: batch.tokens.len(),
            rows: piece.tokens.len(),
            position: piece.position,
            block: batch.blocks.len(),
            blocks: piece.blocks.len(),
        });
        batch.tokens.extend(&piece.tokens);
        batch
            .blocks
            .extend(piece.blocks.iter().copied().map(BlockId));
    }
    batch.logit_rows = (0..batch.tokens.len()).collect();
    batch
}

/// The logits of every row.
fn forward(runner: &mut CpuRunner, pieces: &[Piece]) -> Vec<Vec<f32>> {
    let mut logits = vec![f32::NAN; 3];
    runner.forward(&batch(pieces), &mut logits).unwrap();
    logits
        .chunks(runner.limits().vocab)
        .map(<[f32]>::to_vec)
        .collect()
}

/// The logits of a sequence in one step, alone, in blocks from `first_block` on.
pub(super) fn alone(runner: &mut CpuRunner, tokens: &[TokenId], first_block: u32) -> Vec<Vec<f32>> {
    let blocks = tokens.len().div_ceil(runner.limits().block_tokens) as u32;
    let piece = Piece {
        tokens: tokens.to_vec(),
        position: 0,
        blocks: (first_block..first_block + blocks).collect(),
    };
    forward(runner, &[piece])
}

fn bits(rows: &[Vec<f32>]) -> Vec<Vec<u32>> {
    rows.iter()
        .map(|row| row.iter().map(|x| x.to_bits()).collect())
        .collect()
}
