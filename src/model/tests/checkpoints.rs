//! Folders with safetensors compute what the GGUF files made of them compute.

use std::fs;

use compere_cpu::Isa;
use serde_json::{Value, json};

use super::architectures::{MODELS, folder};
use super::{alone, bits, runner};
use crate::model::checkpoint::Checkpoint;
use crate::model::decoder::DecoderSpec;
use crate::model::load::runner as runner_of;
use crate::model::quantise::{Quantise, Quantised};
use crate::model::safetensors::SafetensorsModel;
use crate::model::{CpuRunner, LoadOptions, load};

const TOKENS: [u32; 12] = [3, 15, 41, 17, 7, 11, 29, 61, 43, 39, 49, 9];

fn options() -> LoadOptions {
    LoadOptions {
        threads: Some(2),
        kv_bytes: 8 << 20,
        ..LoadOptions::default()
    }
}

fn built(file: &dyn Checkpoint) -> CpuRunner {
    let spec = DecoderSpec::read(file).unwrap();
    runner_of(Isa::best(), file, &spec, &options()).unwrap()
}

#[test]
fn logits_are_those_of_the_gguf_file() {
    for name in MODELS {
        let mut gguf = runner(Isa::best(), 2, &folder(name).join("model.gguf"));
        let model = SafetensorsModel::open(&folder(name)).unwrap();
        assert_eq!(
            bits(&alone(&mut built(&model), &TOKENS, 0)),
            bits(&alone(&mut gguf, &TOKENS, 0)),
            "{name}"
        );
    }
}

/// Random weights lose more in few bits than trained ones; what matters is that it is the same model, and that more
/// bits are closer.
#[test]
fn a_quantised_model_is_near_the_plain_one() {
    for name in MODELS {
        let model = SafetensorsModel::open(&folder(name)).unwrap();
        let plain = alone(&mut built(&model), &TOKENS, 0);
        let worst = |quantise| {
            let shown = Quantised::new(&model, quantise).unwrap();
            let rows = alone(&mut built(&shown), &TOKENS, 0);
            let cosines = rows
                .iter()
                .zip(&plain)
                .map(|(a, b)| super::agreement::cosine(a, b));
            cosines.fold(1.0_f64, f64::min)
        };
        let [eight, four] = [Quantise::Q8_0, Quantise::Q4_1].map(worst);
        assert!(
            eight > 0.95 && eight > four && four > 0.4,
            "{name}: {eight} {four}"
        );
    }
}

/// A folder that `load` takes: the weights of a fixture, a vocabulary of bytes, a template.
fn whole(name: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        fs::copy(folder(name).join(file), copy.path().join(file)).unwrap();
    }
    let mut vocab = serde_json::Map::new();
    for (id, letter) in ('!'..='~').take(60).enumerate() {
        vocab.insert(letter.to_string(), json!(id));
    }
    let added = |id: u32, text: &str| json!({"id": id, "content": text, "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false});
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [added(60, "<s>"), added(61, "<|im_end|>"), added(62, "<stop>")],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": vocab, "merges": []}
    });
    write(&copy, "tokenizer.json", &tokenizer);
    let config =
        json!({"bos_token": "<s>", "eos_token": {"content": "<|im_end|>"}, "chat_template": "old"});
    write(&copy, "tokenizer_config.json", &config);
    copy
}

fn write(folder: &tempfile::TempDir, name: &str, value: &Value) {
    fs::write(folder.path().join(name), value.to_string()).unwrap();
}

fn refused(folder: &tempfile::TempDir) -> String {
    let error = load(folder.path(), &options())
        .map(drop)
        .unwrap_err()
        .to_string();
    let start = format!("{}/", folder.path().display());
    error.strip_prefix(&start).unwrap_or(&error).to_owned()
}

#[test]
fn a_folder_is_loaded_with_its_vocabulary_and_template() {
    let folder = whole("llama-llama3");
    let model = load(folder.path(), &options()).unwrap();
    assert_eq!(model.chat_template.as_deref(), Some("old"));
    assert_eq!(
        (model.tokenizer.bos, model.tokenizer.eos),
        (Some(60), Some(61))
    );
    // config.json names 2.
    assert_eq!(model.tokenizer.ends, [2]);
    assert_eq!(
        Some(&*model.name),
        folder.path().file_name().and_then(|name| name.to_str())
    );

    write(
        &folder,
        "generation_config.json",
        &json!({"eos_token_id": [61, 62]}),
    );
    fs::write(folder.path().join("chat_template.jinja"), "new").unwrap();
    let model = load(folder.path(), &options()).unwrap();
    assert_eq!(model.chat_template.as_deref(), Some("new"));
    assert_eq!(
        (model.tokenizer.eos, &model.tokenizer.ends[..]),
        (Some(61), &[62][..])
    );
}

