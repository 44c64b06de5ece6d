//! Speed of products with each kind of weights beside that with Q4_1, on one thread: a matrix too large for the caches
//! with one token, and a prompt of 512. `cargo bench -p compere-cpu --bench kinds [-- PATH]`
#![allow(clippy::print_stdout, reason = "a command's output")]

use std::time::{Duration, Instant};

use compere_cpu::{Activations, Arena, Isa, Matrix, OutView, Packer, WeightKind, multiply_on};

const KINDS: [WeightKind; 11] = [
    WeightKind::Q4_1,
    WeightKind::Q4_0,
    WeightKind::Q8_0,
    WeightKind::Q5_0,
    WeightKind::Q5_1,
    WeightKind::Q4_K,
    WeightKind::Q5_K,
    WeightKind::Q6_K,
    WeightKind::BF16,
    WeightKind::F16,
    WeightKind::F32,
];
const COLS: usize = 2048;
/// Weights that one token reads: 64 M of them are beyond any cache near a core.
const ROWS: [(usize, usize); 2] = [(1, 32_768), (512, 2048)];
/// Tiles that are multiplied at a time, as a thread of many would.
const TASK: usize = 16;
/// How long each figure is sought. The best time of every part counts, since other work on the machine only adds.
const BUDGET: Duration = Duration::from_millis(1500);

fn matrix(kind: WeightKind, rows: usize) -> Matrix {
    let mut state = 1_u32;
    let mut row: Vec<u8> = (0..COLS / kind.block() * kind.block_bytes())
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8 & 0x3f // scales stay finite
        })
        .collect();
    if kind.block() == 1 {
        // Ordinary numbers: the smallest ones are slow to multiply.
        for number in row.chunks_exact_mut(kind.block_bytes()) {
            number[kind.block_bytes() - 1] = 0x3d;
        }
    }
    let mut arena = Arena::new();
    let mut packer = Packer::new_in(&mut arena, kind, rows, COLS).expect("whole blocks");
    for _ in 0..rows {
        packer.push(&row).expect("whole rows");
    }
    packer.finish().expect("all rows")
}

/// Seconds of the product, and bytes of the weights.
fn time(isa: Isa, kind: WeightKind, tokens: usize, rows: usize) -> (f64, usize) {
    let weights = matrix(kind, rows);
    let numbers: Vec<f32> = (0..tokens * COLS)
        .map(|i| (i % 97) as f32 / 97.0 - 0.5)
        .collect();
    let mut input = Activations::new();
    input.quantise(tokens, COLS, &numbers, &[kind.form()]);
    let mut out = vec![0.0; tokens * rows];
    let mut bests = vec![f64::INFINITY; weights.tiles().div_ceil(TASK)];
    let start = Instant::now();
    while start.elapsed() < BUDGET {
        for (task, best) in bests.iter_mut().enumerate() {
            let tiles = task * TASK..weights.tiles().min((task + 1) * TASK);
            let begun = Instant::now();
            let view = OutView::new(&mut out, rows);
            // SAFETY: one thread.
            unsafe { multiply_on(isa, &weights, tiles, &input, 0..tokens, &view) };
            *best = best.min(begun.elapsed().as_secs_f64());
        }
    }
    (bests.iter().sum(), weights.bytes())
}

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
        .collect();
    for isa in Isa::available().into_iter().rev() {
        if !wanted.is_empty() && !wanted.iter().any(|name| isa.name().contains(name.as_str())) {
            continue;
        }
        for (tokens, rows) in ROWS {
            let mut first = None;
            for kind in KINDS {
                let (seconds, bytes) = time(isa, kind, tokens, rows);
                let speed = *first.get_or_insert(seconds) / seconds;
                let weights = (rows * COLS) as f64;
                println!(
                    "{:12} {tokens:4} tokens {kind:?}: {speed:.2} of Q4_1, {:.2} bits a weight, {:.1} GB/s, {:.0} G products/s",
                    isa.name(),
                    bytes as f64 * 8.0 / weights,
                    bytes as f64 / seconds / 1e9,
                    weights * tokens as f64 / seconds / 1e9,
                );
            }
        }
    }
}
