//! Counts what a thread allocates, to show that a step of a size seen before allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::{
    Activations, Attention, AttentionPlan, AttentionScratch, Form, Gate, GatedProduct,
    GatedScratch, HeadInput, Isa, KvCache, KvShape, Matrix, NormRows, Packer, Pool, Product, Rope,
    Rows, WeightKind, Work, multiply_all, multiply_gated, normalise_rows,
};

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is left to the system's allocator; counting touches no heap.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise; it came from the system.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promise; it came from the system.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const WIDTH: usize = 160;
const DIM: usize = 80;

fn matrix(rows: usize) -> Matrix {
    let mut packer = Packer::new(WeightKind::Q8_0, rows, WIDTH).unwrap();
    // A scale of one and small numbers.
    let block: Vec<u8> = [0x00, 0x3c].into_iter().chain(0..32).collect();
    packer.push(&block.repeat(rows * WIDTH / 32)).unwrap();
    packer.finish().unwrap()
}

/// All that a layer works with, on one thread.
struct Layer {
    pool: Pool,
    cache: KvCache,
    plan: AttentionPlan,
    rope: Rope,
    projection: Matrix,
    gate: Matrix,
    numbers: [Vec<f32>; 5],
    weight: Vec<f32>,
    input: Activations,
    inner: Activations,
    attention: AttentionScratch,
    gated: GatedScratch,
}

impl Layer {
    fn new() -> Self {
        let shape = KvShape {
            layers: 1,
            heads: 2,
            head_dim: DIM,
        };
        let mut rope = Rope::new(DIM, 1e4);
        rope.cover(256);
        Self {
            pool: Pool::new(1).unwrap(),
            cache: KvCache::new(shape, 8).unwrap(),
            plan: AttentionPlan::default(),
            rope,
            projection: matrix(WIDTH),
            gate: matrix(96),
            numbers: Default::default(),
            weight: vec![1.0; WIDTH],
            input: Activations::new(),
            inner: Activations::new(),
            attention: AttentionScratch::default(),
            gated: GatedScratch::default(),
        }
    }

    /// `rows` rows of one sequence from `position` on; the last one is wanted.
    fn step(&mut self, position: usize, rows: usize) {
        let (isa, work) = (
            Isa::best(),
            Work {
                heads: 2,
                group: 1,
                threads: 1,
            },
        );
        self.plan.clear();
        self.plan.push(position, rows, 0..4);
        self.plan.finish(8, work).unwrap();
        self.plan.want(&[rows - 1], work);
        for numbers in &mut self.numbers {
            numbers.resize(rows * WIDTH, 0.5);
        }
        let [x, delta, queries, keys, values] = &mut self.numbers;
        let norm = NormRows {
            x,
            delta,
            before: Some(&self.weight),
            weight: &self.weight,
            epsilon: 1e-5,
        };
        let pool = &mut self.pool;
        normalise_rows(pool, isa, norm, &[Form::Int8], &mut self.input);
        let products = [queries, keys, values].map(|out| Product {
            weights: &self.projection,
            out,
        });
        multiply_all(pool, isa, &self.input, products);
        let [.., queries, keys, values] = &self.numbers;
        let head = |numbers| HeadInput {
            numbers,
            bias: Some(&self.weight),
            norm: Some(&self.weight[..DIM]),
        };
        let mut attention = Attention {
            isa,
            plan: &self.plan,
            rope: &self.rope,
            cache: &mut self.cache,
            layer: 0,
            group: 1,
            scale: 0.1,
            window: Some(50),
            epsilon: 1e-5,
        };
        attention.store(pool, head(keys), head(values));
        let out = &mut self.inner;
        let one = head(&queries[..WIDTH]);
        for queries in [(Rows::All, head(queries)), (Rows::Wanted, one)] {
            attention.attend(pool, &mut self.attention, queries, &[Form::Int8], out);
        }
        let gated = GatedProduct {
            gate: &self.gate,
            up: &self.gate,
            activation: Gate::Gelu,
            forms: &[Form::Int8],
        };
        multiply_gated(pool, isa, &self.input, &gated, &mut self.gated, out);
    }
}

#[test]
fn a_step_of_a_size_seen_before_allocates_nothing() {
    let mut layer = Layer::new();
    let before = COUNT.get();
    layer.step(0, 60);
    assert!(COUNT.get() > before, "the counter counts");
    let before = COUNT.get();
    for position in [60, 61, 62] {
        layer.step(position, 1);
    }
    layer.step(63, 37);
    layer.step(0, 60);
    assert_eq!(COUNT.get(), before);
}
