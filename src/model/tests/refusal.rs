//! What cannot be computed is refused by name: files, options and batches.

use compere_cpu::Isa;

use super::tiny::{TINY, Tiny};
use super::{Piece, alone, batch, bits, runner};
use crate::engine::paged::batch::Batch;
use crate::engine::paged::runner::ModelRunner;
use crate::model::gguf::testing::GgufBuilder;
use crate::model::gguf::{TensorKind, Value};
use crate::model::{CpuRunner, LoadOptions, load};

fn load_error(file: &GgufBuilder, options: &LoadOptions) -> String {
    let folder = tempfile::tempdir().unwrap();
    load(&file.write(folder.path()), options)
        .unwrap_err()
        .to_string()
}

/// The builder's file with one metadata key set to another value.
fn with(key: &str, value: Value) -> GgufBuilder {
    TINY.builder().replace(key, value)
}

#[test]
fn what_a_file_asks_for_and_is_not_supported_is_refused_by_name() {
    let cases = [
        (
            "general.architecture",
            Value::Text("gpt2".to_owned()),
            "architecture \"gpt2\" is not supported",
        ),
        (
            "llama.rope.scaling.type",
            Value::Text("yarn".to_owned()),
            "rope scaling \"yarn\" is not supported",
        ),
        (
            "llama.rope.scaling.factor",
            Value::F32(4.0),
            "rope scaling by 4 is not supported",
        ),
        (
            "llama.rope.scale_linear",
            Value::F32(2.0),
            "rope scaling by 2 is not supported",
        ),
        (
            "llama.attention.sliding_window",
            Value::U32(4096),
            "a sliding window is not supported",
        ),
        (
            "llama.expert_count",
            Value::U32(8),
            "a mixture of experts is not supported",
        ),
        (
            "llama.attention.head_count_kv",
            Value::U32(4),
            "4 key heads do not divide 6 query heads",
        ),
        (
            "llama.rope.dimension_count",
            Value::U32(16),
            "16 is not the head's size 32",
        ),
        (
            "llama.attention.value_length",
            Value::U32(64),
            "64 is not the head's size 32",
        ),
        (
            "llama.attention.head_count",
            Value::U32(0),
            "0 is not from 1 to",
        ),
        (
            "llama.attention.layer_norm_rms_epsilon",
            Value::F32(f32::NAN),
            "NaN is not a positive number",
        ),
        (
            "llama.rope.freq_base",
            Value::F32(-1.0),
            "-1 is not a positive number",
        ),
    ];
    for (key, value, reason) in cases {
        let error = load_error(&with(key, value), &LoadOptions::default());
        assert!(error.contains(&format!("{key}: {reason}")), "{error}");
    }
}

#[test]
fn tensors_that_the_decoder_would_ignore_are_refused_by_name() {
    for name in [
        "rope_freqs.weight",
        "blk.0.attn_q.bias",
        "blk.2.attn_q.weight",
    ] {
        let file = TINY.builder().f32_tensor(name, &[16], &[1.0; 16]);
        let error = load_error(&file, &LoadOptions::default());
        assert!(
            error.contains(&format!("{name}: a tensor that this decoder does not use")),
            "{error}"
        );
    }
}

#[test]
fn a_missing_or_misshapen_tensor_is_named() {
    let deeper = Tiny { layers: 1, ..TINY }
        .builder()
        .replace("llama.block_count", Value::U32(2));
    let error = load_error(&deeper, &LoadOptions::default());
    assert!(error.contains("blk.1.attn_q.weight: missing"), "{error}");

    let wider = with("llama.feed_forward_length", Value::U32(192));
    let error = load_error(&wider, &LoadOptions::default());
    assert!(
        error.contains("blk.0.ffn_gate.weight: axes [96, 160], expected [96, 192]"),
        "{error}"
    );
}

#[test]
fn weights_of_a_kind_without_a_kernel_are_named() {
    let separate = TINY.builder().tensor(
        "output.weight",
        &[96, 75],
        TensorKind::Q5_0,
        vec![0; 75 * 3 * 22],
    );
    let error = load_error(&separate, &LoadOptions::default());
    assert!(
        error.contains("output.weight: weights of kind Q5_0 is not supported"),
        "{error}"
    );
}

#[test]
fn options_that_do_not_fit_the_model_are_refused() {
    let small = LoadOptions {
        kv_bytes: 1000,
        ..LoadOptions::default()
    };
    assert!(
        load_error(&TINY.builder(), &small).starts_with("kv_cache_mb: 1000 bytes hold no block of")
    );
    for context in [0, 513] {
        let options = LoadOptions {
            max_context: Some(context),
            ..LoadOptions::default()
        };
        let error = load_error(&TINY.builder(), &options);
        assert_eq!(
            error,
            format!("max_context: {context} is not from 2 to 512, the model's context")
        );
    }
}

fn tiny() -> CpuRunner {
    let folder = tempfile::tempdir().unwrap();
    runner(Isa::best(), 2, &TINY.builder().write(folder.path()))
}

fn piece(tokens: &[u32], position: usize, blocks: &[u32]) -> Piece {
    Piece {
        tokens: tokens.to_vec(),
        position,
        blocks: blocks.to_vec(),
    }
}

#[test]
fn a_batch_that_cannot_be_computed_is_refused_and_the_runner_stays_usable() {
    let mut runner = tiny();
    let want = bits(&alone(&mut runner, &[1, 2, 3], 0));
    let broken = |change: fn(&mut Batch)| {
        let mut batch = batch(&[piece(&[1, 2], 0, &[0]), piece(&[3], 4, &[1])]);
        change(&mut batch);
        batch
    };
    let cases: [(Batch, &str); 9] = [
        (
            broken(|b| b.tokens[1] = 75),
            "token 75 is outside the vocabulary of 75",
        ),
        (broken(|b| b.tokens.push(1)), "4 tokens for 3 rows"),
        (
            broken(|b| b.logit_rows.push(3)),
            "logits of row 3 in a batch of 3 rows",
        ),
        (
            broken(|b| b.sequences[1].row = 1),
            "sequence 1 starts at row 1, expected 2",
        ),
        (
            broken(|b| b.sequences[1].blocks = 2),
            "the block table of sequence 1 is outside the batch",
        ),
        (
            broken(|b| b.sequences[1].position = 512),
            "sequence 1 has 513 tokens, the context holds 512",
        ),
        (
            broken(|b| b.sequences[1].position = 32),
            "sequence 1 has 1 blocks of 32 tokens for 33 tokens",
        ),
        (
            broken(|b| b.blocks[1].0 = 1 << 30),
            "sequence 1 names the unknown block 1073741824",
        ),
        (
            broken(|b| b.blocks[1].0 = 0),
            "block 0 would be written twice",
        ),
    ];
    for (batch, reason) in cases {
        let error = runner.forward(&batch, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().ends_with(reason), "{error}");
        assert_eq!(bits(&alone(&mut runner, &[1, 2, 3], 0)), want);
    }
}

#[test]
fn only_the_logits_asked_for_are_given() {
    let mut runner = tiny();
    let all = alone(&mut runner, &[5, 6, 7, 8, 9], 0);
    let mut batch = batch(&[piece(&[5, 6, 7, 8, 9], 0, &[3])]);
    batch.logit_rows = vec![1, 4];
    let mut logits = Vec::new();
    runner.forward(&batch, &mut logits).unwrap();
    assert_eq!(logits, [&all[1][..], &all[4][..]].concat());
    batch.logit_rows.clear();
    runner.forward(&batch, &mut logits).unwrap();
    assert!(logits.is_empty());
}
