//! Measures compere beside its peers and prints one figure a line.
#![allow(clippy::print_stdout, reason = "its figures are its output")]

mod answers;
mod figure;
mod figures;
mod load;
mod memory;
mod ours;
mod parts;
mod peer;
mod peers;
mod prefix;
mod report;
mod run;
mod scheduler;
mod servers;
mod swap;
mod types;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::figure::{Figure, median};

#[derive(Parser)]
#[command(name = "compere-loadtest", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Speed beside llama.cpp's own tools, load time, memory and prefix reuse; fails when a bound is missed.
    Figures(figures::FiguresArgs),
    /// The avatar scenario beside llama.cpp's server, and every goal; fails when a bound is missed.
    Peers(peers::PeersArgs),
    /// One scenario against a server, in an open loop; fails when a promise of its is not kept.
    Run(run::RunArgs),
    /// Speed of this engine alone, in a closed loop: what a profiler is pointed at.
    Micro(MicroArgs),
    /// Speed of the parts around the model: tokenizer, prompts, segmenter.
    Parts {
        /// Model file.
        #[arg(long)]
        model: PathBuf,
        /// How often each is measured; the median counts.
        #[arg(long, default_value_t = 9)]
        rounds: usize,
    },
    /// What the engine takes between forward passes, whatever is cached and waits; needs no model and no peer.
    Scheduler {
        /// Interleaved runs of each case; the medians are compared.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// How many of sixty viewers' questions are answered rightly with a harness; fails below --least.
    Answers(AnswersArgs),
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
struct AnswersArgs {
    /// A server that runs, such as http://127.0.0.1:8080; one is started where this is left out.
    #[arg(long)]
    url: Option<String>,
    /// The compere program to start.
    #[arg(long, default_value = "compere")]
    server: PathBuf,
    /// Model file that it answers with.
    #[arg(long, required_unless_present = "url")]
    model: Option<PathBuf>,
    /// Compute threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Folder of the harness that answers; its catalog has the facts.
    #[arg(long, default_value = "harness/live-room")]
    harness: PathBuf,
    /// Questions with their checks, a JSON object a line.
    #[arg(long, default_value = "loadtest/answers/questions.jsonl")]
    questions: PathBuf,
    /// Only the persona of the harness, and every fact of the product with each question.
    #[arg(long)]
    plain: bool,
    /// Fewest right answers.
    #[arg(long, default_value_t = 0)]
    least: u32,
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

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Figures(args) => figures::figures(&args).map(|shown| show(&shown)),
        Command::Peers(args) => peers::peers(&args),
        Command::Run(args) => run::run(&args),
        Command::Micro(args) => micro(&args),
        Command::Parts { model, rounds } => {
            parts::figures(&model, rounds).map(|shown| show(&shown))
        }
        Command::Scheduler { rounds } => scheduler::figures(rounds).map(|shown| show(&shown)),
        Command::Answers(args) => answers::figures(&answers::Options {
            url: args.url,
            program: args.server,
            model: args.model.unwrap_or_default(),
            threads: args.threads,
            harness: args.harness,
            questions: args.questions,
            plain: args.plain,
            least: args.least,
        })
        .map(|shown| show(&shown)),
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
            eprintln!("a bound is missed");
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

/// Prints them; whether all keep their bounds.
fn show(figures: &[Figure]) -> bool {
    for figure in figures {
        println!("{figure}");
    }
    figures.iter().all(Figure::holds)
}
