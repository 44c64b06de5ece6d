//! A row's bits depend on nothing but its own sequence: not on instructions, threads, neighbours, cuts or old memory.

use proptest::prelude::*;

use super::*;

#[test]
fn every_instruction_set_and_thread_count_gives_the_same_bits() {
    let tokens: Vec<u64> = (100..195).collect();
    let windowed = Kind {
        dim: 80,
        window: Some(40),
        prepared: true,
    };
    for kind in [PLAIN, windowed] {
        let want = bits(&alone(kind, &tokens));
        for isa in Isa::available() {
            for threads in [1, 2, 7] {
                let piece = Piece {
                    tokens: tokens.clone(),
                    position: 0,
                    blocks: vec![5, 4, 9],
                };
                let got = bits(&Bench::of(kind, isa, threads).step(&[piece]));
                assert_eq!(got, want, "{kind:?} {isa:?} {threads}");
            }
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
    assert_eq!(bits(&bench.step(&[piece])), bits(&alone(PLAIN, &tokens)));
}

/// Sequences that share leading blocks, and how each is cut into chunks.
#[derive(Clone, Debug)]
struct Scenario {
    shared_blocks: usize,
    rest: Vec<usize>,
    chunk: usize,
    threads: usize,
    order: u64,
    kind: Kind,
}

fn kind() -> impl Strategy<Value = Kind> {
    let window = prop_oneof![Just(None), (1..100usize).prop_map(Some)];
    (prop::sample::select(vec![48, 80]), window, any::<bool>()).prop_map(
        |(dim, window, prepared)| Kind {
            dim,
            window,
            prepared,
        },
    )
}

fn scenario() -> impl Strategy<Value = Scenario> {
    (
        0..4usize,
        prop::collection::vec(1..90usize, 1..6),
        1..70usize,
        1..4usize,
        any::<u64>(),
        kind(),
    )
        .prop_map(
            |(shared_blocks, rest, chunk, threads, order, kind)| Scenario {
                shared_blocks,
                rest,
                chunk,
                threads,
                order,
                kind,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn batched_chunked_and_shared_equal_alone(s in scenario()) {
        let shared = s.shared_blocks * BLOCK_TOKENS;
        let prefix: Vec<u64> = (0..shared as u64).collect();
        let mut bench = Bench::of(s.kind, Isa::best(), s.threads);
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
        let want: Vec<_> = sequences.iter().map(|(tokens, _)| bits(&alone(s.kind, tokens))).collect();
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

/// What a window hides may be anything: the block that it begins in has been written by this sequence, but numbers out
/// of range must not come back as zero times infinity.
#[test]
fn what_lies_before_the_window_is_not_read() {
    let kind = Kind {
        window: Some(5),
        ..PLAIN
    };
    let tokens: Vec<u64> = (0..40).collect();
    let want = bits(&alone(kind, &tokens))[39].clone();
    let mut bench = Bench::of(kind, Isa::best(), 1);
    let whole = Piece {
        tokens: tokens[..39].to_vec(),
        position: 0,
        blocks: vec![0, 1],
    };
    bench.step(&[whole]);
    for head in 0..HEADS {
        let (old, new) = (
            bench.cache.head(0, LAYER, head),
            bench.cache.head(1, LAYER, head),
        );
        // SAFETY: keys and values of one head in two blocks; positions 32 to 34 are before the window of position 39.
        unsafe {
            std::slice::from_raw_parts_mut(old.keys, 2 * DIM * BLOCK_TOKENS).fill(0x7e00);
            std::slice::from_raw_parts_mut(new.values, 3 * DIM).fill(0x7e00);
            for i in 0..DIM {
                std::slice::from_raw_parts_mut(new.keys.add(i * BLOCK_TOKENS), 3).fill(0x7e00);
            }
        }
    }
    let last = Piece {
        tokens: tokens[39..].to_vec(),
        position: 39,
        blocks: vec![0, 1],
    };
    assert_eq!(bits(&bench.step(&[last])), [want]);
}

#[test]
fn wanted_rows_have_the_bits_they_have_among_all() {
    for dim in [48, 80] {
        let kind = Kind {
            dim,
            window: Some(17),
            prepared: true,
        };
        let pieces = [
            Piece {
                tokens: (0..50).collect(),
                position: 0,
                blocks: vec![7, 2],
            },
            Piece {
                tokens: (60..65).collect(),
                position: 0,
                blocks: vec![1],
            },
        ];
        let all = bits(&Bench::of(kind, Isa::best(), 2).step(&pieces));
        for wanted in [&[0, 3, 49, 50, 54][..], &[54], &[]] {
            let mut bench = Bench::of(kind, Isa::best(), 2);
            let out = bench.outputs(&pieces, Some(wanted), Form::Float);
            let got: Vec<_> = (0..wanted.len())
                .map(|row| out.numbers(row).to_vec())
                .collect();
            let want: Vec<_> = wanted.iter().map(|&row| all[row].clone()).collect();
            assert_eq!(bits(&got), want);
        }
    }
}

/// Heads of 80 end inside a block of 32, heads of 96 between two.
#[test]
fn bytes_of_outputs_are_those_of_their_numbers() {
    for dim in [80, 96] {
        let kind = Kind { dim, ..PLAIN };
        let piece = Piece {
            tokens: (0..40).collect(),
            position: 0,
            blocks: vec![0, 1],
        };
        let width = HEADS * GROUP * dim;
        let numbers: Vec<f32> = Bench::of(kind, Isa::best(), 2)
            .step(std::slice::from_ref(&piece))
            .concat();
        let mut want = Activations::new();
        want.quantise(40, width, &numbers, &[Form::Int8]);
        let got = Bench::of(kind, Isa::best(), 2).outputs(&[piece], None, Form::Int8);
        for row in 0..40 {
            let bytes = |of: &Activations| -> Vec<([i8; BLOCK], u32)> {
                let lane = of.lane(row);
                // SAFETY: a row's blocks lie a panel apart.
                let block = |b: usize| unsafe {
                    let at = b * crate::activations::PANEL;
                    (*lane.quants.add(at), (*lane.scales.add(at)).to_bits())
                };
                (0..width / BLOCK).map(block).collect()
            };
            assert_eq!(bytes(&got), bytes(&want), "row {row} of {dim}");
        }
    }
}
