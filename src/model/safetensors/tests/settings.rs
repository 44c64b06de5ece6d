//! `config.json`: what is taken, what is refused, and under which name.

use super::*;
use crate::model::DecoderSpec;

/// A tiny model, a field of its configuration, the value it gets as JSON, and the reason that is told.
const REFUSED: &[(&str, &str, &str, &str)] = &[
    (
        "llama",
        "architectures",
        r#"["GPT2LMHeadModel"]"#,
        "\"GPT2LMHeadModel\" is not supported; supported are LlamaForCausalLM",
    ),
    (
        "llama",
        "architectures",
        r#"[]"#,
        "a list of 0 that is not one name is not supported",
    ),
    (
        "llama",
        "architectures",
        r#""LlamaForCausalLM""#,
        "expected a list, found a string",
    ),
    ("llama", "architectures", "null", "missing"),
    ("llama", "hidden_size", "null", "missing"),
    (
        "llama",
        "hidden_size",
        r#""32""#,
        "expected an integer of 32 unsigned bits, found a string",
    ),
    (
        "llama",
        "hidden_size",
        r#"32.0"#,
        "expected an integer of 32 unsigned bits, found 32.0",
    ),
    (
        "llama",
        "num_hidden_layers",
        r#"-1"#,
        "expected an integer of 32 unsigned bits, found -1",
    ),
    (
        "llama",
        "num_hidden_layers",
        "4294967296",
        "expected an integer of 32 unsigned bits",
    ),
    (
        "llama",
        "rms_norm_eps",
        r#""x""#,
        "expected a number, found a string",
    ),
    (
        "llama",
        "num_attention_heads",
        r#"0"#,
        "0 heads do not divide a width of 32",
    ),
    (
        "llama",
        "num_attention_heads",
        r#"3"#,
        "3 heads do not divide a width of 32",
    ),
    (
        "llama",
        "attention_bias",
        r#"true"#,
        "attention with biases is not supported",
    ),
    (
        "llama",
        "mlp_bias",
        r#"true"#,
        "a feed-forward layer with biases is not supported",
    ),
    (
        "llama",
        "mlp_bias",
        r#""no""#,
        "expected true or false, found a string",
    ),
    (
        "llama",
        "hidden_act",
        r#""gelu""#,
        "activation \"gelu\" (expected \"silu\") is not supported",
    ),
    (
        "llama",
        "torch_dtype",
        r#""int8""#,
        "weights of type \"int8\" is not supported",
    ),
    (
        "llama",
        "dtype",
        r#""float64""#,
        "weights of type \"float64\" is not supported",
    ),
    (
        "llama",
        "quantization_config",
        r#"{"quant_method": "awq"}"#,
        "a checkpoint that is quantised already is not supported",
    ),
    (
        "llama",
        "num_local_experts",
        r#"8"#,
        "a mixture of experts is not supported",
    ),
    (
        "llama",
        "partial_rotary_factor",
        r#"0.5"#,
        "rotating 0.5 of a head is not supported",
    ),
    (
        "llama",
        "vocab_size",
        r#"65"#,
        "65 where the embedding has 64 rows",
    ),
    (
        "qwen2",
        "layer_types",
        r#"["full_attention", "sliding_attention"]"#,
        "layer 1 of kind",
    ),
    (
        "gemma3",
        "final_logit_softcapping",
        r#"30.0"#,
        "capping logits at 30 is not supported",
    ),
    (
        "gemma3",
        "use_bidirectional_attention",
        r#"true"#,
        "attention in both directions is not supported",
    ),
    (
        "gemma3",
        "rope_local_base_freq",
        r#"5000.0"#,
        "a base of 5000 in layers with a window is not supported",
    ),
    ("gemma3", "sliding_window", "null", "missing"),
    (
        "gemma3",
        "layer_types",
        r#"["full_attention", "sliding_attention", "full_attention"]"#,
        "layer 1 of kind",
    ),
];

#[test]
fn what_would_change_the_result_is_refused_by_its_field() {
    for (model, field, value, reason) in REFUSED {
        let copy = Copy::of(model);
        copy.set(field, serde_json::from_str(value).unwrap());
        let message = copy.refused();
        assert!(
            message.starts_with(&format!("config.json: {field}: {reason}")),
            "{message}"
        );
    }
}

