//! One file of tensors: opened, its header checked, its data read in pieces.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::header::{self, Entry, LENGTH, Problem};
use crate::model::gguf::{Fault, ModelFileError, open_regular};

/// An open file whose header has been checked.
#[derive(Debug)]
pub(super) struct TensorFile {
    path: PathBuf,
    file: File,
    size: u64,
    /// Where the data starts.
    data: u64,
}

impl TensorFile {
    /// Opens a file and checks its whole header; reads no tensor.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<Entry>), ModelFileError> {
        let (file, size) = open_regular(path)?;
        let told = |problem: Problem| ModelFileError::new(path, &problem.field, problem.fault);
        let io = |error| ModelFileError::new(path, "header", Fault::Io(error));
        if size < LENGTH {
            let expected = LENGTH;
            let fault = Fault::Truncated {
                expected,
                actual: size,
            };
            return Err(ModelFileError::new(path, "header length", fault));
        }
        let mut first = [0; LENGTH as usize];
        file.read_exact_at(&mut first, 0).map_err(io)?;
        let length = header::length(first, size).map_err(told)?;
        let mut json = vec![0; length];
        file.read_exact_at(&mut json, LENGTH).map_err(io)?;
        let data = LENGTH + length as u64;
        let entries = header::parse(&json, size - data).map_err(told)?;
        let opened = Self {
            path: path.to_owned(),
            file,
            size,
            data,
        };
        Ok((opened, entries))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the whole file when it was opened.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Reads bytes of the data from `start` on, for the tensor `name`.
    pub(super) fn read(
        &self,
        name: &str,
        start: u64,
        into: &mut [u8],
    ) -> Result<(), ModelFileError> {
        let first = self.data.saturating_add(start);
        self.file.read_exact_at(into, first).map_err(|error| {
            let fault = match (error.kind(), self.file.metadata()) {
                (io::ErrorKind::UnexpectedEof, Ok(now)) => Fault::Truncated {
                    expected: self.size,
                    actual: now.len(),
                },
                _ => Fault::Io(error),
            };
            ModelFileError::new(&self.path, name, fault)
        })
    }
}

/// Checks the header of a whole file given as bytes.
///
/// # Errors
/// Names the field at fault; the file goes by the name `(bytes)`.
pub fn check_header(bytes: &[u8]) -> Result<(), ModelFileError> {
    let told =
        |problem: Problem| ModelFileError::new(Path::new("(bytes)"), &problem.field, problem.fault);
    let size = bytes.len() as u64;
    let Some((first, rest)) = bytes.split_first_chunk() else {
        let fault = Fault::Truncated {
            expected: LENGTH,
            actual: size,
        };
        return Err(told(Problem {
            field: "header length".to_owned(),
            fault,
        }));
    };
    // `length` is known to lie within the file.
    let (json, data) = rest.split_at(header::length(*first, size).map_err(told)?);
    header::parse(json, data.len() as u64).map_err(told)?;
    Ok(())
}
