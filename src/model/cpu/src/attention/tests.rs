//! Attention agrees with a plain one, and gives the same bits however a batch is put together.

use proptest::prelude::*;

use super::*;
use crate::kv::KvShape;

const HEADS: usize = 2;
const GROUP: usize = 3;
const DIM: usize = 48;
const WIDTH: usize = HEADS * DIM;
const LAYER: usize = 1;
const SHAPE: KvShape = KvShape {
    layers: 2,
    heads: HEADS,
    head_dim: DIM,
};

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
    cache: KvCache,
    pool: Pool,
    isa: Isa,
    scratch: AttentionScratch,
    plan: AttentionPlan,
    rope: Rope,
}

impl Bench {
    fn new(isa: Isa, threads: usize) -> Self {
        let mut rope = Rope::new(DIM, 10_000.0);
        rope.cover(1024);
        Self {
            cache: KvCache::new(SHAPE, 64).unwrap(),
            pool: Pool::new(threads).unwrap(),
            isa,
            scratch: AttentionScratch::default(),
            plan: AttentionPlan::default(),
            rope,
        }
    }

    /// One step over some pieces; one output row a token.
    fn step(&mut self, pieces: &[Piece]) -> Vec<Vec<f32>> {
        self.plan.clear();
        for piece in pieces {
            self.plan.push(
                piece.position,
                piece.tokens.len(),
                piece.blocks.iter().copied(),
            );
        }
        self.plan
            .finish(self.cache.blocks(), HEADS, GROUP, self.pool.threads())
            .unwrap();
        let tokens: Vec<u64> = pieces
            .iter()
            .flat_map(|piece| piece.tokens.iter().copied())
            .collect();
        let project = |kind, width| {
            tokens
                .iter()
                .flat_map(|&token| row(kind, token, width))
                .collect::<Vec<f32>>()
        };
        let (queries, keys, values) = (
            project(0, WIDTH * GROUP),
            project(1, WIDTH),
            project(2, WIDTH),
        );
        let mut out = Activations::new();
        Attention {
            isa: self.isa,
            plan: &self.plan,
            rope: &self.rope,
            cache: &mut self.cache,
            layer: LAYER,
            group: GROUP,
        }
        .run(
            &mut self.pool,
            &mut self.scratch,
            Projections {
                queries: &queries,
                keys: &keys,
                values: &values,
            },
            &[Form::Float],
            &mut out,
        );
        (0..tokens.len())
            .map(|row| out.numbers(row).to_vec())
            .collect()
    }
}

fn bits(rows: &[Vec<f32>]) -> Vec<Vec<u32>> {
    rows.iter()
        .map(|row| row.iter().map(|x| x.to_bits()).collect())
        .collect()
}

/// The whole sequence in one step, alone, in plain Rust.
fn alone(tokens: &[u64]) -> Vec<Vec<f32>> {
    let blocks = (0..tokens.len().div_ceil(BLOCK_TOKENS) as u32)
        .rev()
        .collect();
    Bench::new(Isa::available()[0], 1).step(&[Piece {
        tokens: tokens.to_vec(),
        position: 0,
        blocks,
    }])
}

fn rotated(x: &[f32], position: usize) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    for pair in 0..x.len() / 2 {
        let angle = position as f64 * 10_000f64.powf(-2.0 * pair as f64 / x.len() as f64);
        let (a, b) = (f64::from(x[2 * pair]), f64::from(x[2 * pair + 1]));
        out[2 * pair] = a * angle.cos() - b * angle.sin();
        out[2 * pair + 1] = a * angle.sin() + b * angle.cos();
    }
    out
}

fn plain_attention(tokens: &[u64], position: usize, head: usize) -> Vec<f64> {
    let part = |kind, at: usize, width, head: usize| {
        row(kind, tokens[at], width)[head * DIM..][..DIM].to_vec()
    };
    let query = rotated(&part(0, position, WIDTH * GROUP, head), position);
    let scores: Vec<f64> = (0..=position)
        .map(|at| {
            let key = rotated(&part(1, at, WIDTH, head / GROUP), at);
            query.iter().zip(&key).map(|(a, b)| a * b).sum::<f64>() / (DIM as f64).sqrt()
        })
        .collect();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let mut out = vec![0.0; DIM];
    for (at, weight) in weights.iter().enumerate() {
        for (out, value) in out.iter_mut().zip(part(2, at, WIDTH, head / GROUP)) {
            *out += weight / sum * f64::from(value);
        }
    }
    out
}

#[test]
fn agrees_with_plain_attention() {
    let tokens: Vec<u64> = (0..77).collect();
    let got = alone(&tokens);
    for position in [0, 1, 31, 32, 63, 64, 76] {
        for head in 0..HEADS * GROUP {
            let want = plain_attention(&tokens, position, head);
            for (got, want) in got[position][head * DIM..].iter().zip(want) {
                assert!(
                    (f64::from(*got) - want).abs() < 4e-3,
                    "position {position} head {head}: {got} {want}"
                );
            }
        }
    }
}

#[test]
fn every_instruction_set_and_thread_count_gives_the_same_bits() {
    let tokens: Vec<u64> = (100..195).collect();
    let want = bits(&alone(&tokens));
    for isa in Isa::available() {
        for threads in [1, 2, 7] {
            let piece = Piece {
                tokens: tokens.clone(),
                position: 0,
                blocks: vec![5, 4, 9],
            };
            assert_eq!(
                bits(&Bench::new(isa, threads).step(&[piece])),
                want,
                "{isa:?} {threads}"
            );
        }
    }
}

