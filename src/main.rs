//! The program; the only place that exits the process.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    compere::commands::run(compere::cli::Cli::parse())
}
