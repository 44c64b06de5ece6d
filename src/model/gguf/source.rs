//! Bounded reading of a header: every length is checked against the bytes that remain before anything is allocated.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::error::{Fault, ModelFileError};

/// Largest header. The vocabulary is nearly all of it: a million tokens of 8 bytes take 16 MB, the largest published
/// ones less. It also bounds what a hostile file makes us keep: no more than twice as much.
const MAX_HEADER: u64 = 24 << 20;
/// Bytes read at a time, so that memory grows with what the file really holds and not with what it claims (a sparse
/// file claims anything).
const PIECE: u64 = 64 << 10;

/// Opens a regular file and gives its size. Anything else (a pipe would block for ever) is refused.
pub(crate) fn open_regular(path: &Path) -> Result<(File, u64), ModelFileError> {
    let io = |error| ModelFileError::new(path, "file", Fault::Io(error));
    let kind = fs::metadata(path).map_err(io)?.file_type();
    if kind.is_dir() {
        let reason = "is a directory, not a model file".to_owned();
        return Err(ModelFileError::new(path, "file", Fault::Invalid(reason)));
    }
    if !kind.is_file() {
        let reason = "is not a regular file".to_owned();
        return Err(ModelFileError::new(path, "file", Fault::Invalid(reason)));
    }
    let file = File::open(path).map_err(io)?;
    let size = file.metadata().map_err(io)?.len();
    Ok((file, size))
}

/// A position in a model file's header.
pub(super) struct Source<'a> {
    reader: BufReader<Box<dyn Read + 'a>>,
    path: PathBuf,
    at: u64,
    size: u64,
}

impl<'a> Source<'a> {
    /// The start of a file of `size` bytes.
    pub(super) fn new(path: &Path, reader: impl Read + 'a, size: u64) -> Self {
        Self {
            reader: BufReader::with_capacity(PIECE as usize, Box::new(reader)),
            path: path.to_owned(),
            at: 0,
            size,
        }
    }

    /// An error at the current file.
    pub(super) fn error(&self, field: &str, fault: Fault) -> ModelFileError {
        ModelFileError::new(&self.path, field, fault)
    }

    /// [`Fault::Invalid`] at the current file.
    pub(super) fn invalid(&self, field: &str, reason: impl Into<String>) -> ModelFileError {
        self.error(field, Fault::Invalid(reason.into()))
    }

    /// Bytes read so far.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Bytes that may still be read.
    pub(super) fn room(&self) -> u64 {
        self.size.min(MAX_HEADER).saturating_sub(self.at)
    }

    /// Bytes of the whole file.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Refuses a count whose elements, of at least `least` bytes each, cannot be in what remains of the file.
    pub(super) fn check_count(
        &self,
        field: &str,
        count: u64,
        least: u64,
    ) -> Result<(), ModelFileError> {
        let left = self.size - self.at;
        if count > left / least {
            let reason = format!(
                "{count} entries of at least {least} bytes do not fit the {left} bytes that remain"
            );
            return Err(self.invalid(field, reason));
        }
        if count > self.room() / least {
            return Err(self.invalid(
                field,
                format!("{count} entries make the header exceed {MAX_HEADER} bytes"),
            ));
        }
        Ok(())
    }

    /// Reads exactly `into.len()` bytes.
    pub(super) fn read(&mut self, field: &str, into: &mut [u8]) -> Result<(), ModelFileError> {
        let expected = self.at.saturating_add(into.len() as u64);
        let truncated = |actual| Fault::Truncated { expected, actual };
        if expected > self.size {
            return Err(self.error(field, truncated(self.size)));
        }
        if expected > MAX_HEADER {
            return Err(self.invalid(field, format!("header exceeds {MAX_HEADER} bytes")));
        }
        if let Err(error) = self.reader.read_exact(into) {
            let fault = match error.kind() {
                std::io::ErrorKind::UnexpectedEof => truncated(self.at),
                _ => Fault::Io(error),
            };
            return Err(self.error(field, fault));
        }
        self.at = expected;
        Ok(())
    }

    /// Reads a number of `N` bytes.
    pub(super) fn number<const N: usize, T>(
        &mut self,
        field: &str,
        decode: fn([u8; N]) -> T,
    ) -> Result<T, ModelFileError> {
        let mut bytes = [0; N];
        self.read(field, &mut bytes)?;
        Ok(decode(bytes))
    }

    /// Reads `count` numbers of `N` bytes.
    pub(super) fn numbers<const N: usize, T>(
        &mut self,
        field: &str,
        count: u64,
        decode: fn([u8; N]) -> T,
    ) -> Result<Vec<T>, ModelFileError> {
        self.check_count(field, count, N as u64)?;
        // As many as fit what may still be read, so that they take no more memory than in the file.
        let mut values = Vec::with_capacity(count as usize);
        let mut piece = Vec::new();
        let mut left = count;
        while left > 0 {
            let now = left.min(PIECE / N as u64);
            piece.resize(now as usize * N, 0);
            self.read(field, &mut piece)?;
            values.extend(piece.as_chunks::<N>().0.iter().map(|bytes| decode(*bytes)));
            left -= now;
        }
        Ok(values)
    }

    /// Reads a length and that many bytes of UTF-8 of at most `limit` bytes into `scratch`; returns the text.
    pub(super) fn text<'b>(
        &mut self,
        field: &str,
        limit: u64,
        scratch: &'b mut Vec<u8>,
    ) -> Result<&'b str, ModelFileError> {
        let length = self.number(field, u64::from_le_bytes)?;
        let left = self.size - self.at;
        if length > left {
            let reason =
                format!("string of {length} bytes does not fit the {left} bytes that remain");
            return Err(self.invalid(field, reason));
        }
        if length > limit {
            return Err(self.invalid(field, format!("string of {length} bytes exceeds {limit}")));
        }
        scratch.clear();
        scratch.reserve_exact(length as usize);
        while (scratch.len() as u64) < length {
            let start = scratch.len();
            let now = (length - start as u64).min(PIECE) as usize;
            scratch.resize(start + now, 0);
            self.read(field, &mut scratch[start..])?;
        }
        std::str::from_utf8(scratch)
            .map_err(|error| self.invalid(field, format!("not UTF-8: {error}")))
    }
}
