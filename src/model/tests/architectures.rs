//! Every architecture agrees with transformers on tiny random models, whose numbers f16 holds exactly.

use std::path::PathBuf;

use compere_cpu::Isa;
use serde::Deserialize;

use super::agreement::cosine;
use super::{alone, runner};

/// Folders of tests/fixtures/tiny.
pub(super) const MODELS: [&str; 8] = [
    "llama",
    "llama-linear",
    "llama-llama3",
    "llama-yarn",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma3",
];

#[derive(Deserialize)]
struct Expected {
    tokens: Vec<u32>,
    logits: Vec<Vec<f32>>,
}

pub(super) fn folder(model: &str) -> PathBuf {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tiny");
    PathBuf::from(fixtures).join(model)
}

/// Products with these weights are exact but for the order of sums; keys and values are half floats. Measured: the worst
/// cosine is 1 - 2.5e-6, and no logit, of a spread of 1.6, is off by more than 0.01. A window that is off by one, another
/// base or another scale of scores puts the cosine below 0.999.
#[test]
fn logits_are_those_of_transformers() {
    for model in MODELS {
        let folder = folder(model);
        let expected = std::fs::read_to_string(folder.join("expected.json")).unwrap();
        let expected: Expected = serde_json::from_str(&expected).unwrap();
        let mut runner = runner(Isa::best(), 2, &folder.join("model.gguf"));
        let got = alone(&mut runner, &expected.tokens, 0);
        assert_eq!(got.len(), expected.logits.len());
        for (position, (got, want)) in got.iter().zip(&expected.logits).enumerate() {
            let cosine = cosine(got, want);
            assert!(cosine > 1.0 - 1e-5, "{cosine} at {position} of {model}");
            let apart = got.iter().zip(want).map(|(a, b)| (a - b).abs());
            let largest = apart.fold(0.0, f32::max);
            assert!(largest < 0.02, "{largest} at {position} of {model}");
        }
    }
}
