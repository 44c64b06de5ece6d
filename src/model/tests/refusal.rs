//! What cannot be computed is refused by name: files, options and batches.

use compere_cpu::Isa;

use super::tiny::{OTHERS, TINY, Tiny};
use super::{Piece, alone, batch, bits, runner};
use crate::engine::paged::batch::Batch;
use crate::engine::paged::runner::ModelRunner;
use crate::model::gguf::testing::GgufBuilder;
use crate::model::gguf::{Array, TensorKind, Value};
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

/// Each key set to this value is refused, for this reason.
fn refused<const N: usize>(cases: [(&str, Value, &str); N]) {
    for (key, value, reason) in cases {
        let error = load_error(&with(key, value), &LoadOptions::default());
        assert!(error.contains(&format!("{key}: {reason}")), "{error}");
    }
}

#[test]
fn what_a_file_asks_for_and_is_not_supported_is_refused_by_name() {
    refused([
        (
            "general.architecture",
            Value::Text("gpt2".to_owned()),
            "architecture \"gpt2\" is not supported",
        ),
        (
            "general.architecture",
            Value::Text("gemma2".to_owned()),
            "architecture \"gemma2\" is not supported",
        ),
        (
            "llama.rope.scaling.type",
            Value::Text("longrope".to_owned()),
            "rope scaling \"longrope\" is not supported",
        ),
        (
            "llama.rope.scaling.yarn_log_multiplier",
            Value::F32(0.1),
            "a magnitude by layers is not supported",
        ),
        (
            "llama.attn_logit_softcapping",
            Value::F32(50.0),
            "a soft cap on scores is not supported",
        ),
        (
            "llama.final_logit_softcapping",
            Value::F32(30.0),
            "a soft cap on logits is not supported",
        ),
        (
            "llama.attention.causal",
            Value::Bool(false),
            "attention to later tokens is not supported",
        ),
        (
            "llama.logit_scale",
            Value::F32(0.25),
            "scaled logits is not supported",
        ),
        (
            "llama.expert_count",
            Value::U32(8),
            "a mixture of experts is not supported",
        ),
    ]);
}

#[test]
fn values_that_cannot_be_are_refused_by_key() {
    refused([
        (
            "llama.rope.scaling.factor",
            Value::F32(-4.0),
            "-4 is not a positive number",
        ),
        (
            "llama.attention.sliding_window",
            Value::Text("4096".to_owned()),
            "expected an integer",
        ),
        (
            "llama.attention.key_length",
            Value::U32(72),
            "heads of 72; supported are multiples of 16 up to 256",
        ),
        (
            "llama.attention.scale",
            Value::F32(-1.0),
            "-1 is not a positive number",
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
    ]);
}

/// What only some architectures, or only some values beside them, rule out.
#[test]
fn settings_that_do_not_go_together_are_refused_by_name() {
    let [_, qwen2, qwen3, gemma3] = OTHERS.map(Tiny::builder);
    let text = |text: &str| Value::Text(text.to_owned());
    let yarn = TINY
        .builder()
        .replace("llama.rope.scaling.type", text("yarn"));
    let cases = [
        (
            qwen2.replace("qwen2.attention.sliding_window", Value::U32(64)),
            "qwen2.attention.sliding_window: a sliding window of 64 in unstated layers is not supported",
        ),
        (
            qwen3.replace("qwen3.expert_count", Value::U32(8)),
            "qwen3.expert_count: a mixture of experts is not supported",
        ),
        (
            gemma3
                .clone()
                .replace("gemma3.attention.key_length_swa", Value::U32(64)),
            "gemma3.attention.key_length_swa: 64 is not the head's size 32",
        ),
        (
            gemma3.replace(
                "gemma3.attention.sliding_window_pattern",
                Value::Array(Array::Bool(vec![true; 3])),
            ),
            "gemma3.attention.sliding_window_pattern: 3 entries for 7 layers",
        ),
        (yarn.clone(), "llama.rope.scaling.factor: missing"),
        (
            yarn.replace("llama.rope.scaling.factor", Value::F32(2.0))
                .replace("llama.rope.scaling.yarn_ext_factor", Value::F32(0.5)),
            "llama.rope.scaling.yarn_ext_factor: a ramp of 0.5 is not supported",
        ),
        (
            TINY.builder()
                .f32_tensor("rope_freqs.weight", &[15], &[1.0; 15]),
            "rope_freqs.weight: axes [15], expected [16]",
        ),
        (
            TINY.builder()
                .f32_tensor("rope_freqs.weight", &[16], &[0.0; 16]),
            "rope_freqs.weight: 0 is not a positive number",
        ),
    ];
    for (file, reason) in cases {
        let error = load_error(&file, &LoadOptions::default());
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_part_that_the_architecture_has_and_the_file_has_not_is_named() {
    let [_, qwen2, qwen3, gemma3] = OTHERS;
    for (tiny, parts, missing) in [
        (qwen2, [false; 3], "blk.0.attn_q.bias"),
        (qwen3, [false; 3], "blk.0.attn_q_norm.weight"),
        (
            gemma3,
            [false, true, false],
            "blk.0.post_attention_norm.weight",
        ),
    ] {
        let error = load_error(&Tiny { parts, ..tiny }.builder(), &LoadOptions::default());
        assert!(error.contains(&format!("{missing}: missing")), "{error}");
    }
    let excess = Tiny {
        parts: [false, true, false],
        ..TINY
    };
    let error = load_error(&excess.builder(), &LoadOptions::default());
    let reason = "blk.0.attn_q_norm.weight: a tensor that this decoder does not use";
    assert!(error.contains(reason), "{error}");
}

#[test]
fn tensors_that_the_decoder_would_ignore_are_refused_by_name() {
    for name in [
        "rope_factors_long.weight",
        "blk.0.attn_output.bias",
        "blk.1.attn_q.bias",
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
        TensorKind::IQ4_NL,
        vec![0; 75 * 3 * 18],
    );
    let error = load_error(&separate, &LoadOptions::default());
    assert!(
        error.contains("output.weight: weights of kind IQ4_NL is not supported"),
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
    let cases: [(Batch, &str); 10] = [
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
            broken(|b| b.logit_rows = vec![1, 0]),
            "the rows whose logits are wanted are not ascending",
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