#[test]
fn rope_scaling_is_read_in_every_spelling() {
    let linear = |field: &str, value: Value| {
        let copy = Copy::of("llama-linear");
        copy.set("rope_scaling", Value::Null);
        copy.set(field, value);
        let model = SafetensorsModel::open(copy.path()).unwrap();
        let metadata = model.metadata();
        (
            metadata
                .opt_str("llama.rope.scaling.type")
                .unwrap()
                .map(str::to_owned),
            metadata.opt_f32("llama.rope.scaling.factor").unwrap(),
            metadata.f32("llama.rope.freq_base").unwrap(),
        )
    };
    let expected = (Some("linear".to_owned()), Some(4.0), 10_000.0);
    assert_eq!(
        linear("rope_scaling", json!({"type": "linear", "factor": 4})),
        expected
    );
    assert_eq!(
        linear(
            "rope_scaling",
            json!({"rope_type": "linear", "factor": 4.0})
        ),
        expected
    );
    assert_eq!(
        linear(
            "rope_scaling",
            json!({"rope_type": "linear", "type": "linear", "factor": 4.0})
        ),
        expected
    );
    let new = json!({"rope_type": "linear", "factor": 4.0, "rope_theta": 500_000});
    assert_eq!(
        linear("rope_parameters", new),
        (expected.0, Some(4.0), 500_000.0)
    );
    let plain = json!({"rope_type": "default", "rope_theta": 5.0});
    assert_eq!(linear("rope_parameters", plain), (None, None, 5.0));
}

