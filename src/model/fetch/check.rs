//! Is a file what its manifest says? Hashing takes a moment, so that the answer is remembered beside the file.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::Digest;

use super::{FetchError, Progress};
use crate::model::spec::{Artifact, Sha256};

/// Bytes hashed at a time.
const PIECE: usize = 256 << 10;

/// What a manifest says of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) sha256: Option<Sha256>,
    pub(super) size: Option<u64>,
}

impl From<&Artifact> for Expected {
    fn from(artifact: &Artifact) -> Self {
        Self {
            sha256: Some(artifact.sha256),
            size: Some(artifact.size),
        }
    }
}

/// Checks size and hash. The hash is not computed again while `stamp` says that it was right for the file as it is.
pub(super) fn check_remembered(
    file: &Path,
    stamp: &Path,
    expected: Expected,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), FetchError> {
    if expected.sha256.is_none() {
        return check_size(file, expected);
    }
    // Before hashing: a change during it makes the stamp a wrong one, which is hashed again.
    let state = state(file, expected)?;
    if fs::read_to_string(stamp).is_ok_and(|remembered| remembered == state) {
        return check_size(file, expected);
    }
    check(file, expected, progress)?;
    remember(stamp, &state);
    Ok(())
}

/// Checks size and hash.
pub(super) fn check(
    file: &Path,
    expected: Expected,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), FetchError> {
    check_size(file, expected)?;
    let Some(wanted) = expected.sha256 else {
        return Ok(());
    };
    progress(Progress::Checking { file });
    let actual = hash(file)?;
    if actual == wanted {
        return Ok(());
    }
    Err(FetchError::WrongHash {
        what: file.display().to_string(),
        expected: wanted,
        actual,
    })
}

/// Records that `file`, as it lies there, has the expected hash.
pub(super) fn stamp(file: &Path, stamp: &Path, expected: Expected) -> Result<(), FetchError> {
    remember(stamp, &state(file, expected)?);
    Ok(())
}

fn check_size(file: &Path, expected: Expected) -> Result<(), FetchError> {
    let actual = fs::metadata(file).map_err(FetchError::io(file))?.len();
    match expected.size {
        Some(size) if size != actual => Err(FetchError::WrongSize {
            what: file.display().to_string(),
            expected: size,
            actual,
        }),
        _ => Ok(()),
    }
}

/// All that changes when the file or the manifest does. The change time is part of it because a copy may keep the
/// modification time.
fn state(file: &Path, expected: Expected) -> Result<String, FetchError> {
    let found = fs::metadata(file).map_err(FetchError::io(file))?;
    let sha256 = expected
        .sha256
        .map_or_else(|| "unchecked".to_owned(), |hash| hash.to_string());
    Ok(format!(
        "{sha256} {} {}.{:09} {}.{:09} {}\n",
        found.len(),
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec(),
        file.display(),
    ))
}

/// A stamp that cannot be written, in a read-only folder for example, costs a hash at the next start and nothing else.
fn remember(stamp: &Path, state: &str) {
    let folder = stamp.parent().map_or(Ok(()), fs::create_dir_all);
    if let Err(error) = folder.and_then(|()| fs::write(stamp, state)) {
        tracing::debug!(stamp = %stamp.display(), %error, "the checked state of a model file is not remembered");
    }
}

fn hash(path: &Path) -> Result<Sha256, FetchError> {
    let mut file = File::open(path).map_err(FetchError::io(path))?;
    let mut digest = sha2::Sha256::new();
    let mut piece = vec![0; PIECE];
    loop {
        let read = file.read(&mut piece).map_err(FetchError::io(path))?;
        if read == 0 {
            return Ok(Sha256(digest.finalize().into()));
        }
        digest.update(&piece[..read]);
    }
}
