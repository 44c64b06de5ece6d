//! Our runner beside llama.cpp's own benchmark tools, and what our server needs: load time, memory, prefix reuse.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::Failure;
use crate::figure::{Bound, Figure, median};
use crate::{memory, ours, peer, prefix};

/// Arguments of `figures`.
#[derive(Args)]
pub(crate) struct FiguresArgs {
    /// Folder of llama-bench and llama-batched-bench; the PATH is searched where it has none.
    #[arg(long)]
    peer: PathBuf,
    /// The compere program whose memory is measured.
    #[arg(long)]
    server: PathBuf,
    /// GGUF file that both sides run.
    #[arg(long)]
    model: PathBuf,
    /// Compute threads of both sides.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Interleaved runs of each side; the medians are compared.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// Names of what is measured on both sides.
pub(crate) const SPEEDS: [&str; 3] = ["prefill_512", "decode_1_at_512", "decode_8_shared_512"];

/// The figures with the bounds that every change must keep.
pub(crate) fn figures(args: &FiguresArgs) -> Result<Vec<Figure>, Failure> {
    let peer = peer::LlamaCpp::find(&args.peer, &args.model, args.threads)?;
    let speeds = speeds(&peer, &args.model, args.threads, args.rounds)?;
    let mut shown = Vec::new();
    for ((name, ratio), bound) in SPEEDS.iter().zip(speeds.ratios).zip([1.5, 1.0, 2.0]) {
        shown.push(Figure::new(
            format!("{name}_ratio"),
            ratio,
            "x",
            Bound::AtLeast(bound),
        ));
    }
    shown.push(Figure::new(
        "load_s",
        speeds.load_seconds,
        "s",
        Bound::AtMost(1.0),
    ));
    shown.extend(own(&args.server, &args.model, args.threads, args.rounds)?);
    Ok(shown)
}

/// What both sides do in one run, side by side.
pub(crate) struct Speeds {
    /// Ours over the peer's, as in [`SPEEDS`].
    pub(crate) ratios: [f64; 3],
    /// Tokens a second of our prefill.
    pub(crate) prefill: f64,
    /// Loading the model.
    pub(crate) load_seconds: f64,
}

/// Medians of interleaved rounds; prints the speeds as they come.
pub(crate) fn speeds(
    peer: &peer::LlamaCpp,
    model: &Path,
    threads: usize,
    rounds: usize,
) -> Result<Speeds, Failure> {
    let mut samples: [[Vec<f64>; 2]; 3] = Default::default();
    let mut load_seconds = Vec::new();
    for round in 1..=rounds {
        let mut ours = ours::Ours::load(model, threads)?;
        load_seconds.push(ours.load_seconds);
        let pairs = [
            [ours.prefill(512)?, peer.prefill(512)?],
            [ours.decode(1, 512)?, peer.decode_at(512)?],
            [ours.decode(8, 512)?, peer.decode_shared(8, 512)?],
        ];
        for ((name, [ours, peer]), samples) in SPEEDS.iter().zip(pairs).zip(&mut samples) {
            eprintln!("round {round}: {name}: compere {ours:.1} tok/s, llama.cpp {peer:.1} tok/s");
            samples[0].push(ours);
            samples[1].push(peer);
        }
    }
    let medians = samples.map(|pair| pair.map(median));
    for (name, [ours, peer]) in SPEEDS.iter().zip(medians) {
        println!("speed {name} compere {ours:.1} llama.cpp {peer:.1} tok/s (medians of {rounds})");
    }
    Ok(Speeds {
        ratios: medians.map(|[ours, peer]| ours / peer),
        prefill: medians[0][0],
        load_seconds: median(load_seconds),
    })
}

/// What only we are measured for: memory and prefix reuse, with bounds and aims.
pub(crate) fn own(
    server: &Path,
    model: &Path,
    threads: usize,
    rounds: usize,
) -> Result<[Figure; 2], Failure> {
    let memory = memory::above_weights_and_kv_mb(server, model, threads)?;
    let share = prefix::second_ttft_share(model, threads, rounds)?;
    Ok([
        Figure::new(
            "resident_over_weights_and_kv_mb",
            memory,
            "MB",
            Bound::AtMost(150.0),
        )
        .aiming(80.0),
        // The new tokens' own cost is 30 of 1,530.
        Figure::new("second_ttft_share", share, "share", Bound::AtMost(0.10)).aiming(0.02),
    ])
}