#[test]
fn rope_parameters_of_both_kinds_of_layers_are_read() {
    let copy = Copy::of("gemma3");
    for field in [
        "rope_scaling",
        "rope_theta",
        "rope_local_base_freq",
        "sliding_window_pattern",
    ] {
        copy.set(field, Value::Null);
    }
    let full = json!({"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6});
    let sliding = json!({"rope_type": "default", "rope_theta": 1e4});
    copy.set(
        "rope_parameters",
        json!({"full_attention": full, "sliding_attention": sliding}),
    );
    copy.set(
        "layer_types",
        json!(["sliding_attention", "full_attention", "sliding_attention"]),
    );
    let model = SafetensorsModel::open(copy.path()).unwrap();
    let old = SafetensorsModel::open(&fixtures().join("gemma3")).unwrap();
    for (key, value) in old
        .metadata()
        .iter()
        .filter(|(key, _)| *key != "general.name")
    {
        assert_eq!(model.metadata().get(key), Some(value), "{key}");
    }
}

#[test]
fn rope_scaling_that_is_not_known_is_refused_by_its_field() {
    let llama3 = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64});
    let with = |field: &str, value: Value| {
        let mut changed = llama3.clone();
        changed[field] = value;
        changed
    };
    let cases = [
        (
            json!({"rope_type": "longrope"}),
            "rope_type: rope scaling \"longrope\" is not supported",
        ),
        (
            json!({"type": "dynamic", "factor": 2.0}),
            "type: rope scaling \"dynamic\" is not supported",
        ),
        (json!({"rope_type": "linear"}), "factor: missing"),
        (
            json!({"rope_type": "linear", "factor": 0}),
            "factor: 0 is not a number from 1 on",
        ),
        (
            json!({"rope_type": "linear", "factor": 1e300}),
            "factor: inf is not a number from 1 on",
        ),
        (
            json!({"rope_type": "linear", "factor": "2"}),
            "factor: expected a number, found a string",
        ),
        (
            json!({"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64, "mscale": 0.7}),
            "mscale: this setting of rope scaling \"yarn\" is not supported",
        ),
        (
            with("high_freq_factor", json!(1.0)),
            "high_freq_factor: 1 is not above low_freq_factor 1",
        ),
        (
            with("low_freq_factor", json!(0)),
            "high_freq_factor: 4 is not above low_freq_factor 0",
        ),
        (
            with("original_max_position_embeddings", Value::Null),
            "original_max_position_embeddings: missing",
        ),
        (json!(["linear"]), ""),
    ];
    for (scaling, reason) in cases {
        let copy = Copy::of("llama-llama3");
        copy.set("rope_scaling", scaling);
        let message = copy.refused();
        let place = if reason.is_empty() {
            "rope_scaling: expected an object"
        } else {
            "rope_scaling."
        };
        assert!(
            message.starts_with(&format!("config.json: {place}{reason}")),
            "{message}"
        );
    }
}

/// What the decoder finds wrong is told by the file and field that it comes from, not by GGUF's.
#[test]
fn absurd_sizes_are_refused_by_their_field_in_the_configuration() {
    for (field, value, reason) in [
        ("num_hidden_layers", json!(0), "0 is not from 1 to"),
        (
            "num_hidden_layers",
            json!(u32::MAX),
            "4294967295 is not from 1 to",
        ),
        (
            "max_position_embeddings",
            json!(u32::MAX),
            "4294967295 is not from 1 to",
        ),
        (
            "intermediate_size",
            json!(1 << 30),
            "1073741824 is not from 1 to",
        ),
        ("num_key_value_heads", json!(0), "0 is not from 1 to"),
        (
            "num_key_value_heads",
            json!(3),
            "3 key heads do not divide 2 query heads",
        ),
        ("rms_norm_eps", json!(0), "0 is not a positive number"),
        ("rope_theta", json!(-1.0), "-1 is not a positive number"),
        ("rope_theta", json!(1e300), "inf is not a positive number"),
        ("head_dim", json!(33), "3"),
    ] {
        let copy = Copy::of("llama-llama3");
        copy.set(field, value);
        let error = match SafetensorsModel::open(copy.path()) {
            Ok(model) => DecoderSpec::read(&model).unwrap_err(),
            Err(error) => error,
        };
        assert!(error.path.starts_with(copy.path()), "{error}");
        let message = error.to_string();
        let place = format!("/config.json: {field}: {reason}");
        let rows = message.contains("rows are not whole heads of an even 33");
        assert!(message.contains(&place) || rows, "{message}");
    }
}

#[test]
fn tied_and_separate_heads_are_told_apart() {
    // The stored head of a tied model only repeats the embedding.
    let copy = Copy::of("llama");
    copy.set("tie_word_embeddings", json!(true));
    assert!(
        SafetensorsModel::open(copy.path())
            .unwrap()
            .tensor("output.weight")
            .is_none()
    );
    let copy = Copy::of("qwen2");
    copy.set("tie_word_embeddings", json!(false));
    assert_eq!(copy.refused(), "model.safetensors: lm_head.weight: missing");
    // Where the file does not say, the architecture does.
    let copy = Copy::of("gemma3");
    copy.set("tie_word_embeddings", Value::Null);
    SafetensorsModel::open(copy.path()).unwrap();
    let copy = Copy::of("qwen2");
    copy.set("tie_word_embeddings", Value::Null);
    assert_eq!(copy.refused(), "model.safetensors: lm_head.weight: missing");
}

#[test]
fn a_configuration_of_the_wrong_form_is_refused() {
    let copy = Copy::of("llama");
    let write = |text: &str| fs::write(copy.path().join("config.json"), text).unwrap();
    for (text, reason) in [
        ("[]", "json: is not an object"),
        ("", "json: EOF while parsing a value at line 1 column 0"),
        ("{\"a\":1,\"a\":2}", "json: key \"a\" occurs twice"),
        ("{\"a\":{\"b\":1,\"b\":2}}", "json: key \"b\" occurs twice"),
        ("{\"a\":NaN}", "json: expected value"),
        ("{\"a\":1e999}", "json: number out of range"),
    ] {
        write(text);
        let message = copy.refused();
        assert!(
            message.starts_with(&format!("config.json: {reason}")),
            "{message}"
        );
    }
    write(&" ".repeat(300_000));
    assert_eq!(
        copy.refused(),
        "config.json: file: 300000 bytes, more than the 262144 that are read"
    );
}

#[test]
fn a_tensor_of_another_type_is_refused_by_name() {
    let copy = Copy::of("llama");
    let header = r#"{"model.norm.weight":{"dtype":"F8_E4M3","shape":[32],"data_offsets":[0,32]}}"#;
    fs::write(copy.path().join("model.safetensors"), file(header, 32)).unwrap();
    assert_eq!(
        copy.refused(),
        "model.safetensors: model.norm.weight: weights of type F8_E4M3 is not supported"
    );
    let header = r#"{"model.norm.weight":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}"#;
    fs::write(copy.path().join("model.safetensors"), file(header, 0)).unwrap();
    assert_eq!(
        copy.refused(),
        "model.safetensors: model.norm.weight: an axis of [0] is zero"
    );
}
