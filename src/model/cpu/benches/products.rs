//! Time of all matrix products of a 135M-parameter llama (30 layers, 576 wide, Q4_1, Q8_0 head), as tokens per second
//! of a model that did nothing else. `cargo bench -p compere-cpu --bench products [-- PATH]`
#![allow(clippy::print_stdout, reason = "a command's output")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use compere_cpu::{Activations, Form, Isa, Matrix, OutView, WeightKind, multiply_on};

const LAYERS: usize = 30;
/// How long each figure is sought. The best time of every product counts, since other work on the machine only adds.
const BUDGET: Duration = Duration::from_millis(2500);

/// Products that read one input: their weights, and whether a prompt needs them for its last token only.
struct Group {
    weights: Vec<Matrix>,
    last_only: bool,
}

fn matrix(kind: WeightKind, rows: usize, cols: usize) -> Matrix {
    let mut state = 1_u32;
    let bytes: Vec<u8> = (0..rows * cols / kind.block() * kind.block_bytes())
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8 & 0x3f // scales stay finite
        })
        .collect();
    Matrix::pack(kind, rows, cols, &bytes).expect("the sizes agree")
}

fn model() -> Vec<Group> {
    let q4 = |rows, cols| matrix(WeightKind::Q4_1, rows, cols);
    let group = |weights, last_only| Group { weights, last_only };
    let layer = || {
        [
            group(vec![q4(576, 576), q4(192, 576), q4(192, 576)], false),
            group(vec![q4(576, 576)], false),
            group(vec![q4(1536, 576), q4(1536, 576)], false),
            group(vec![q4(576, 1536)], false),
        ]
    };
    let mut groups: Vec<Group> = (0..LAYERS).flat_map(|_| layer()).collect();
    groups.push(group(vec![matrix(WeightKind::Q8_0, 49152, 576)], true));
    groups
}

/// Lets threads go on together.
struct Barrier {
    threads: usize,
    arrived: AtomicUsize,
}

impl Barrier {
    fn wait(&self, round: &mut usize) {
        *round += 1;
        self.arrived.fetch_add(1, Ordering::AcqRel);
        let mut spins = 0_u32;
        while self.arrived.load(Ordering::Acquire) < *round * self.threads {
            spins += 1;
            if spins.is_multiple_of(4096) {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }
}

/// Seconds of the model's inputs' quantising and of its products, each the sum of the bests.
fn time(isa: Isa, model: &[Group], tokens: usize, prompt: bool, threads: usize) -> (f64, f64) {
    let count = |group: &Group| if group.last_only && prompt { 1 } else { tokens };
    let numbers: Vec<f32> = (0..tokens * 1536)
        .map(|i| (i % 97) as f32 / 97.0 - 0.5)
        .collect();
    let mut inputs: Vec<Activations> = model.iter().map(|_| Activations::new()).collect();
    let most = model
        .iter()
        .flat_map(|g| g.weights.iter().map(move |w| w.rows() * count(g)))
        .max();
    let mut outs = vec![0.0; most.expect("a model has weights")];
    let mut quantised = vec![f64::INFINITY; model.len()];
    let mut multiplied = vec![f64::INFINITY; model.len()];
    let start = Instant::now();
    while start.elapsed() < BUDGET {
        for ((group, input), best) in model.iter().zip(&mut inputs).zip(&mut quantised) {
            let (rows, cols) = (count(group), group.weights[0].cols());
            let begun = Instant::now();
            input.quantise(rows, cols, &numbers[..rows * cols], &[Form::Int8]);
            *best = begun.elapsed().as_secs_f64().min(*best);
        }
        let pass = |thread: usize, barrier: &Barrier, out: *mut [f32]| {
            let mut round = 0;
            barrier.wait(&mut round);
            let mut times = Vec::with_capacity(model.len());
            for (group, input) in model.iter().zip(&inputs) {
                let begun = Instant::now();
                for weights in &group.weights {
                    // SAFETY: the buffer outlives the pass, and threads have tiles of their own.
                    unsafe {
                        let out = OutView::new(&mut *out, weights.rows());
                        let tiles = weights.tiles() * thread / threads
                            ..weights.tiles() * (thread + 1) / threads;
                        multiply_on(isa, weights, tiles, input, 0..input.rows(), &out);
                    }
                }
                barrier.wait(&mut round);
                times.push(begun.elapsed().as_secs_f64());
            }
            times
        };
        let barrier = Barrier {
            threads,
            arrived: AtomicUsize::new(0),
        };
        let out = Out(&raw mut outs[..]);
        let times = std::thread::scope(|scope| {
            for thread in 1..threads {
                let (pass, barrier, out) = (&pass, &barrier, &out);
                scope.spawn(move || pass(thread, barrier, out.0));
            }
            pass(0, &barrier, out.0)
        });
        for (best, time) in multiplied.iter_mut().zip(times) {
            *best = time.min(*best);
        }
    }
    (
        quantised.iter().sum::<f64>() / threads as f64,
        multiplied.iter().sum(),
    )
}

struct Out(*mut [f32]);
// SAFETY: threads write disjoint parts, see its only use.
unsafe impl Sync for Out {}

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
        .collect();
    let model = model();
    let bytes: usize = model
        .iter()
        .flat_map(|g| &g.weights)
        .map(Matrix::bytes)
        .sum();
    println!("weights: {:.1} MB", bytes as f64 / 1e6);
    for isa in Isa::available().into_iter().rev() {
        if !wanted.is_empty() && !wanted.iter().any(|name| isa.name().contains(name.as_str())) {
            continue;
        }
        for threads in [1, 2] {
            for (tokens, prompt) in [
                (1, false),
                (2, false),
                (4, false),
                (8, false),
                (32, false),
                (512, true),
            ] {
                let (quantising, products) = time(isa, &model, tokens, prompt, threads);
                println!(
                    "{:12} {threads} threads {tokens:4} tokens: {:8.1} tok/s, {:6.2} ms + {:5.2} quantising",
                    isa.name(),
                    tokens as f64 / (quantising + products),
                    products * 1e3,
                    quantising * 1e3,
                );
            }
        }
    }
}
