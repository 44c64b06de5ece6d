//! How fast each weight type runs beside Q4_1, and how far its logits are from those of the same numbers in f32.

mod file;
mod quantise;

use std::path::{Path, PathBuf};

use compere::model::gguf::{GgufFile, TensorKind};
use serde::Deserialize;

use crate::Failure;
use crate::figure::{Bound, Figure, median};
use crate::ours::Ours;
use crate::servers::Folder;

/// What the types are measured with.
pub(crate) struct Options {
    /// The model whose logits are compared.
    pub(crate) model: PathBuf,
    pub(crate) threads: usize,
    /// Alternating runs beside Q4_1; the medians are compared.
    pub(crate) rounds: usize,
    /// Names of the types; all where there are none.
    pub(crate) only: Vec<String>,
}

/// Writes the model in `source` to `target` with every weight matrix stored as `kind`, as far as its rows allow.
pub(crate) fn convert(source: &Path, kind: TensorKind, target: &Path) -> Result<(), Failure> {
    file::convert(source, kind, target)
}

/// Measures the types and prints a line of figures for each as it comes.
pub(crate) fn figures(options: &Options) -> Result<bool, Failure> {
    let folder = Folder::new("types")?;
    let [random, baseline, typed, plain] =
        ["random", "q4_1", "typed", "plain"].map(|name| folder.path().join(format!("{name}.gguf")));
    file::random(&random)?;
    file::convert(&random, TensorKind::Q4_1, &baseline)?;
    let prompts = prompts()?;
    let mut kept = true;
    for (kind, _) in file::TYPES {
        let name = kind.name().to_lowercase();
        if !options.only.is_empty() && !options.only.contains(&name) {
            continue;
        }
        file::convert(&random, kind, &typed)?;
        let [prefill, decode] = speed(options, &baseline, &typed)?;
        file::convert(&options.model, kind, &typed)?;
        file::convert(&typed, TensorKind::F32, &plain)?;
        let stored: Vec<&str> = file::stored(&GgufFile::open(&typed)?)
            .into_iter()
            .map(TensorKind::name)
            .collect();
        let apart = compare(options, &typed, &plain, &prompts)?;
        println!(
            "type {name} logits with {}: the same choice at {} of {} positions",
            stored.join(" and "),
            apart.same,
            apart.positions
        );
        // Floats have no integer kernels.
        let integer = kind.block_elements() > 1;
        let slowest = if integer { 0.2 } else { 0.02 };
        let line = [
            ("prefill_512", prefill, "x", Bound::AtLeast(slowest)),
            ("decode_1_at_512", decode, "x", Bound::AtLeast(slowest)),
            (
                "worst_logit_difference",
                apart.worst,
                "logits",
                Bound::AtMost(8.0),
            ),
            ("worst_cosine", apart.cosine, "cosine", Bound::AtLeast(0.9)),
        ];
        for (what, value, unit, bound) in line {
            let figure = Figure::new(format!("type_{name}_{what}"), value, unit, bound);
            println!("{figure}");
            kept &= figure.holds();
        }
    }
    Ok(kept)
}

/// Ratios of prefill and decode to the baseline.
fn speed(options: &Options, baseline: &Path, typed: &Path) -> Result<[f64; 2], Failure> {
    let mut models = [baseline, typed]
        .map(|path| Ours::load(path, options.threads))
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    let mut samples: [[Vec<f64>; 2]; 2] = Default::default();
    for _ in 0..options.rounds {
        for (model, samples) in models.iter_mut().zip(&mut samples) {
            samples[0].push(model.prefill(512)?);
            samples[1].push(model.decode(1, 512)?);
        }
    }
    let [baseline, typed] = samples.map(|samples| samples.map(median));
    Ok([typed[0] / baseline[0], typed[1] / baseline[1]])
}

/// How far two models' logits are apart.
struct Apart {
    worst: f64,
    /// The least of all positions.
    cosine: f64,
    /// Positions with the same most likely token.
    same: usize,
    positions: usize,
}

fn compare(
    options: &Options,
    typed: &Path,
    plain: &Path,
    prompts: &[Vec<u32>],
) -> Result<Apart, Failure> {
    let logits = |path: &Path| -> Result<Vec<Vec<f32>>, Failure> {
        let mut model = Ours::load(path, options.threads)?;
        let rows = prompts.iter().map(|tokens| model.logits(tokens));
        Ok(rows.collect::<Result<Vec<_>, _>>()?.concat())
    };
    let mut apart = Apart {
        worst: 0.0,
        cosine: 1.0,
        same: 0,
        positions: 0,
    };
    for (typed, plain) in logits(typed)?.iter().zip(&logits(plain)?) {
        let [mut both, mut ours, mut theirs] = [0.0; 3];
        for (a, b) in typed.iter().zip(plain) {
            let (a, b) = (f64::from(*a), f64::from(*b));
            apart.worst = apart.worst.max((a - b).abs());
            both += a * b;
            ours += a * a;
            theirs += b * b;
        }
        apart.cosine = apart.cosine.min(both / (ours * theirs).sqrt());
        apart.same += usize::from(likeliest(typed) == likeliest(plain));
        apart.positions += 1;
    }
    Ok(apart)
}

fn likeliest(logits: &[f32]) -> Option<usize> {
    (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]))
}

#[derive(Deserialize)]
struct Fixture {
    prompts: Vec<Prompt>,
}

#[derive(Deserialize)]
struct Prompt {
    tokens: Vec<u32>,
}

/// Ordinary text in tokens of the default model.
fn prompts() -> Result<Vec<Vec<u32>>, Failure> {
    let fixture: Fixture =
        serde_json::from_str(include_str!("../../../tests/fixtures/logits_smollm2.json"))?;
    Ok(fixture
        .prompts
        .into_iter()
        .map(|prompt| prompt.tokens)
        .collect())
}
