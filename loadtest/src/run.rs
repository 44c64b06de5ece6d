//! `run SCENARIO.toml`: one scenario against one server, each rate in its turn.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::Failure;
use crate::load::arrivals::times;
use crate::load::drive::{Due, open_loop};
use crate::load::progress::{Lines, Progress};
use crate::load::scenario::{Length, Scenario, Swap};
use crate::load::summary::summarise;
use crate::load::target::{Http, Route};
use crate::load::workload::{Language, Workload};
use crate::report::{Report, Request, Stage, line};
use crate::servers::{Folder, Server};

/// Arguments of `run`.
#[derive(Args)]
pub(crate) struct RunArgs {
    /// What to do, such as loadtest/scenarios/avatar.toml.
    scenario: PathBuf,
    /// A server that runs already, such as `http://127.0.0.1:8080`; else one is started.
    #[arg(long, conflicts_with = "server")]
    url: Option<String>,
    /// The compere program to start; the default is the one beside this program.
    #[arg(long)]
    server: Option<PathBuf>,
    /// Model file: what a started server runs, and what counts tokens and renders raw prompts.
    #[arg(long)]
    model: Option<PathBuf>,
    /// Compute threads of a started server.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Folder for report.json and report.html.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Runs it; whether every promise was kept.
pub(crate) fn run(args: &RunArgs) -> Result<bool, Failure> {
    let scenario = Scenario::read(&args.scenario)?;
    let texts = &scenario.texts;
    let in_tokens = |length: Length| matches!(length, Length::Tokens(_));
    let needs_language = scenario.route == Route::Completions
        || in_tokens(texts.harness)
        || in_tokens(texts.room_facts);
    let language = match &args.model {
        Some(model) if needs_language => Some(Language::of(model, args.threads)?),
        _ => None,
    };
    let workload = Workload::new(scenario.route, texts, scenario.seed, language.as_ref())?;
    drop(language);
    let folder = Folder::new("run")?;
    let started = match &args.url {
        Some(_) => None,
        None => Some(start(args, &workload, &folder)?),
    };
    let url = match (&args.url, &started) {
        (Some(url), _) => url.clone(),
        (None, Some(server)) => server.url(),
        (None, None) => unreachable!("without an address a server was started"),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let target = Arc::new(Http::new(&url, scenario.route)?);
    let mut stages = Vec::new();
    for rate in &scenario.rates {
        let run = stage(&scenario, *rate, &target, &workload, &folder);
        let stage = runtime.block_on(run);
        println!("{}", line(&stage));
        for missed in &stage.missed {
            eprintln!("{} at {rate}/s: {missed}", scenario.name);
        }
        stages.push(stage);
    }
    let kept = stages.iter().all(|stage| stage.missed.is_empty());
    let report = Report {
        name: scenario.name,
        notes: vec![format!(
            "{} against {}, seed {}, {} s after {} s of warm-up",
            args.scenario.display(),
            args.url.as_deref().unwrap_or("a server started for it"),
            scenario.seed,
            scenario.duration.as_secs_f64(),
            scenario.warm_up.as_secs_f64(),
        )],
        figures: Vec::new(),
        stages,
    };
    if let Some(out) = &args.out {
        report.write(out)?;
    }
    Ok(kept)
}

/// Starts our server with the scenario's harness as its persona.
fn start(args: &RunArgs, workload: &Workload, folder: &Folder) -> Result<Server, Failure> {
    let program = match &args.server {
        Some(program) => program.clone(),
        None => std::env::current_exe()?.with_file_name("compere"),
    };
    let model = args
        .model
        .as_ref()
        .ok_or("--model must name the model of the server to start")?;
    let settings = harness_settings(folder, workload.harness())?;
    Server::compere(&program, model, args.threads, &settings)
}

/// Writes `persona` as a harness folder, and gives the settings of a server that speaks it.
fn harness_settings(
    folder: &Folder,
    persona: &str,
) -> Result<Vec<(&'static str, String)>, Failure> {
    let harness = harness_folder(folder.path());
    let file = harness.join("prompts/persona.txt");
    std::fs::create_dir_all(harness.join("prompts"))?;
    std::fs::write(harness.join("harness.toml"), "# Made for a load test.\n")?;
    std::fs::write(&file, persona)?;
    let show = |path: &Path| path.display().to_string();
    Ok(vec![
        (
            "COMPERE_HARNESS__DIRECTORY",
            show(&folder.path().join("harness")),
        ),
        ("COMPERE_HARNESS__STATE", show(&folder.path().join("state"))),
        ("COMPERE_HARNESS__PERSONA", show(&file)),
    ])
}

/// Where the harness of a server started here lies in the run's folder.
fn harness_folder(folder: &Path) -> PathBuf {
    folder.join("harness/live-room")
}

/// One rate.
async fn stage(
    scenario: &Scenario,
    rate: f64,
    target: &Arc<Http>,
    workload: &Workload,
    folder: &Folder,
) -> Stage {
    let length = scenario.warm_up + scenario.duration;
    let plan: Vec<Due> = times(&scenario.arrivals, rate, length, scenario.seed)
        .into_iter()
        .enumerate()
        .map(|(index, at)| Due {
            at,
            counted: at >= scenario.warm_up,
            index,
        })
        .collect();
    let progress = Arc::new(Progress::default());
    let lines = Lines::start(&format!("{} at {rate:.2}/s", scenario.name), &progress);
    let swaps = Swaps::start(&scenario.swaps, folder);
    let calls = |index| workload.call(index);
    let records = open_loop(target, &plan, calls, scenario.limits, &progress).await;
    drop(lines);
    let summary = summarise(&records, scenario.duration, &scenario.slo);
    Stage {
        server: "compere".to_owned(),
        rate_per_s: rate,
        missed: scenario.slo.missed(&summary),
        summary,
        marks: swaps.marks(),
        requests: records.iter().map(Request::of).collect(),
    }
}

/// What is done beside the load.
struct Swaps {
    done: Arc<Mutex<Vec<(f64, String)>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Swaps {
    fn start(swaps: &[Swap], folder: &Folder) -> Self {
        let done: Arc<Mutex<Vec<(f64, String)>>> = Arc::default();
        let start = Instant::now();
        let tasks = swaps
            .iter()
            .map(|swap| {
                let (swap, done) = (swap.clone(), Arc::clone(&done));
                let harness = harness_folder(folder.path());
                tokio::spawn(async move {
                    sleep_until(start + Duration::from_secs_f64(swap.at_s)).await;
                    let at = start.elapsed().as_secs_f64();
                    let name = swap.command.join(" ");
                    let ran = tokio::task::spawn_blocking(move || {
                        let mut command = Command::new(&swap.command[0]);
                        command.args(&swap.command[1..]).env("HARNESS", harness);
                        command.status()
                    });
                    let how = match ran.await {
                        Ok(Ok(status)) if status.success() => name,
                        Ok(Ok(status)) => format!("{name}: {status}"),
                        Ok(Err(error)) => format!("{name}: {error}"),
                        Err(error) => format!("{name}: {error}"),
                    };
                    done.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((at, how));
                })
            })
            .collect();
        Self { done, tasks }
    }

    /// What was done so far; what was not yet is given up.
    fn marks(self) -> Vec<(f64, String)> {
        for task in self.tasks {
            task.abort();
        }
        let mut marks = self
            .done
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        marks.sort_by(|a, b| a.0.total_cmp(&b.0));
        marks
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
