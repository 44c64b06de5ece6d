//! Measures compere beside its peers and prints one figure a line.
#![allow(clippy::print_stdout, reason = "its figures are its output")]

mod figure;
mod memory;
mod ours;
mod peer;
mod prefix;
mod scheduler;
mod swap;
mod types;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::figure::{Bound, Figure, median};

#[derive(Parser)]
#[command(name = "compere-loadtest", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Speed beside llama.cpp's own tools, load time, memory and prefix reuse; fails when a bound is missed.
    Figures(FiguresArgs),
    /// Speed of this engine alone, in a closed loop: what a profiler is pointed at.
    Micro(MicroArgs),
    /// What the engine takes between forward passes, whatever is cached and waits; needs no model and no peer.
    Scheduler {
        /// Interleaved runs of each case; the medians are compared.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// What changing a harness costs while viewers are answered; fails when a bound is missed.
    Harness(HarnessArgs),
    /// Speed of each weight type beside Q4_1, and its logits beside those of the same numbers in f32.
    Types(TypesArgs),
}

#[derive(Args)]
struct MicroArgs {
    /// Model file.
    #[arg(long)]
    model: PathBuf,
    /// Compute threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Tokens of the prompt.
    #[arg(long, default_value_t = 512)]
    prefill: usize,
    /// Sequences that decode together after the prompt.
    #[arg(long, default_value_t = 8)]
    streams: usize,
    /// How often each is measured; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

#[derive(Args)]
struct HarnessArgs {
    /// The compere program.
    #[arg(long)]
    server: PathBuf,
    /// GGUF file that it serves.
    #[arg(long)]
    model: PathBuf,
    /// Compute threads of the server.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Swaps with answers on either side of each.
    #[arg(long, default_value_t = 20)]
    swaps: usize,
    /// Answers on either side of all those swaps.
    #[arg(long, default_value_t = 200)]
    answers: usize,
    /// Swaps under load.
    #[arg(long, default_value_t = 200)]
    load_swaps: usize,
}

#[derive(Args)]
struct TypesArgs {
    /// GGUF file whose logits are compared, the default model.
    #[arg(long)]
    model: PathBuf,
    /// Compute threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Alternating runs beside Q4_1; the medians are compared.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Types to measure, such as q5_0; all where none is named.
    only: Vec<String>,
}

#[derive(Args)]
struct FiguresArgs {
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

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Figures(args) => figures(&args),
        Command::Micro(args) => micro(&args),
        Command::Scheduler { rounds } => scheduler::figures(rounds).map(|shown| show(&shown)),
        Command::Harness(args) => swap::figures(&swap::Options {
            server: args.server,
            model: args.model,
            threads: args.threads,
            swaps: args.swaps,
            answers: args.answers,
            load_swaps: args.load_swaps,
        })
        .map(|shown| show(&shown)),
        Command::Types(args) => types::figures(&types::Options {
            model: args.model,
            threads: args.threads,
            rounds: args.rounds,
            only: args.only,
        }),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("a figure misses its bound");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn micro(args: &MicroArgs) -> Result<bool, Failure> {
    let mut ours = ours::Ours::load(&args.model, args.threads)?;
    let (mut prefill, mut decode) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        prefill.push(ours.prefill(args.prefill)?);
        decode.push(ours.decode(args.streams, args.prefill)?);
    }
    println!(
        "speed prefill_{} {:.1} tok/s",
        args.prefill,
        median(prefill)
    );
    println!(
        "speed decode_{}_at_{} {:.1} tok/s",
        args.streams,
        args.prefill,
        median(decode)
    );
    Ok(true)
}

type Failure = Box<dyn std::error::Error>;

fn figures(args: &FiguresArgs) -> Result<bool, Failure> {
    let peer = peer::LlamaCpp::find(&args.peer, &args.model, args.threads)?;
    let mut rounds = Vec::new();
    let mut load_seconds = Vec::new();
    for round in 1..=args.rounds {
        let mut ours = ours::Ours::load(&args.model, args.threads)?;
        load_seconds.push(ours.load_seconds);
        let pair = [
            ("prefill_512", ours.prefill(512)?, peer.prefill(512)?),
            (
                "decode_1_at_512",
                ours.decode(1, 512)?,
                peer.decode_at(512)?,
            ),
            (
                "decode_8_shared_512",
                ours.decode(8, 512)?,
                peer.decode_shared(8, 512)?,
            ),
        ];
        for (name, ours, peer) in pair {
            eprintln!("round {round}: {name}: compere {ours:.1} tok/s, llama.cpp {peer:.1} tok/s");
        }
        rounds.push(pair);
    }

    let mut shown = Vec::new();
    for (index, bound) in [1.5, 1.0, 2.0].into_iter().enumerate() {
        let column = |pick: fn(&(&str, f64, f64)) -> f64| {
            median(rounds.iter().map(|round| pick(&round[index])))
        };
        let (name, ours, peer) = (rounds[0][index].0, column(|row| row.1), column(|row| row.2));
        println!(
            "speed {name} compere {ours:.1} llama.cpp {peer:.1} tok/s (medians of {})",
            args.rounds
        );
        shown.push(Figure::new(
            format!("{name}_ratio"),
            ours / peer,
            "x",
            Bound::AtLeast(bound),
        ));
    }
    shown.push(Figure::new(
        "load_s",
        median(load_seconds),
        "s",
        Bound::AtMost(1.0),
    ));
    let memory = memory::above_weights_and_kv_mb(&args.server, &args.model, args.threads)?;
    shown.push(Figure::new(
        "resident_over_weights_and_kv_mb",
        memory,
        "MB",
        Bound::AtMost(150.0),
    ));
    let share = prefix::second_ttft_share(&args.model, args.threads, args.rounds)?;
    shown.push(Figure::new(
        "second_ttft_share",
        share,
        "share",
        Bound::AtMost(0.10),
    ));

    Ok(show(&shown))
}

/// Prints them; whether all keep their bounds.
fn show(figures: &[Figure]) -> bool {
    for figure in figures {
        println!("{figure}");
    }
    figures.iter().all(Figure::holds)
}
