//! `compere model`: fetches a model into the cache, or describes one.

use super::Failure;
use crate::app;
use crate::cli::ModelCommand;
use crate::config;
use crate::model;

pub(super) fn run(command: &ModelCommand) -> Result<(), Failure> {
    match command {
        ModelCommand::Fetch { config } => {
            let config = config::load(config)?;
            println!("{}", app::fetch_model(&config.model)?.display());
        }
        ModelCommand::Inspect { path } => {
            print!("{}", model::describe(path)?)
        }
    }
    Ok(())
}