#[test]
fn content_left_in_a_reused_block_changes_nothing() {
    let tokens: Vec<u64> = (0..40).collect();
    let mut bench = Bench::new(Isa::best(), 2);
    let whole = Piece {
        tokens: vec![0; 64],
        position: 0,
        blocks: vec![1, 2],
    };
    bench.step(&[whole]);
    for at in [1, 2] {
        for head in 0..HEADS {
            let at = bench.cache.head(at, LAYER, head);
            // SAFETY: keys and values of one head in one block.
            unsafe { std::slice::from_raw_parts_mut(at.keys, 2 * DIM * BLOCK_TOKENS).fill(0x7e00) };
        }
    }
    let piece = Piece {
        tokens: tokens.clone(),
        position: 0,
        blocks: vec![2, 1],
    };
    assert_eq!(bits(&bench.step(&[piece])), bits(&alone(&tokens)));
}

/// Sequences that share leading blocks, and how each is cut into chunks.
#[derive(Clone, Debug)]
struct Scenario {
    shared_blocks: usize,
    rest: Vec<usize>,
    chunk: usize,
    threads: usize,
    order: u64,
}

fn scenario() -> impl Strategy<Value = Scenario> {
    (
        0..4usize,
        prop::collection::vec(1..90usize, 1..6),
        1..70usize,
        1..4usize,
        any::<u64>(),
    )
        .prop_map(|(shared_blocks, rest, chunk, threads, order)| Scenario {
            shared_blocks,
            rest,
            chunk,
            threads,
            order,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 24 }))]

    #[test]
    fn batched_chunked_and_shared_equal_alone(s in scenario()) {
        let shared = s.shared_blocks * BLOCK_TOKENS;
        let prefix: Vec<u64> = (0..shared as u64).collect();
        let mut bench = Bench::new(Isa::best(), s.threads);
        if shared > 0 {
            let blocks = (0..s.shared_blocks as u32).collect();
            bench.step(&[Piece { tokens: prefix.clone(), position: 0, blocks }]);
        }
        let mut next_block = s.shared_blocks as u32;
        let sequences: Vec<(Vec<u64>, Vec<u32>)> = s.rest.iter().enumerate().map(|(index, &len)| {
            let mut tokens = prefix.clone();
            tokens.extend((0..len as u64).map(|i| 1000 * (index as u64 + 1) + i));
            let mut blocks: Vec<u32> = (0..s.shared_blocks as u32).collect();
            let own = len.div_ceil(BLOCK_TOKENS) as u32;
            blocks.extend((next_block..next_block + own).rev());
            next_block += own;
            (tokens, blocks)
        }).collect();
        let want: Vec<_> = sequences.iter().map(|(tokens, _)| bits(&alone(tokens))).collect();
        let mut at = vec![shared; sequences.len()];
        for turn in 0.. {
            let mut going: Vec<usize> = (0..at.len()).filter(|&i| at[i] < sequences[i].0.len()).collect();
            if going.is_empty() {
                break;
            }
            let by = (s.order.wrapping_add(turn) % going.len() as u64) as usize;
            going.rotate_left(by);
            let pieces: Vec<Piece> = going.iter().map(|&i| {
                let end = (at[i] + s.chunk).min(sequences[i].0.len());
                Piece { tokens: sequences[i].0[at[i]..end].to_vec(), position: at[i], blocks: sequences[i].1.clone() }
            }).collect();
            let out = bits(&bench.step(&pieces));
            let mut rows = out.into_iter();
            for (&i, piece) in going.iter().zip(&pieces) {
                for _ in &piece.tokens {
                    prop_assert_eq!(&rows.next().unwrap(), &want[i][at[i]]);
                    at[i] += 1;
                }
            }
        }
    }
}

fn plan_error(pieces: &[(usize, usize, &[u32])]) -> PlanError {
    let mut plan = AttentionPlan::default();
    for (position, rows, blocks) in pieces {
        plan.push(*position, *rows, blocks.iter().copied());
    }
    plan.finish(8, HEADS, GROUP, 2).unwrap_err()
}

#[test]
fn a_batch_that_cannot_be_computed_is_refused() {
    let missing = plan_error(&[(0, 1, &[0]), (30, 3, &[1])]);
    let want = PlanError::MissingBlocks {
        sequence: 1,
        blocks: 1,
        tokens: 33,
    };
    assert_eq!(missing, want);
    assert_eq!(
        plan_error(&[(0, 1, &[8])]),
        PlanError::UnknownBlock {
            sequence: 0,
            block: 8
        }
    );
    assert_eq!(
        plan_error(&[(0, 0, &[1])]),
        PlanError::NoRows { sequence: 0 }
    );
    assert_eq!(
        plan_error(&[(usize::MAX, 2, &[1])]).to_string(),
        format!(
            "sequence 0 has 1 blocks of 32 tokens for {} tokens",
            usize::MAX
        )
    );
}

#[test]
fn two_writers_of_one_block_are_refused_and_readers_are_not() {
    assert_eq!(
        plan_error(&[(0, 1, &[3]), (4, 1, &[3])]),
        PlanError::SharedWrite { block: 3 }
    );
    assert_eq!(
        plan_error(&[(0, 40, &[3, 3])]),
        PlanError::SharedWrite { block: 3 }
    );
    let mut plan = AttentionPlan::default();
    plan.push(32, 1, [3, 4].into_iter());
    plan.push(32, 1, [3, 5].into_iter());
    assert_eq!(plan.finish(8, HEADS, GROUP, 2), Ok(()));
}
