//! Every path against the definition of the file format in f64, and against each other bit for bit.

mod definition;

use proptest::prelude::*;

use self::definition::definition;
use super::*;
use crate::{Form, Packer};

const KINDS: [WeightKind; 11] = [
    WeightKind::F32,
    WeightKind::F16,
    WeightKind::BF16,
    WeightKind::Q8_0,
    WeightKind::Q4_0,
    WeightKind::Q4_1,
    WeightKind::Q5_0,
    WeightKind::Q5_1,
    WeightKind::Q4_K,
    WeightKind::Q5_K,
    WeightKind::Q6_K,
];

/// A small generator of its own, so that shapes can shrink while numbers stay arbitrary.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    /// In -1..1.
    fn number(&mut self) -> f32 {
        self.next() as f32 / 2f32.powi(30) - 1.0
    }

    /// A half of either sign between 2^-8 and 2^0.
    fn half(&mut self) -> [u8; 2] {
        let exponent = 7 + self.next() % 8;
        ((self.next() & 0x83ff | exponent << 10) as u16).to_le_bytes()
    }

    /// A tensor as a file holds it. Quants take every value, the extremes included.
    fn tensor(&mut self, kind: WeightKind, rows: usize, cols: usize) -> Vec<u8> {
        (0..rows * cols / kind.block())
            .flat_map(|_| self.block(kind))
            .collect()
    }

    fn block(&mut self, kind: WeightKind) -> Vec<u8> {
        let mut bytes = match kind {
            WeightKind::F32 => self.number().to_le_bytes().to_vec(),
            WeightKind::BF16 => self.number().to_le_bytes()[2..].to_vec(),
            WeightKind::F16 | WeightKind::Q8_0 | WeightKind::Q4_0 | WeightKind::Q5_0 => {
                self.half().to_vec()
            }
            WeightKind::Q4_1 | WeightKind::Q5_1 | WeightKind::Q4_K | WeightKind::Q5_K => {
                [self.half(), self.half()].concat()
            }
            WeightKind::Q6_K => Vec::new(),
        };
        let extreme = self.next().is_multiple_of(4);
        let quants = kind.block_bytes() - bytes.len();
        bytes.extend((0..quants).map(|_| if extreme { 0x80 } else { self.next() as u8 }));
        if kind == WeightKind::Q6_K {
            bytes[208..].copy_from_slice(&self.half());
        }
        bytes
    }

    /// Inputs with blocks that are zero, alike, tiny or dominated by one number among ordinary ones.
    fn input(&mut self, len: usize) -> Vec<f32> {
        let mut input = Vec::with_capacity(len);
        while input.len() < len {
            let shape = self.next() % 8;
            for k in 0..BLOCK.min(len - input.len()) {
                let x = self.number();
                input.push(match shape {
                    0 => 0.0,
                    1 => -2.5,
                    2 => x * 1e-39,
                    3 if k == 5 => 900.0,
                    _ => x,
                });
            }
        }
        input
    }
}

/// A product to compute: the shape, and the numbers' seed.
#[derive(Debug, Clone, Copy)]
struct Case {
    kind: WeightKind,
    rows: usize,
    cols: usize,
    tokens: usize,
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let kind = proptest::sample::select(KINDS.to_vec());
    // Around 96 the tokens no longer pass all at once.
    let tokens = prop_oneof![6 => 1..40_usize, 1 => 90..110_usize];
    let (tokens, rows, blocks) = if cfg!(miri) {
        ((1..7_usize).boxed(), 1..18_usize, 1..3_usize)
    } else {
        (tokens.boxed(), 1..70_usize, 1..9_usize)
    };
    (kind, rows, blocks, tokens, any::<u64>()).prop_map(|(kind, rows, blocks, tokens, seed)| Case {
        kind,
        rows,
        cols: match kind.block() {
            1 => blocks * 7,
            BLOCK => blocks * BLOCK,
            block => blocks.div_ceil(3) * block,
        },
        tokens,
        seed,
    })
}

impl Case {
    fn build(self) -> (Vec<u8>, Matrix, Vec<f32>) {
        let mut random = Random(self.seed);
        let bytes = random.tensor(self.kind, self.rows, self.cols);
        let matrix = Matrix::pack(self.kind, self.rows, self.cols, &bytes).unwrap();
        (bytes, matrix, random.input(self.tokens * self.cols))
    }
}

fn activations(cols: usize, input: &[f32], kind: WeightKind) -> Activations {
    let mut activations = Activations::new();
    activations.quantise(input.len() / cols, cols, input, &[kind.form()]);
    activations
}

/// The part of the product that tiles and tokens stand for; everything else stays -7.
fn part(
    isa: Isa,
    weights: &Matrix,
    tiles: Range<usize>,
    input: &Activations,
    tokens: Range<usize>,
) -> Vec<u32> {
    let stride = weights.rows() + 3;
    let mut out = vec![-7.0; input.rows() * stride];
    // SAFETY: one thread.
    unsafe {
        multiply_on(
            isa,
            weights,
            tiles,
            input,
            tokens,
            &OutView::new(&mut out, stride),
        )
    };
    out.into_iter().map(f32::to_bits).collect()
}

