//! `peers`: the avatar scenario beside llama.cpp's server, token for token the same prompts, and a figure for every goal.

mod best;
mod load;
mod plan;

use std::path::{Path, PathBuf};

use clap::Args;
use compere::model::gguf::TensorKind;

use self::load::{Load, Side};
use self::plan::Plan;
use crate::figure::{Bound, Figure, median};
use crate::figures::{SPEEDS, own, speeds};
use crate::load::scenario::{Length, Texts};
use crate::load::workload::Language;
use crate::peer::LlamaCpp;
use crate::report::{Report, Stage, line};
use crate::servers::{Folder, Server};
use crate::{Failure, show, types};

/// Arguments of `peers`.
#[derive(Args)]
pub(crate) struct PeersArgs {
    /// Folder of llama.cpp's tools, see `make peers`.
    #[arg(long)]
    peer: PathBuf,
    /// The compere program.
    #[arg(long)]
    server: PathBuf,
    /// GGUF file that both sides run.
    #[arg(long)]
    model: PathBuf,
    /// Compute threads of both sides.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// About 3 minutes instead of 15: fewer rounds, shorter, llama-server at the flags that were best before.
    #[arg(long)]
    quick: bool,
    /// llama-server's flags, in the place of the best of a few; `-np` and `-c` among them.
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    peer_flags: Option<String>,
    /// Only the scenario: no kernels, no memory.
    #[arg(long)]
    scenario_only: bool,
    /// Folder for report.json and report.html.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Tokens of the harness that every request begins with, of what is known in one room, and of an answer.
const HARNESS: usize = 1600;
const ROOM: usize = 300;
const ANSWER: usize = 48;
const ROOMS: usize = 8;
const COMMENT_WORDS: usize = 28;
/// Load at which latency is compared.
const SHARE: f64 = 0.7;

/// Runs it; whether every bound is kept.
pub(crate) fn peers(args: &PeersArgs) -> Result<bool, Failure> {
    let plan = if args.quick { plan::QUICK } else { plan::FULL };
    let mut shown = Vec::new();
    if !args.scenario_only {
        shown.extend(kernels(args, &plan)?);
    }
    let mut stages = Vec::new();
    let flags = scenario(args, &plan, &mut shown, &mut stages)?;
    shown.extend(growth(args, &plan)?);
    let kept = show(&shown);
    if let Some(out) = &args.out {
        let report = Report {
            name: "The avatar scenario, beside llama.cpp's server".to_owned(),
            notes: vec![
                format!(
                    "{HARNESS} tokens of shared harness, {ROOM} of one of {ROOMS} rooms, a comment of {COMMENT_WORDS} \
                     words, {ANSWER} tokens of answer; {} threads on both sides.",
                    args.threads
                ),
                format!("llama-server {flags}"),
            ],
            figures: shown.iter().map(ToString::to_string).collect(),
            stages,
        };
        report.write(out)?;
    }
    Ok(kept)
}

/// Texts of the scenario with a harness of so many tokens.
fn texts(harness: usize) -> Texts {
    Texts {
        harness: Length::Tokens(harness),
        rooms: ROOMS,
        room_facts: Length::Tokens(ROOM),
        comment_words: COMMENT_WORDS,
        answer_tokens: ANSWER,
        ..Texts::default()
    }
}

/// Prefill, decode, memory and prefix reuse.
fn kernels(args: &PeersArgs, plan: &Plan) -> Result<Vec<Figure>, Failure> {
    let peer = LlamaCpp::find(&args.peer, &args.model, args.threads)?;
    let same = speeds(&peer, &args.model, args.threads, plan.kernel_rounds)?;
    let mut shown = Vec::new();
    let bounds = [(3.0, 5.0), (1.3, 1.6), (3.0, 5.0)];
    for ((name, ratio), (must, aim)) in SPEEDS.iter().zip(same.ratios).zip(bounds) {
        let name = format!("{name}_ratio");
        shown.push(Figure::new(name, ratio, "x", Bound::AtLeast(must)).aiming(aim));
    }
    let best = best_quantisation(args, plan)?;
    let figure = Figure::new(
        "prefill_512_best_quant_ratio",
        same.prefill / best,
        "x",
        Bound::AtLeast(1.2),
    );
    shown.push(figure.aiming(2.0));
    shown.extend(own(
        &args.server,
        &args.model,
        args.threads,
        plan.kernel_rounds,
    )?);
    Ok(shown)
}

/// Tokens a second of llama.cpp's prefill with the fastest of the types that it has its best kernels for.
fn best_quantisation(args: &PeersArgs, plan: &Plan) -> Result<f64, Failure> {
    let folder = Folder::new("quants")?;
    let mut best = 0.0_f64;
    for kind in [TensorKind::Q4_0, TensorKind::Q8_0] {
        let path = folder.path().join("model.gguf");
        types::convert(&args.model, kind, &path)?;
        let peer = LlamaCpp::find(&args.peer, &path, args.threads)?;
        let mut rounds = Vec::new();
        for _ in 0..plan.kernel_rounds {
            rounds.push(peer.prefill(512)?);
        }
        let speed = median(rounds);
        println!(
            "speed prefill_512 llama.cpp as {} {speed:.1} tok/s",
            kind.name()
        );
        best = best.max(speed);
    }
    Ok(best)
}

/// Capacity, latency and the curve; gives the peer's flags.
fn scenario(
    args: &PeersArgs,
    plan: &Plan,
    shown: &mut Vec<Figure>,
    stages: &mut Vec<Stage>,
) -> Result<String, Failure> {
    let language = Language::of(&args.model, args.threads)?;
    let mut peer = best::start(args, plan, &language)?;
    let flags = peer.flags.clone();
    let mut ours = Side::start("compere", start_ours(args)?, &texts(HARNESS), &language)?;
    ours.warm(2 * ROOMS)?;

    let (mut own, mut theirs) = (Vec::new(), Vec::new());
    for round in 1..=plan.capacity_rounds {
        own.push(ours.capacity(plan.capacity_s)?);
        theirs.push(peer.side.capacity(plan.capacity_s)?);
        eprintln!(
            "round {round}: capacity: compere {:.2} answers/s, llama-server {:.2}",
            own[round - 1],
            theirs[round - 1]
        );
    }
    let (own, theirs) = (median(own), median(theirs));
    println!("speed avatar_answers compere {own:.3} llama-server {theirs:.3} answers/s");
    shown.push(
        Figure::new(
            "avatar_answers_ratio",
            own / theirs,
            "x",
            Bound::AtLeast(4.0),
        )
        .aiming(10.0),
    );

    let rate = SHARE * theirs;
    let mut loads = [
        ours.open(rate, plan.open_s, 0)?,
        peer.side.open(rate, plan.open_s, 0)?,
    ];
    for round in 1..plan.open_rounds {
        loads[0].add(ours.open(rate, plan.open_s, round)?);
        loads[1].add(peer.side.open(rate, plan.open_s, round)?);
    }
    let at_theirs = loads.map(Load::stage);
    let at_own = ours.open(SHARE * own, plan.own_s, 0)?.stage();
    let p95 = |stage: &Stage| stage.summary.first_segment_ms.p95.unwrap_or(f64::NAN);
    let ratio = p95(&at_theirs[1]) / p95(&at_theirs[0]);
    let figure = Figure::new(
        "avatar_first_segment_p95_ratio",
        ratio,
        "x",
        Bound::AtLeast(4.0),
    );
    shown.push(figure.aiming(10.0));
    let figure = Figure::new(
        "avatar_first_segment_p95_s",
        p95(&at_own) / 1e3,
        "s",
        Bound::AtMost(1.0),
    );
    shown.push(figure.aiming(0.5));
    stages.extend(at_theirs);
    stages.push(at_own);
    for stage in &*stages {
        println!("{}", line(stage));
    }
    for share in plan.curve {
        for (side, capacity) in [(&mut ours, own), (&mut peer.side, theirs)] {
            let stage = side.open(share * capacity, plan.curve_s, 0)?.stage();
            println!("{} ({:.0} % of its capacity)", line(&stage), share * 100.0);
            stages.push(stage);
        }
    }
    Ok(flags)
}

fn start_ours(args: &PeersArgs) -> Result<Server, Failure> {
    Server::compere(&args.server, &args.model, args.threads, &[])
}

/// What an answer costs as the harness grows.
fn growth(args: &PeersArgs, plan: &Plan) -> Result<Vec<Figure>, Failure> {
    let language = Language::of(&args.model, args.threads)?;
    let mut costs = Vec::new();
    for harness in plan.harness {
        let mut side = Side::start("compere", start_ours(args)?, &texts(*harness), &language)?;
        side.warm(2 * ROOMS)?;
        costs.push((*harness, 1.0 / side.capacity(plan.growth_s)?));
    }
    let figures = costs.iter().map(|(harness, cost)| {
        let name = format!("answer_cost_harness_{harness}_tokens");
        Figure::unbound(name, *cost, "s/answer")
    });
    let mut figures: Vec<Figure> = figures.collect();
    if let (Some((_, least)), Some((_, most))) = (costs.first(), costs.last()) {
        figures.push(Figure::unbound("answer_cost_growth", most / least, "x"));
    }
    Ok(figures)
}

/// Where llama-server lies.
fn llama_server(folder: &Path) -> PathBuf {
    let built = folder.join("llama-server");
    if built.exists() {
        built
    } else {
        PathBuf::from("llama-server")
    }
}
