//! A file's place in the cache. Others see the right file or none: it is made aside, checked, flushed and renamed, under
//! a lock that makes other processes wait for it instead of fetching it again.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::check::{self, Expected};
use super::{FetchError, Progress};

/// Where a cached file is, and what lies beside it while it is made.
#[derive(Debug)]
pub(super) struct Slot {
    file: PathBuf,
    folder: PathBuf,
    name: String,
}

impl Slot {
    /// The place of `folder/name`.
    pub(super) fn new(folder: &Path, name: &str) -> Self {
        Self {
            file: folder.join(name),
            folder: folder.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The file.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Makes sure that the right file is there; if it is not, `make` writes it to the workspace's file.
    pub(super) fn fill(
        &self,
        expected: Expected,
        progress: &mut dyn FnMut(Progress<'_>),
        make: impl FnOnce(&Workspace, &mut dyn FnMut(Progress<'_>)) -> Result<(), FetchError>,
    ) -> Result<(), FetchError> {
        // Without the lock first: a cache may be baked into a read-only image.
        if self.holds(expected, progress)?.is_none() {
            return Ok(());
        }
        fs::create_dir_all(&self.folder).map_err(FetchError::io(&self.folder))?;
        let _lock = self.lock(progress)?;
        // Another process may have fetched it while we waited.
        match self.holds(expected, progress)? {
            None => return Ok(()),
            Some(FetchError::Io { .. }) => {}
            Some(reason) => progress(Progress::Replacing { reason: &reason }),
        }
        let work = Workspace::new(self.beside("work"))?;
        make(&work, progress)?;
        let made = work.file();
        check::check(&made, expected, progress)?;
        self.publish(&made, expected)
    }

    /// Why the file is not the right one, if it is not. An error where that cannot be found out.
    fn holds(
        &self,
        expected: Expected,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Option<FetchError>, FetchError> {
        match check::check_remembered(&self.file, &self.beside("verified"), expected, progress) {
            Ok(()) => Ok(None),
            Err(FetchError::Io { path, source }) if source.kind() != io::ErrorKind::NotFound => {
                Err(FetchError::Io { path, source })
            }
            Err(reason) => Ok(Some(reason)),
        }
    }

    /// Makes a checked file the one that others see; survives a crash at any point.
    fn publish(&self, made: &Path, expected: Expected) -> Result<(), FetchError> {
        let flush = |path: &Path| {
            File::open(path)
                .and_then(|file| file.sync_all())
                .map_err(FetchError::io(path))
        };
        flush(made)?;
        fs::rename(made, &self.file).map_err(FetchError::io(&self.file))?;
        flush(&self.folder)?;
        check::stamp(&self.file, &self.beside("verified"), expected)
    }

    /// Excludes other processes (and threads) until the result is dropped.
    fn lock(&self, progress: &mut dyn FnMut(Progress<'_>)) -> Result<File, FetchError> {
        let path = self.beside("lock");
        let options = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let file = options.map_err(FetchError::io(&path))?;
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => progress(Progress::Waiting { file: &self.file }),
            Err(TryLockError::Error(source)) => return Err(FetchError::Io { path, source }),
        }
        file.lock().map_err(FetchError::io(&path))?;
        Ok(file)
    }

    fn beside(&self, what: &str) -> PathBuf {
        self.folder.join(format!(".{}.{what}", self.name))
    }
}

/// A folder of work in progress, on the cache's own file system so that its result can be renamed; removed at the end.
#[derive(Debug)]
pub(super) struct Workspace {
    path: PathBuf,
}

impl Workspace {
    /// An empty folder. What is there was left by a process that was killed: whoever works holds the lock.
    fn new(path: PathBuf) -> Result<Self, FetchError> {
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(FetchError::io(&path)(error));
            }
            _ => fs::create_dir(&path).map_err(FetchError::io(&path))?,
        }
        Ok(Self { path })
    }

    /// Where the file is to be made.
    pub(super) fn file(&self) -> PathBuf {
        self.path.join("file")
    }

    /// A new folder for other things.
    pub(super) fn folder(&self, name: &str) -> Result<PathBuf, FetchError> {
        let path = self.path.join(name);
        fs::create_dir(&path).map_err(FetchError::io(&path))?;
        Ok(path)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(folder = %self.path.display(), %error, "work in progress is left behind");
        }
    }
}
