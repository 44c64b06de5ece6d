//! Reads GGUF model files, version 2 and 3, little endian.
//!
//! A file is somebody else's data: every count, length, size and offset is checked before it is used, and a fault is a
//! [`ModelFileError`] that names the file and the field. Reads are positional, never a memory map: a file that is
//! truncated under us gives an error and not a signal.

pub(crate) mod describe;
mod error;
mod header;
mod kind;
mod layout;
mod metadata;
mod source;
mod split;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod tokenizer;
mod value;

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub use describe::describe;
pub use error::{Fault, ModelFileError};
pub use kind::TensorKind;
pub use layout::TensorInfo;
pub use metadata::Metadata;
pub(crate) use source::open_regular;
pub use value::{Array, Strings, Value};

use source::Source;

/// Checks the header of a whole file given as bytes.
///
/// # Errors
/// Names the field at fault; the file goes by the name `(bytes)`.
pub fn check_header(bytes: &[u8]) -> Result<(), ModelFileError> {
    let mut source = Source::new(Path::new("(bytes)"), bytes, bytes.len() as u64);
    let mut header = header::parse(&mut source)?;
    layout::place(&source, &mut header)?;
    Ok(())
}

/// An open model, of one file or several, whose headers have been checked.
#[derive(Debug)]
pub struct GgufFile {
    /// The first is always there.
    parts: Vec<split::Part>,
    version: u32,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    by_name: HashMap<String, usize>,
}

impl GgufFile {
    /// Opens a file and checks its whole header; reads no tensor. Of a model in several files this is the first one,
    /// `NAME-00001-of-0000N.gguf`, and the others are opened too.
    ///
    /// # Errors
    /// Names the file and the field that is missing, malformed or not supported.
    pub fn open(path: &Path) -> Result<Self, ModelFileError> {
        let mut first = split::Opened::read(path, 0)?;
        let others = split::others(&first)?;
        let mut by_name = HashMap::new();
        let mut tensors = std::mem::take(&mut first.tensors);
        let mut parts = vec![first.part];
        for other in others {
            tensors.extend(other.tensors);
            parts.push(other.part);
        }
        for (index, tensor) in tensors.iter().enumerate() {
            if by_name.insert(tensor.name.clone(), index).is_some() {
                let path = &parts[tensor.part].path;
                return Err(ModelFileError::new(path, &tensor.name, Fault::Duplicate));
            }
        }
        Ok(Self {
            parts,
            version: first.version,
            metadata: first.metadata,
            tensors,
            by_name,
        })
    }

    /// Where the file lies; the first one of several.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.parts[0].path
    }

    /// Bytes of the whole file when it was opened, of all files where there are several.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.parts.iter().map(|part| part.size).sum()
    }

    /// The model's files: path, bytes, and number of tensors.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = (&Path, u64, usize)> {
        self.parts
            .iter()
            .map(|part| (part.path.as_path(), part.size, part.tensors))
    }

    /// Version of the format, 2 or 3.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// What the file says of itself.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The model's name, for people.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.metadata.info("general.name")
    }

    /// All tensors, in the order of the header.
    #[must_use]
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor of that name.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.by_name.get(name).map(|index| &self.tensors[*index])
    }

    /// Reads a whole tensor, replacing what `into` holds.
    ///
    /// # Errors
    /// The file was truncated since it was opened, or cannot be read.
    pub fn read_tensor(
        &self,
        tensor: &TensorInfo,
        into: &mut Vec<u8>,
    ) -> Result<(), ModelFileError> {
        let Ok(bytes) = usize::try_from(tensor.bytes) else {
            let reason = format!("{} bytes exceed this machine's address space", tensor.bytes);
            return Err(self.error(&tensor.name, Fault::Invalid(reason)));
        };
        into.clear();
        into.resize(bytes, 0);
        self.read_range(tensor, 0, into)
    }

    /// Reads the bytes of a tensor from `start` on, as many as `into` is long.
    ///
    /// # Errors
    /// The range leaves the tensor, the file was truncated since it was opened, or it cannot be read.
    pub fn read_range(
        &self,
        tensor: &TensorInfo,
        start: u64,
        into: &mut [u8],
    ) -> Result<(), ModelFileError> {
        let end = start.checked_add(into.len() as u64);
        if end.is_none_or(|end| end > tensor.bytes) {
            let reason = format!(
                "{} bytes from {start} on leave its {} bytes",
                into.len(),
                tensor.bytes
            );
            return Err(self.error(&tensor.name, Fault::Invalid(reason)));
        }
        let first = tensor.offset.saturating_add(start);
        let Some(part) = self.parts.get(tensor.part) else {
            let reason = format!("part {} of {}", tensor.part + 1, self.parts.len());
            return Err(self.error(&tensor.name, Fault::Invalid(reason)));
        };
        part.file.read_exact_at(into, first).map_err(|error| {
            let fault = match (error.kind(), part.file.metadata()) {
                (io::ErrorKind::UnexpectedEof, Ok(now)) => Fault::Truncated {
                    expected: part.size,
                    actual: now.len(),
                },
                _ => Fault::Io(error),
            };
            self.error(&tensor.name, fault)
        })
    }

    /// An error about a field of this file, for those who interpret it. A tensor's names the file that it lies in.
    #[must_use]
    pub fn error(&self, field: &str, fault: Fault) -> ModelFileError {
        let part = self.tensor(field).map_or(0, |tensor| tensor.part);
        ModelFileError::new(&self.parts[part].path, field, fault)
    }
}