/// A mark for images, say, that a text model's tokenizer has and its embedding has not.
#[test]
fn an_added_token_without_a_row_is_no_token() {
    let folder = whole("llama-llama3");
    let path = folder.path().join("tokenizer.json");
    let mut tokenizer: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let added = tokenizer["added_tokens"].as_array_mut().unwrap();
    for id in [63, 64, 65] {
        let mut token = added[0].clone();
        token["id"] = json!(id);
        token["content"] = json!(format!("<{id}>"));
        added.push(token);
    }
    write(&folder, "tokenizer.json", &tokenizer);
    let model = load(folder.path(), &options()).unwrap();
    assert_eq!(model.tokenizer.tokens.len(), 64);
    assert_eq!(model.tokenizer.tokens[63], "<63>");
    // A turn cannot end with it either.
    write(
        &folder,
        "generation_config.json",
        &json!({"eos_token_id": 64}),
    );
    assert!(refused(&folder).contains("token 64 is outside the vocabulary of 64"));
}

#[test]
fn faults_beside_the_weights_are_named_by_file_and_field() {
    let cases: [(&str, Value, &str); 6] = [
        (
            "generation_config.json",
            json!({"eos_token_id": 63}),
            "eos_token_id: token 63 is outside the vocabulary of 63",
        ),
        (
            "generation_config.json",
            json!({"eos_token_id": "</s>"}),
            "eos_token_id: expected a token id or a list of them, found a string",
        ),
        (
            "tokenizer_config.json",
            json!({"eos_token": "<none>"}),
            "eos_token: ",
        ),
        (
            "tokenizer_config.json",
            json!({"chat_template": 1}),
            "chat_template: ",
        ),
        ("tokenizer.json", json!({}), ""),
        ("config.json", json!({}), "architectures: missing"),
    ];
    for (name, value, reason) in cases {
        let folder = whole("llama-llama3");
        write(&folder, name, &value);
        let message = refused(&folder);
        assert!(
            message.starts_with(&format!("{name}: {reason}")),
            "{message}"
        );
    }
    let folder = whole("llama-llama3");
    fs::write(folder.path().join("chat_template.jinja"), [0xff]).unwrap();
    assert!(refused(&folder).starts_with("chat_template.jinja: template: not UTF-8"));
    fs::remove_file(folder.path().join("tokenizer.json")).unwrap();
    assert_eq!(refused(&folder), "tokenizer.json: file: missing");
    fs::write(folder.path().join("tokenizer.model"), "").unwrap();
    assert!(refused(&folder).contains("tokenizer.model alone is not supported"));
}

#[test]
fn a_matrix_of_another_shape_is_named_as_the_checkpoint_names_it() {
    let folder = whole("llama-llama3");
    let path = folder.path().join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    config["intermediate_size"] = json!(96);
    write(&folder, "config.json", &config);
    let message = refused(&folder);
    assert!(message.starts_with("model.safetensors: model.layers.0.mlp.gate_proj.weight: axes [32, 64], expected [32, 96]"), "{message}");
    config["num_hidden_layers"] = json!(2);
    config["intermediate_size"] = json!(64);
    write(&folder, "config.json", &config);
    let message = refused(&folder);
    assert!(
        message.starts_with("model.safetensors: model.layers.1."),
        "{message}"
    );
    assert!(message.ends_with("missing"), "{message}");
}

#[test]
fn a_gguf_file_of_quantised_weights_is_not_quantised_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = super::tiny::TINY.builder().write(folder.path());
    let again = LoadOptions {
        quantise: Some(Quantise::Q8_0),
        ..options()
    };
    let error = load(&path, &again).map(drop).unwrap_err().to_string();
    assert!(
        error.contains("quantising weights of kind Q8_0 to q8_0 is not supported"),
        "{error}"
    );
}
