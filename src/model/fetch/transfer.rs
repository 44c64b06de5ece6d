//! Copies content of a known size into a file, and never more than that: a wrong source must not fill the disk.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{FetchError, Progress};

/// Bytes copied at a time.
const PIECE: usize = 256 << 10;
/// Progress is told this often, in bytes.
const TOLD_EVERY: u64 = 1 << 20;

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Transfer {
    file: File,
    path: PathBuf,
    done: u64,
    size: u64,
}

impl Transfer {
    /// A new file that is to get `size` bytes.
    pub(super) fn create(path: &Path, size: u64) -> Result<Self, FetchError> {
        Ok(Self {
            file: File::create(path).map_err(FetchError::io(path))?,
            path: path.to_owned(),
            done: 0,
            size,
        })
    }

    /// Bytes that it has.
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// Bytes that it is to get.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Starts over.
    pub(super) fn restart(&mut self) -> Result<(), FetchError> {
        let emptied = self
            .file
            .set_len(0)
            .and_then(|()| self.file.seek(SeekFrom::Start(0)));
        emptied.map_err(FetchError::io(&self.path))?;
        self.done = 0;
        Ok(())
    }

    /// Appends from `source` until the file is complete or the source ends or fails; which, shows in [`Self::done`].
    pub(super) fn copy(
        &mut self,
        source: &mut dyn Read,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Option<io::Error>, FetchError> {
        let mut piece = vec![0; PIECE];
        let mut told = self.done;
        while self.done < self.size {
            let room = usize::try_from(self.size - self.done)
                .unwrap_or(PIECE)
                .min(PIECE);
            let read = match source.read(&mut piece[..room]) {
                Ok(0) => return Ok(None),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Ok(Some(error)),
            };
            self.file
                .write_all(&piece[..read])
                .map_err(FetchError::io(&self.path))?;
            self.done += read as u64;
            if self.done - told >= TOLD_EVERY || self.done == self.size {
                told = self.done;
                progress(Progress::Bytes {
                    done: self.done,
                    total: self.size,
                });
            }
        }
        Ok(None)
    }

    /// Checks that the source, called `what` in errors, ended where the file is complete; `more` says that it did not.
    pub(super) fn finish(self, what: &str, more: bool) -> Result<(), FetchError> {
        let (what, expected) = (what.to_owned(), self.size);
        if self.done < expected {
            let actual = self.done;
            return Err(FetchError::WrongSize {
                what,
                expected,
                actual,
            });
        }
        if more {
            return Err(FetchError::TooLong { what, expected });
        }
        Ok(())
    }
}
