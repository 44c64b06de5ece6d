//! A model's files as a decoder reads them: whatever the format, metadata and tensors go by the names that GGUF gives.

use std::fmt;

use super::gguf::{Fault, GgufFile, Metadata, ModelFileError, TensorInfo};

/// A model's files, open and with checked headers.
pub trait Checkpoint: fmt::Debug + Send + Sync {
    /// What the files say of the model.
    fn metadata(&self) -> &Metadata;

    /// All tensors.
    fn tensors(&self) -> &[TensorInfo];

    /// The tensor of that name.
    fn tensor(&self, name: &str) -> Option<&TensorInfo>;

    /// Reads the bytes of a tensor from `start` on, as many as `into` is long. Both begin and end with whole blocks of
    /// the tensor's kind.
    ///
    /// # Errors
    /// The range leaves the tensor, or a file cannot be read (any more).
    fn read_range(
        &self,
        tensor: &TensorInfo,
        start: u64,
        into: &mut [u8],
    ) -> Result<(), ModelFileError>;

    /// An error about a key or tensor, told by the file and the name that it has there.
    fn error(&self, field: &str, fault: Fault) -> ModelFileError;

    /// Reads a whole tensor, replacing what `into` holds.
    ///
    /// # Errors
    /// As [`Self::read_range`].
    fn read_tensor(&self, tensor: &TensorInfo, into: &mut Vec<u8>) -> Result<(), ModelFileError> {
        let Ok(bytes) = usize::try_from(tensor.bytes) else {
            let reason = format!("{} bytes exceed this machine's address space", tensor.bytes);
            return Err(self.error(&tensor.name, Fault::Invalid(reason)));
        };
        into.clear();
        into.resize(bytes, 0);
        self.read_range(tensor, 0, into)
    }
}

impl Checkpoint for GgufFile {
    fn metadata(&self) -> &Metadata {
        self.metadata()
    }

    fn tensors(&self) -> &[TensorInfo] {
        self.tensors()
    }

    fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensor(name)
    }

    fn read_range(
        &self,
        tensor: &TensorInfo,
        start: u64,
        into: &mut [u8],
    ) -> Result<(), ModelFileError> {
        self.read_range(tensor, start, into)
    }

    fn error(&self, field: &str, fault: Fault) -> ModelFileError {
        self.error(field, fault)
    }
}