fn whole(isa: Isa, weights: &Matrix, input: &Activations) -> Vec<u32> {
    part(isa, weights, 0..weights.tiles(), input, 0..input.rows())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 192 }))]

    #[test]
    fn every_path_computes_the_same_bits(case in cases()) {
        let (_, matrix, input) = case.build();
        let input = activations(case.cols, &input, case.kind);
        let expected = whole(Isa::available()[0], &matrix, &input);
        for isa in Isa::available() {
            prop_assert_eq!(&whole(isa, &matrix, &input), &expected, "{}", isa.name());
        }
    }

    #[test]
    fn a_token_alone_gets_the_bits_it_gets_in_a_batch(case in cases()) {
        let (_, matrix, input) = case.build();
        let batch = activations(case.cols, &input, case.kind);
        for isa in Isa::available() {
            let batched = whole(isa, &matrix, &batch);
            for (token, row) in input.chunks_exact(case.cols).enumerate() {
                let alone = whole(isa, &matrix, &activations(case.cols, row, case.kind));
                let stride = case.rows + 3;
                prop_assert_eq!(&alone[..], &batched[token * stride..][..stride], "{} token {}", isa.name(), token);
            }
        }
    }

    #[test]
    fn parts_write_their_own_outputs_and_no_others(case in cases(), cuts in any::<[u16; 4]>()) {
        let (_, matrix, input) = case.build();
        let input = activations(case.cols, &input, case.kind);
        let cut = |end: usize, a: u16, b: u16| {
            let (a, b) = (usize::from(a) % (end + 1), usize::from(b) % (end + 1));
            a.min(b)..a.max(b)
        };
        let tiles = cut(matrix.tiles(), cuts[0], cuts[1]);
        let tokens = cut(case.tokens, cuts[2], cuts[3]);
        for isa in Isa::available() {
            let all = whole(isa, &matrix, &input);
            let some = part(isa, &matrix, tiles.clone(), &input, tokens.clone());
            for (index, (some, all)) in some.iter().zip(&all).enumerate() {
                let (token, row) = (index / (case.rows + 3), index % (case.rows + 3));
                let mine = row < case.rows && tokens.contains(&token) && tiles.contains(&(row / TILE_ROWS));
                prop_assert_eq!(*some, if mine { *all } else { (-7.0_f32).to_bits() }, "{} at {}", isa.name(), index);
            }
        }
    }

    #[test]
    fn products_are_close_to_those_of_the_dequantised_numbers(case in cases()) {
        let (bytes, matrix, input) = case.build();
        let row_bytes = case.cols / case.kind.block() * case.kind.block_bytes();
        let quantised = activations(case.cols, &input, case.kind);
        let mut out = vec![0.0; case.tokens * case.rows];
        product(&matrix, &quantised, &mut out);
        for (token, x) in input.chunks_exact(case.cols).enumerate() {
            for row in 0..case.rows {
                let w = definition(case.kind, &bytes[row * row_bytes..][..row_bytes]);
                let exact: f64 = w.iter().zip(x).map(|(w, x)| w * f64::from(*x)).sum();
                let bound = error_bound(case.kind, &w, x);
                let got = f64::from(out[token * case.rows + row]);
                prop_assert!((got - exact).abs() <= bound, "token {} row {}: {} for {}", token, row, got, exact);
            }
        }
    }

    #[test]
    fn rows_are_the_numbers_that_the_format_defines(case in cases()) {
        let (bytes, matrix, _) = case.build();
        let row_bytes = case.cols / case.kind.block() * case.kind.block_bytes();
        let mut row = vec![0.0; case.cols];
        for (index, bytes) in bytes.chunks_exact(row_bytes).enumerate() {
            matrix.row(index, &mut row);
            for (got, exact) in row.iter().zip(definition(case.kind, bytes)) {
                prop_assert!((f64::from(*got) - exact).abs() <= exact.abs() * 2e-7 + 1e-7, "{} for {}", got, exact);
            }
        }
    }

    #[test]
    fn packing_in_pieces_gives_the_same_matrix(case in cases(), piece in 1..9_usize) {
        let (bytes, matrix, _) = case.build();
        let mut packer = Packer::new(case.kind, case.rows, case.cols).unwrap();
        for piece in bytes.chunks(piece * packer.row_bytes()) {
            packer.push(piece).unwrap();
        }
        let pieced = packer.finish().unwrap();
        for tile in 0..matrix.tiles() {
            prop_assert_eq!(pieced.tile(tile), matrix.tile(tile));
        }
    }
}

