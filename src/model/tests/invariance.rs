//! The same row gives the same bits whatever else is in the batch, however its prompt was cut, and wherever it runs.

use compere_cpu::Isa;
use proptest::prelude::*;

use super::architectures::{MODELS, folder};
use super::tiny::{OTHERS, TINY, Tiny};
use super::{Piece, alone, batch, bits, default_model, forward, runner};
use crate::engine::paged::runner::ModelRunner;
use crate::model::CpuRunner;

fn of(tiny: Tiny, isa: Isa, threads: usize) -> CpuRunner {
    let folder = tempfile::tempdir().unwrap();
    runner(isa, threads, &tiny.builder().write(folder.path()))
}

/// All small models: random ones with quantised weights, then those of other files.
fn small(index: usize, isa: Isa, threads: usize) -> CpuRunner {
    let tinies = [TINY].into_iter().chain(OTHERS).collect::<Vec<_>>();
    match tinies.get(index) {
        Some(&tiny) => of(tiny, isa, threads),
        None => {
            let file = folder(MODELS[index - tinies.len()]).join("model.gguf");
            runner(isa, threads, &file)
        }
    }
}

const SMALL: usize = 1 + OTHERS.len() + MODELS.len();

#[test]
fn instruction_sets_and_thread_counts_give_the_same_bits() {
    for model in 0..SMALL {
        let tokens: Vec<u32> = (0..70).map(|i| i * 31 % 64).collect();
        let want = bits(&alone(
            &mut small(model, Isa::available()[0], 1),
            &tokens,
            0,
        ));
        for isa in Isa::available() {
            for threads in [1, 2, 5] {
                let got = bits(&alone(&mut small(model, isa, threads), &tokens, 4));
                assert_eq!(got, want, "{isa:?} with {threads} threads, model {model}");
            }
        }
    }
}

#[test]
fn the_default_model_gives_the_same_bits_in_plain_rust() {
    let tokens = [504, 3575, 282, 4649, 314, 7042, 30];
    let path = default_model();
    let want = bits(&alone(
        &mut runner(Isa::available()[0], 2, &path),
        &tokens,
        0,
    ));
    for isa in Isa::available().into_iter().skip(1) {
        assert_eq!(
            bits(&alone(&mut runner(isa, 2, &path), &tokens, 0)),
            want,
            "{isa:?}"
        );
    }
}

/// Three sequences over one shared block: chunked and batched, against each by itself in blocks of its own.
fn batched_equals_alone(runner: &mut CpuRunner, vocab: u32) {
    let size = runner.limits().block_tokens;
    let sequence = |seed: u32, len: usize| -> Vec<u32> {
        let own = (size as u32..len as u32).map(|i| i * 17 + seed * 1009);
        (0..size as u32)
            .map(|i| i * 13 + 5)
            .chain(own)
            .map(|token| token % vocab)
            .collect()
    };
    let sequences = [
        sequence(1, size + 1),
        sequence(2, 2 * size + 9),
        sequence(3, size + 20),
    ];
    let want: Vec<_> = sequences
        .iter()
        .map(|tokens| bits(&alone(runner, tokens, 20)))
        .collect();
    let shared = Piece {
        tokens: sequences[0][..size].to_vec(),
        position: 0,
        blocks: vec![0],
    };
    assert_eq!(bits(&forward(runner, &[shared]))[..], want[0][..size]);
    let tables = [vec![0, 3], vec![0, 9, 2], vec![0, 5]];
    let mut at = [size; 3];
    while (0..3).any(|i| at[i] < sequences[i].len()) {
        let going: Vec<usize> = (0..3).filter(|&i| at[i] < sequences[i].len()).collect();
        let pieces: Vec<Piece> = going
            .iter()
            .map(|&i| Piece {
                tokens: sequences[i][at[i]..sequences[i].len().min(at[i] + 7)].to_vec(),
                position: at[i],
                blocks: tables[i].clone(),
            })
            .collect();
        let mut rows = bits(&forward(runner, &pieces)).into_iter();
        for (&i, piece) in going.iter().zip(&pieces) {
            for _ in &piece.tokens {
                assert_eq!(
                    rows.next().unwrap(),
                    want[i][at[i]],
                    "sequence {i} position {}",
                    at[i]
                );
                at[i] += 1;
            }
        }
    }
}

#[test]
fn batched_chunked_and_shared_equal_alone() {
    for model in 0..SMALL {
        batched_equals_alone(&mut small(model, Isa::best(), 2), 64);
    }
}

#[test]
fn the_default_model_gives_the_same_bits_batched_chunked_and_shared() {
    batched_equals_alone(&mut runner(Isa::best(), 2, &default_model()), 49_152);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Also the logits of some rows are those they have among all, though the last layer computes no others.
    #[test]
    fn any_chunks_and_any_wanted_rows_give_the_bits_of_the_whole(
        cuts in prop::collection::vec((1..40usize, any::<u64>()), 1..8),
        isa in 0..3usize,
        model in 0..SMALL,
    ) {
        let sets = Isa::available();
        let mut runner = small(model, sets[isa % sets.len()], 2);
        let total: usize = cuts.iter().map(|(rows, _)| rows).sum();
        // Near ends of the context of the smallest.
        let total = total.min(runner.limits().max_context);
        let tokens: Vec<u32> = (0..total as u32).map(|i| i * 7 % 64).collect();
        let want = bits(&alone(&mut runner, &tokens, 0));
        let blocks: Vec<u32> = (30..30 + total.div_ceil(runner.limits().block_tokens) as u32).collect();
        let mut position = 0;
        for (rows, mask) in cuts {
            let rows = rows.min(total - position);
            if rows == 0 {
                break;
            }
            let piece = Piece { tokens: tokens[position..position + rows].to_vec(), position, blocks: blocks.clone() };
            let mut batch = batch(&[piece]);
            batch.logit_rows.retain(|row| mask >> (row % 64) & 1 == 1);
            let mut logits = vec![f32::NAN; 3];
            runner.forward(&batch, &mut logits).unwrap();
            let vocab = runner.limits().vocab;
            prop_assert_eq!(logits.len(), batch.logit_rows.len() * vocab);
            for (row, logits) in batch.logit_rows.iter().zip(logits.chunks(vocab)) {
                prop_assert_eq!(&bits(&[logits.to_vec()])[0], &want[position + row]);
            }
            position += rows;
        }
    }
}
