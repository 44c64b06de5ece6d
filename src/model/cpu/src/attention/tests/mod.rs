//! Attention agrees with a plain one, and gives the same bits however a batch is put together.

mod agreement;
mod refusal;
mod sameness;

use super::*;
use crate::kv::KvShape;

const HEADS: usize = 2;
const GROUP: usize = 3;
const DIM: usize = 48;
const LAYER: usize = 1;
const EPSILON: f32 = 1e-3;

/// What a layer does.
#[derive(Clone, Copy, Debug)]
struct Kind {
    dim: usize,
    window: Option<usize>,
    /// Biases everywhere, and norms of queries and keys.
    prepared: bool,
}

const PLAIN: Kind = Kind {
    dim: DIM,
    window: None,
    prepared: false,
};

fn work(threads: usize) -> Work {
    Work {
        heads: HEADS,
        group: GROUP,
        threads,
    }
}

/// A number in -2..2 that depends only on its coordinates.
fn noise(kind: u64, token: u64, index: u64) -> f32 {
    let mut x = (kind << 48) ^ (token << 20) ^ index;
    x = (x ^ (x >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((x >> 40) as f32 / (1 << 22) as f32) - 2.0
}

/// Projections of one token at any place.
fn row(kind: u64, token: u64, width: usize) -> Vec<f32> {
    (0..width as u64).map(|i| noise(kind, token, i)).collect()
}

/// One sequence's share of a step.
#[derive(Clone, Debug)]
struct Piece {
    tokens: Vec<u64>,
    position: usize,
    blocks: Vec<u32>,
}

struct Bench {
    kind: Kind,
    cache: KvCache,
    pool: Pool,
    isa: Isa,
    scratch: AttentionScratch,
    plan: AttentionPlan,
    rope: Rope,
}

impl Bench {
    fn new(isa: Isa, threads: usize) -> Self {
        Self::of(PLAIN, isa, threads)
    }

    fn of(kind: Kind, isa: Isa, threads: usize) -> Self {
        let mut rope = Rope::new(kind.dim, 10_000.0);
        rope.cover(1024);
        let shape = KvShape {
            layers: 2,
            heads: HEADS,
            head_dim: kind.dim,
        };
        Self {
            kind,
            cache: KvCache::new(shape, 64).unwrap(),
            pool: Pool::new(threads).unwrap(),
            isa,
            scratch: AttentionScratch::default(),
            plan: AttentionPlan::default(),
            rope,
        }
    }

    /// One step over some pieces; one output row a token.
    fn step(&mut self, pieces: &[Piece]) -> Vec<Vec<f32>> {
        let rows: usize = pieces.iter().map(|piece| piece.tokens.len()).sum();
        let all: Vec<usize> = (0..rows).collect();
        let out = self.outputs(pieces, None, Form::Float);
        all.iter().map(|&row| out.numbers(row).to_vec()).collect()
    }

    /// One step over some pieces, with the outputs of all rows or of those wanted.
    fn outputs(&mut self, pieces: &[Piece], wanted: Option<&[usize]>, form: Form) -> Activations {
        self.plan.clear();
        for piece in pieces {
            self.plan.push(
                piece.position,
                piece.tokens.len(),
                piece.blocks.iter().copied(),
            );
        }
        let work = work(self.pool.threads());
        self.plan.finish(self.cache.blocks(), work).unwrap();
        if let Some(wanted) = wanted {
            self.plan.want(wanted, work);
        }
        let tokens: Vec<u64> = pieces
            .iter()
            .flat_map(|piece| piece.tokens.iter().copied())
            .collect();
        let asked = wanted.map_or_else(
            || tokens.clone(),
            |wanted| wanted.iter().map(|&row| tokens[row]).collect(),
        );
        let width = HEADS * self.kind.dim;
        let project = |kind, tokens: &[u64], width| -> Vec<f32> {
            tokens
                .iter()
                .flat_map(|&token| row(kind, token, width))
                .collect()
        };
        let queries = project(0, &asked, width * GROUP);
        let (keys, values) = (project(1, &tokens, width), project(2, &tokens, width));
        let biases = [0, 1, 2].map(|kind| row(kind, 1 << 20, width * GROUP));
        let norms = [0, 1].map(|kind| row(kind, 1 << 21, self.kind.dim));
        let input = |kind: usize, numbers| HeadInput {
            numbers,
            bias: self
                .kind
                .prepared
                .then(|| &biases[kind][..if kind == 0 { width * GROUP } else { width }]),
            norm: norms
                .get(kind)
                .filter(|_| self.kind.prepared)
                .map(|norm| &norm[..]),
        };
        let mut out = Activations::new();
        let mut attention = Attention {
            isa: self.isa,
            plan: &self.plan,
            rope: &self.rope,
            cache: &mut self.cache,
            layer: LAYER,
            group: GROUP,
            scale: 1.0 / (self.kind.dim as f32).sqrt(),
            window: self.kind.window,
            epsilon: EPSILON,
        };
        attention.store(&mut self.pool, input(1, &keys), input(2, &values));
        let which = wanted.map_or(Rows::All, |_| Rows::Wanted);
        attention.attend(
            &mut self.pool,
            &mut self.scratch,
            (which, input(0, &queries)),
            &[form],
            &mut out,
        );
        out
    }
}

fn bits(rows: &[Vec<f32>]) -> Vec<Vec<u32>> {
    rows.iter()
        .map(|row| row.iter().map(|x| x.to_bits()).collect())
        .collect()
}

/// The whole sequence in one step, alone, in plain Rust.
fn alone(kind: Kind, tokens: &[u64]) -> Vec<Vec<f32>> {
    let blocks = (0..tokens.len().div_ceil(BLOCK_TOKENS) as u32)
        .rev()
        .collect();
    Bench::of(kind, Isa::available()[0], 1).step(&[Piece {
        tokens: tokens.to_vec(),
        position: 0,
        blocks,
    }])
}