/// What quantising the input to half a step of each block can move the sum by, and what rounding in f32 can.
fn error_bound(kind: WeightKind, w: &[f64], x: &[f32]) -> f64 {
    let rounding: f64 = w
        .iter()
        .zip(x)
        .map(|(w, x)| (w * f64::from(*x)).abs())
        .sum::<f64>()
        + 1e-3;
    let steps: f64 = match kind.form() {
        Form::Float => 0.0,
        Form::Int8 => w
            .chunks(BLOCK)
            .zip(x.chunks(BLOCK))
            .map(|(w, x)| {
                let largest = x.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
                f64::from(largest) / 127.0 * 0.501 * w.iter().map(|w| w.abs()).sum::<f64>()
            })
            .sum(),
    };
    steps + rounding * w.len() as f64 * 3e-7
}

#[test]
fn quants_at_their_limits_overflow_nowhere() {
    // All weights and inputs at one end: the largest sums that a path's narrow accumulators can meet.
    for (kind, quant) in [
        (WeightKind::Q8_0, 0x80),
        (WeightKind::Q8_0, 0x7f),
        (WeightKind::Q4_0, 0),
        (WeightKind::Q4_1, 0xff),
        (WeightKind::Q5_0, 0),
        (WeightKind::Q5_0, 0xff),
        (WeightKind::Q5_1, 0xff),
        (WeightKind::Q4_K, 0xff),
        (WeightKind::Q5_K, 0xff),
        (WeightKind::Q6_K, 0),
        (WeightKind::Q6_K, 0xff),
    ] {
        let mut block = vec![quant; kind.block_bytes()];
        let one = [0, 0x3c];
        match kind {
            WeightKind::Q8_0 | WeightKind::Q4_0 | WeightKind::Q5_0 => {
                block[..2].copy_from_slice(&one);
            }
            WeightKind::Q6_K => {
                block[192..208].fill(0x80);
                block[208..].copy_from_slice(&one);
            }
            _ => block[..4].copy_from_slice(&[one, [0; 2]].concat()),
        }
        let cols = kind.block();
        let matrix = Matrix::pack(kind, 16, cols, &block.repeat(16)).unwrap();
        let weight: f64 = definition(kind, &block)[0];
        for x in [127.0_f32, -127.0] {
            let input = activations(cols, &vec![x; cols], kind);
            for isa in Isa::available() {
                let out = whole(isa, &matrix, &input);
                assert_eq!(
                    f64::from(f32::from_bits(out[0])),
                    weight * f64::from(x) * cols as f64,
                    "{kind:?} {}",
                    isa.name()
                );
            }
        }
    }
}

#[test]
fn a_fault_in_the_input_stays_visible() {
    for fault in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut row = vec![0.5; 256];
        row[40] = fault;
        for kind in KINDS {
            let matrix = Matrix::pack(kind, 3, 256, &Random(1).tensor(kind, 3, 256)).unwrap();
            for isa in Isa::available() {
                let out = whole(isa, &matrix, &activations(256, &row, kind));
                assert!(
                    out[..3].iter().all(|y| !f32::from_bits(*y).is_finite()),
                    "{fault} {kind:?} {}",
                    isa.name()
                );
            }
        }
    }
}

#[test]
fn wrong_shapes_are_errors() {
    use crate::PackError::*;
    let pack =
        |rows, cols, len| Matrix::pack(WeightKind::Q4_1, rows, cols, &vec![0; len]).unwrap_err();
    assert_eq!(
        pack(1, 48, 30),
        PartialBlock {
            cols: 48,
            block: 32
        }
    );
    assert_eq!(
        pack(2, 32, 39),
        Length {
            expected: 40,
            actual: 39
        }
    );
    assert_eq!(
        pack(2, 32, 60),
        Length {
            expected: 40,
            actual: 60
        }
    );
    assert_eq!(pack(0, 32, 0), Shape { rows: 0, cols: 32 });
    assert_eq!(pack(1, 0, 0), Shape { rows: 1, cols: 0 });
    assert!(matches!(pack(usize::MAX, 1 << 40, 0), Shape { .. }));
    let mut packer = Packer::new(WeightKind::Q8_0, 2, 32).unwrap();
    packer.push(&[0; 34]).unwrap();
    assert_eq!(packer.push(&[0; 68]).unwrap_err(), Row { row: 2, rows: 2 });
    assert_eq!(packer.finish().unwrap_err(), Row { row: 1, rows: 2 });
}

#[test]
#[should_panic(expected = "reads Int8 activations")]
fn activations_of_the_wrong_form_are_refused() {
    let matrix = Matrix::pack(WeightKind::Q8_0, 1, 32, &[0; 34]).unwrap();
    product(
        &matrix,
        &activations(32, &[1.0; 32], WeightKind::F32),
        &mut [0.0],
    );
}

#[test]
#[should_panic(expected = "no place for rows")]
fn a_view_too_small_is_refused() {
    let matrix = Matrix::pack(WeightKind::Q8_0, 16, 32, &[0; 34 * 16]).unwrap();
    let input = activations(32, &[1.0; 64], WeightKind::Q8_0);
    // SAFETY: one thread.
    unsafe {
        multiply(
            &matrix,
            0..1,
            &input,
            0..2,
            &OutView::new(&mut [0.0; 31], 16),
        )
    };
}
