//! One file per verb of the command line: thin, and the only code that prints for people.
#![allow(clippy::print_stdout, reason = "commands are what prints")]

mod chat;
mod harness;
mod model;
mod sample;
mod serve;

use std::error::Error;
use std::io;
use std::process::ExitCode;

use crate::cli::{Cli, Command};

/// Anything that ends a command.
type Failure = Box<dyn Error + Send + Sync>;

/// Runs what was asked for. A failure is printed on standard error, one line a cause, and gives exit code 1.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    let result = match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Chat(args) => chat::run(&args),
        Command::Model(command) => model::run(&command),
        Command::Harness(command) => harness::run(command),
        Command::MetricsDoc => {
            print!("{}", crate::telemetry::metrics_doc());
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has enough of it, as `head` does.
        Err(failure) if is_closed_pipe(failure.as_ref()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(failure.as_ref());
            ExitCode::FAILURE
        }
    }
}

/// Prints the causes, outermost first, each once: an error that only passes its cause on adds no line.
fn complain(failure: &(dyn Error + 'static)) {
    let mut last = String::new();
    let mut cause = Some(failure);
    while let Some(error) = cause {
        let text = error.to_string();
        if !last.contains(&text) {
            text.lines().for_each(|line| eprintln!("error: {line}"));
        }
        last = text;
        cause = error.source();
    }
}

fn is_closed_pipe(failure: &(dyn Error + 'static)) -> bool {
    let error = failure.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
