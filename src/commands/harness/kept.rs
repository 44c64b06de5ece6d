//! `compere harness history | promote | rollback`: the kept states, with or without a server running beside.

use super::Failure;
use crate::cli::StoreArgs;
use crate::config::{self, Config};
use crate::harness::store::{Action, Store};
use crate::harness::{self, Version};

/// Fewest digits that may stand for a version.
const DIGITS: usize = 6;

/// The store of one harness.
pub(super) struct Place {
    pub(super) store: Store,
    pub(super) name: String,
    config: Config,
}

impl Place {
    pub(super) fn open(args: &StoreArgs) -> Result<Self, Failure> {
        let config = config::load(&args.config)?;
        let name = args
            .name
            .clone()
            .unwrap_or_else(|| config.harness.default.clone());
        let state = config
            .harness
            .state
            .clone()
            .ok_or("harness.state: is not set, and there is no home folder")?;
        let dir = state.join(&name);
        if !dir.is_dir() {
            return Err(format!("{}: nothing is kept of harness {name:?}", dir.display()).into());
        }
        Ok(Self {
            store: Store::open(dir)?,
            name,
            config,
        })
    }

    /// The version that a text stands for.
    pub(super) fn version(&self, text: &str) -> Result<Version, Failure> {
        if let Ok(version) = text.parse() {
            return Ok(version);
        }
        if let Ok(Some(version)) = self.store.label(text) {
            return Ok(version);
        }
        let versions = self.store.versions()?;
        let mut found = versions
            .into_iter()
            .filter(|version| version.to_string().starts_with(text));
        match (found.next(), found.next()) {
            (Some(version), None) if text.len() >= DIGITS => Ok(version),
            (Some(_), Some(_)) => Err(format!("{text:?} begins more than one version").into()),
            _ => Err(format!(
                "{text:?} is no version, label or beginning of a version of harness {:?}",
                self.name
            )
            .into()),
        }
    }
}

pub(super) fn history(args: &StoreArgs) -> Result<(), Failure> {
    let place = Place::open(args)?;
    let short = |version: Option<Version>| {
        version.map_or_else(|| "-".to_owned(), |version| version.short())
    };
    for entry in place.store.history()? {
        let action = match entry.action {
            Action::Promote => "promote",
            Action::Rollback => "rollback",
            Action::Label => "label",
            Action::Recover => "recover",
        };
        let (from, to) = (short(entry.from), short(entry.to));
        println!(
            "{} {action} {} {from} -> {to} by {}: {}",
            entry.at, entry.label, entry.who, entry.result
        );
    }
    for (label, version) in place.store.labels()? {
        println!("{label} is {}", version.short());
    }
    Ok(())
}

pub(super) fn promote(text: &str, args: &StoreArgs, who: &str) -> Result<(), Failure> {
    let place = Place::open(args)?;
    let version = place.version(text)?;
    usable(&place, version)?;
    place.store.promote(version, who)?;
    println!("{} of {} is production", version.short(), place.name);
    Ok(())
}

pub(super) fn rollback(text: Option<&str>, args: &StoreArgs, who: &str) -> Result<(), Failure> {
    let place = Place::open(args)?;
    let to = match text {
        Some(text) => place.version(text)?,
        None => place
            .store
            .earlier()?
            .ok_or("there is no earlier version to go back to")?,
    };
    usable(&place, to)?;
    let folder = place.config.harness.directory.join(&place.name);
    let folder = harness::read(&folder)
        .ok()
        .map(|source| Version::of(&source));
    place.store.rollback(Some(to), folder, who)?;
    println!("{} of {} is production again", to.short(), place.name);
    Ok(())
}

/// Refuses a version that this program could not serve.
fn usable(place: &Place, version: Version) -> Result<(), Failure> {
    let source = place.store.get(version)?;
    match harness::load(&place.name, &source) {
        Ok(_) => Ok(()),
        Err(problems) => {
            problems.iter().for_each(|problem| println!("{problem}"));
            Err(format!("{} cannot be used", version.short()).into())
        }
    }
}
