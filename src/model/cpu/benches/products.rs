//! Time of all matrix products of a 135M-parameter llama (30 layers, 576 wide, Q4_1, Q8_0 head), as tokens per second
//! of a model that did nothing else. `cargo bench -p compere-cpu --bench products [-- PATH]`
#![allow(clippy::print_stdout, reason = "a command's output")]

use std::ops::Range;
use std::time::{Duration, Instant};

use compere_cpu::{
    Activations, Arena, Form, Isa, Matrix, OutView, Packer, WeightKind, multiply_on,
};

const LAYERS: usize = 30;
/// Tiles that are timed together.
const TASK: usize = 6;
/// How long each figure is sought. The best time of every part counts, since other work on the machine only adds.
const BUDGET: Duration = Duration::from_millis(2500);

/// Products that read one input: their weights, and whether a prompt needs them for its last token only.
struct Group {
    weights: Vec<Matrix>,
    last_only: bool,
}

fn matrix(arena: &mut Arena, kind: WeightKind, rows: usize, cols: usize) -> Matrix {
    let mut state = 1_u32;
    let bytes: Vec<u8> = (0..rows * cols / kind.block() * kind.block_bytes())
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8 & 0x3f // scales stay finite
        })
        .collect();
    let mut packer = Packer::new_in(arena, kind, rows, cols).expect("whole blocks");
    packer.push(&bytes).expect("whole rows");
    packer.finish().expect("all rows")
}

fn model() -> Vec<Group> {
    let mut arena = Arena::new();
    let mut group = |kind, rows: &[usize], cols, last_only| Group {
        weights: rows
            .iter()
            .map(|rows| matrix(&mut arena, kind, *rows, cols))
            .collect(),
        last_only,
    };
    let mut groups = Vec::new();
    for _ in 0..LAYERS {
        groups.push(group(WeightKind::Q4_1, &[576, 192, 192], 576, false));
        groups.push(group(WeightKind::Q4_1, &[576], 576, false));
        groups.push(group(WeightKind::Q4_1, &[1536, 1536], 576, false));
        groups.push(group(WeightKind::Q4_1, &[576], 1536, false));
    }
    groups.push(group(WeightKind::Q8_0, &[49152], 576, true));
    groups
}

/// Seconds of quantising the model's inputs and of its products on the slowest thread: sums of each part's best time.
fn time(isa: Isa, model: &[Group], tokens: usize, prompt: bool, threads: usize) -> (f64, f64) {
    let count = |group: &Group| if group.last_only && prompt { 1 } else { tokens };
    let numbers: Vec<f32> = (0..tokens * 1536)
        .map(|i| (i % 97) as f32 / 97.0 - 0.5)
        .collect();
    let mut inputs: Vec<Activations> = model.iter().map(|_| Activations::new()).collect();
    let mut quantising = Bests::default();
    for _ in 0..5 {
        for (group, input) in model.iter().zip(&mut inputs) {
            let (rows, cols) = (count(group), group.weights[0].cols());
            quantising.time(|| input.quantise(rows, cols, &numbers[..rows * cols], &[Form::Int8]));
        }
        quantising.rewind();
    }
    let most = model
        .iter()
        .flat_map(|g| g.weights.iter().map(move |w| w.rows() * count(g)))
        .max();
    let mut outs = vec![0.0; most.expect("a model has weights")];
    let out = Out(&raw mut outs[..]);
    let work = |thread: usize, out: *mut [f32]| {
        let tasks = tasks(model, thread, threads);
        let mut bests = Bests::default();
        let start = Instant::now();
        while start.elapsed() < BUDGET {
            for (group, weights, tiles) in &tasks {
                let input = &inputs[*group];
                // SAFETY: the buffer outlives the threads, which have tiles of their own.
                bests.time(|| unsafe {
                    let view = OutView::new(&mut *out, weights.rows());
                    multiply_on(isa, weights, tiles.clone(), input, 0..input.rows(), &view);
                });
            }
            bests.rewind();
        }
        bests.sum()
    };
    let products = std::thread::scope(|scope| {
        let (work, out) = (&work, &out);
        let others: Vec<_> = (1..threads)
            .map(|thread| scope.spawn(move || work(thread, out.0)))
            .collect();
        let mine = work(0, out.0);
        others
            .into_iter()
            .map(|other| other.join().expect("no panic"))
            .fold(mine, f64::max)
    });
    (quantising.sum() / threads as f64, products)
}

/// A thread's share: index of the input, weights, tiles.
fn tasks(model: &[Group], thread: usize, threads: usize) -> Vec<(usize, &Matrix, Range<usize>)> {
    let mut tasks = Vec::new();
    for (index, group) in model.iter().enumerate() {
        for weights in &group.weights {
            let end = weights.tiles() * (thread + 1) / threads;
            let starts = (weights.tiles() * thread / threads..end).step_by(TASK);
            tasks.extend(starts.map(|first| (index, weights, first..end.min(first + TASK))));
        }
    }
    tasks
}

/// The best time of each part of a repeated sequence.
#[derive(Default)]
struct Bests {
    seconds: Vec<f64>,
    next: usize,
}

impl Bests {
    fn time(&mut self, part: impl FnOnce()) {
        let begun = Instant::now();
        part();
        let seconds = begun.elapsed().as_secs_f64();
        match self.seconds.get_mut(self.next) {
            Some(best) => *best = seconds.min(*best),
            None => self.seconds.push(seconds),
        }
        self.next += 1;
    }

    fn rewind(&mut self) {
        self.next = 0;
    }

    fn sum(&self) -> f64 {
        self.seconds.iter().sum()
    }
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
