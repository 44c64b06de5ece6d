//! How fast each weight type runs beside Q4_1, and how far its logits are from those of the same numbers in f32.

mod file;
mod quantise;
mod random;

use std::path::{Path, PathBuf};

use compere::model::gguf::TensorKind;
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

/// Measures the types and prints figures for each as they come: the default model's logits, then speed and logits of a
/// random model of every architecture.
pub(crate) fn figures(options: &Options) -> Result<bool, Failure> {
    let folder = Folder::new("types")?;
    let paths = Paths {
        typed: folder.path().join("typed.gguf"),
        plain: folder.path().join("plain.gguf"),
    };
    let mut measured: Vec<TensorKind> = file::TYPES.iter().map(|(kind, _)| *kind).collect();
    if !options.only.is_empty() {
        measured.retain(|kind| options.only.contains(&kind.name().to_lowercase()));
    }
    let mut kept = true;
    let prompts = prompts()?;
    for kind in &measured {
        let apart = apart(options, &options.model, *kind, &paths, &prompts)?;
        kept &= apart.show(&format!("type_{}", kind.name().to_lowercase()));
    }
    let prompts = random::prompts();
    for architecture in random::ARCHITECTURES {
        let [source, baseline] =
            ["random", "q4_1"].map(|name| folder.path().join(format!("{name}.gguf")));
        random::write(architecture, &source)?;
        file::convert(&source, TensorKind::Q4_1, &baseline)?;
        for kind in &measured {
            let name = format!("type_{}_{}", kind.name().to_lowercase(), architecture.name);
            let apart = apart(options, &source, *kind, &paths, &prompts)?;
            kept &= apart.show(&name);
            let ratios = speed(options, &baseline, &paths.typed)?;
            // Floats have no integer kernels.
            let integer = kind.block_elements() > 1;
            let slowest = Bound::AtLeast(if integer { 0.2 } else { 0.02 });
            for (what, ratio) in ["prefill_512", "decode_1_at_512"].iter().zip(ratios) {
                kept &= show(Figure::new(format!("{name}_{what}"), ratio, "x", slowest));
            }
        }
    }
    Ok(kept)
}

fn show(figure: Figure) -> bool {
    println!("{figure}");
    figure.holds()
}

/// Files that are written anew for every type.
struct Paths {
    typed: PathBuf,
    plain: PathBuf,
}

/// How far the model in `source`, written as `kind`, is from the same numbers written as F32.
fn apart(
    options: &Options,
    source: &Path,
    kind: TensorKind,
    paths: &Paths,
    prompts: &[Vec<u32>],
) -> Result<Apart, Failure> {
    file::convert(source, kind, &paths.typed)?;
    file::convert(&paths.typed, TensorKind::F32, &paths.plain)?;
    compare(options, &paths.typed, &paths.plain, prompts)
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
    /// Root of the mean square of the reference's logits about their mean, which `worst` is to be seen beside.
    spread: f64,
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
    let mut squares = 0.0;
    let mut apart = Apart {
        worst: 0.0,
        spread: 0.0,
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
        let count = plain.len() as f64;
        let mean = plain.iter().map(|x| f64::from(*x)).sum::<f64>() / count;
        squares += theirs / count - mean * mean;
        apart.cosine = apart.cosine.min(both / (ours * theirs).sqrt());
        apart.same += usize::from(likeliest(typed) == likeliest(plain));
        apart.positions += 1;
    }
    apart.spread = (squares / apart.positions as f64).sqrt();
    Ok(apart)
}

impl Apart {
    /// Prints it; whether it keeps its bounds.
    fn show(&self, name: &str) -> bool {
        println!(
            "logits {name}: spread {:.2}, the same choice at {} of {} positions",
            self.spread, self.same, self.positions
        );
        let worst = Bound::AtMost(8.0);
        let cosine = Bound::AtLeast(0.9);
        let kept = show(Figure::new(
            format!("{name}_worst_logit_difference"),
            self.worst,
            "logits",
            worst,
        ));
        let cosines = format!("{name}_worst_cosine");
        show(Figure::new(cosines, self.cosine, "cosine", cosine)) && kept
    }
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
