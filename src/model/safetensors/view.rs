//! The checkpoint as a decoder reads it: bytes in GGUF's order, errors in the checkpoint's own names.

use super::{Change, Place, SafetensorsModel, Stored};
use crate::model::checkpoint::Checkpoint;
use crate::model::gguf::{Fault, Metadata, ModelFileError, TensorInfo};

impl SafetensorsModel {
    fn read_stored(
        &self,
        stored: &Stored,
        start: u64,
        into: &mut [u8],
    ) -> Result<(), ModelFileError> {
        let file = &self.shards.files[stored.file];
        let read = |from: u64, into: &mut [u8]| {
            file.read(&stored.name, stored.start.saturating_add(from), into)
        };
        match stored.change {
            Change::Nothing => read(start, into),
            Change::Interleave { head, row_bytes } => {
                let half = head / 2;
                let rows = into.chunks_mut(row_bytes as usize);
                for (row, into) in (start / row_bytes..).zip(rows) {
                    let (within, first) = (row % head, row - row % head);
                    let from = first + within % 2 * half + within / 2;
                    read(from * row_bytes, into)?;
                }
                Ok(())
            }
            Change::Numbers { from, add } => {
                let mut bytes = vec![0; into.len() / 4 * from.bytes()];
                read(start / 4 * from.bytes() as u64, &mut bytes)?;
                for (into, number) in into.chunks_exact_mut(4).zip(from.numbers(&bytes)) {
                    into.copy_from_slice(&(number + add).to_le_bytes());
                }
                Ok(())
            }
        }
    }
}

impl Checkpoint for SafetensorsModel {
    fn metadata(&self) -> &Metadata {
        &self.metadata
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
        let Some(&index) = self.by_name.get(&tensor.name) else {
            return Err(self.error(&tensor.name, Fault::Missing));
        };
        let end = start.checked_add(into.len() as u64);
        let row = match &self.places[index] {
            Place::Stored(Stored {
                change: Change::Interleave { row_bytes, .. },
                ..
            }) => *row_bytes,
            _ => tensor.kind.block_bytes(),
        };
        let whole = start.is_multiple_of(row) && (into.len() as u64).is_multiple_of(row);
        if !whole || end.is_none_or(|end| end > self.tensors[index].bytes) {
            let reason = format!(
                "{} bytes from {start} on are not in its {} bytes",
                into.len(),
                tensor.bytes
            );
            return Err(self.error(&tensor.name, Fault::Invalid(reason)));
        }
        match &self.places[index] {
            Place::Stored(stored) => self.read_stored(stored, start, into),
            Place::Computed(numbers) => {
                let numbers = numbers.iter().skip((start / 4) as usize);
                for (into, number) in into.chunks_exact_mut(4).zip(numbers) {
                    into.copy_from_slice(&number.to_le_bytes());
                }
                Ok(())
            }
        }
    }

    fn error(&self, field: &str, fault: Fault) -> ModelFileError {
        if let Some(Place::Stored(stored)) =
            self.by_name.get(field).map(|index| &self.places[*index])
        {
            let path = self.shards.files[stored.file].path();
            return ModelFileError::new(path, &stored.name, fault);
        }
        if let Some(name) = self.settings.architecture.names.in_hub(field) {
            return ModelFileError::new(&self.shards.table, &name, fault);
        }
        let stated = self.settings.fields.get(field);
        ModelFileError::new(&self.config, stated.map_or(field, String::as_str), fault)
    }
}
