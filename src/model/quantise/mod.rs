//! Quantising at load: a [`Checkpoint`] whose matrices of floats look as if they had been stored in blocks.
//!
//! Rows are quantised as they are read, so that there is never a second copy of the model in memory, and the packed
//! weights are those that a file of the same blocks would give.

mod blocks;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use super::checkpoint::Checkpoint;
use super::float::Float;
use super::gguf::{Fault, Metadata, ModelFileError, TensorInfo, TensorKind};

/// What matrices of floats become when a model is loaded. Embedding and head, on which the choice of words depends
/// most, are never less than `q8_0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Quantise {
    /// 8 bits and a scale for 32.
    Q8_0,
    /// 4 bits and a scale for 32.
    Q4_0,
    /// 4 bits, a scale and a minimum for 32.
    Q4_1,
}

impl Quantise {
    /// All of them.
    const ALL: [Self; 3] = [Self::Q8_0, Self::Q4_0, Self::Q4_1];

    /// The name in manifests and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Q8_0 => "q8_0",
            Self::Q4_0 => "q4_0",
            Self::Q4_1 => "q4_1",
        }
    }

    /// The storage that matrices get.
    fn kind(self) -> TensorKind {
        match self {
            Self::Q8_0 => TensorKind::Q8_0,
            Self::Q4_0 => TensorKind::Q4_0,
            Self::Q4_1 => TensorKind::Q4_1,
        }
    }

    /// The storage that the tensor of that name gets.
    fn kind_of(self, name: &str) -> TensorKind {
        match name {
            "token_embd.weight" | "output.weight" => TensorKind::Q8_0,
            _ => self.kind(),
        }
    }
}

impl fmt::Display for Quantise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Quantise {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|known| known.name() == text);
        found.ok_or_else(|| {
            format!(
                "{text:?} is none of {}",
                Self::ALL.map(Self::name).join(", ")
            )
        })
    }
}

impl TryFrom<String> for Quantise {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// A model whose matrices of floats are quantised while they are read.
#[derive(Debug)]
pub struct Quantised<'a> {
    inner: &'a dyn Checkpoint,
    /// As [`Checkpoint::tensors`] of `inner`, in the same order.
    tensors: Vec<TensorInfo>,
    by_name: HashMap<String, usize>,
}

impl<'a> Quantised<'a> {
    /// Shows `inner` quantised. Lists of numbers (norms, biases) stay as they are.
    ///
    /// # Errors
    /// Names a matrix that is quantised already, or whose rows are not whole blocks.
    pub fn new(inner: &'a dyn Checkpoint, quantise: Quantise) -> Result<Self, ModelFileError> {
        let show = |tensor: &TensorInfo| {
            let mut tensor = tensor.clone();
            if tensor.dims.len() < 2 {
                return Ok(tensor);
            }
            let error = |fault| Err(inner.error(&tensor.name, fault));
            if Float::of(tensor.kind).is_none() {
                let what = format!("quantising weights of kind {} to {quantise}", tensor.kind);
                return error(Fault::Unsupported(what));
            }
            let kind = quantise.kind_of(&tensor.name);
            let Some(bytes) = kind.bytes(&tensor.dims) else {
                let reason = format!("rows of {} are not whole blocks of {kind}", tensor.dims[0]);
                return error(Fault::Invalid(reason));
            };
            (tensor.kind, tensor.bytes) = (kind, bytes);
            Ok(tensor)
        };
        let tensors: Vec<TensorInfo> =
            inner.tensors().iter().map(show).collect::<Result<_, _>>()?;
        let names = tensors.iter().map(|tensor| tensor.name.clone());
        Ok(Self {
            inner,
            by_name: names.zip(0..).collect(),
            tensors,
        })
    }

    /// Reads as many floats of `source` as the blocks of `into` hold, and quantises them.
    fn quantise(
        &self,
        source: &TensorInfo,
        kind: TensorKind,
        start: u64,
        into: &mut [u8],
    ) -> Result<(), ModelFileError> {
        let Some(float) = Float::of(source.kind) else {
            return self.inner.read_range(source, start, into);
        };
        let (block, elements) = (kind.block_bytes(), kind.block_elements());
        let blocks = into.len() / block as usize;
        let first = start / block * elements * float.bytes() as u64;
        let mut bytes = vec![0; blocks * elements as usize * float.bytes()];
        self.inner.read_range(source, first, &mut bytes)?;
        let mut numbers = float.numbers(&bytes);
        for (index, into) in into.chunks_exact_mut(block as usize).enumerate() {
            let mut block = [0.0; blocks::BLOCK];
            for (place, number) in block.iter_mut().zip(&mut numbers) {
                *place = number;
            }
            if !blocks::write(kind, &block, into) {
                let at = start / kind.block_bytes() + index as u64;
                let row = at * elements / source.dims[0].max(1);
                let reason = format!("row {row} holds a number too large for {kind}, or none");
                return Err(self.inner.error(&source.name, Fault::Invalid(reason)));
            }
        }
        Ok(())
    }
}

impl Checkpoint for Quantised<'_> {
    fn metadata(&self) -> &Metadata {
        self.inner.metadata()
    }

    fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.by_name.get(name).map(|index| &self.tensors[*index])
    }

    fn read_range(
        &self,
        tensor: &TensorInfo,
        start: u64,
        into: &mut [u8],
    ) -> Result<(), ModelFileError> {
        let Some(source) = self.inner.tensor(&tensor.name) else {
            return Err(self.error(&tensor.name, Fault::Missing));
        };
        if source.kind == tensor.kind {
            return self.inner.read_range(source, start, into);
        }
        let block = tensor.kind.block_bytes();
        let whole = start.is_multiple_of(block) && (into.len() as u64).is_multiple_of(block);
        let end = start.checked_add(into.len() as u64);
        if !whole || end.is_none_or(|end| end > tensor.bytes) {
            let (length, bytes) = (into.len(), tensor.bytes);
            let reason = format!("{length} bytes from {start} on are not in its {bytes} bytes");
            return Err(self.error(&tensor.name, Fault::Invalid(reason)));
        }
        self.quantise(source, tensor.kind, start, into)
    }

    fn error(&self, field: &str, fault: Fault) -> ModelFileError {
        self.inner.error(field, fault)
    }
}
