//! Reads checkpoints as Hugging Face lays them out: a folder with `config.json`, the weights in `model.safetensors` or
//! in shards, and JSON files for tokens and templates.
//!
//! A folder is somebody else's data: every count, length, size and offset is checked before it is used, and a fault is
//! a [`ModelFileError`] that names the file and the field. To the decoder the model looks as if it came in GGUF (see
//! [`Checkpoint`]): names, keys, the order of rows and what norms count from are those of that format.

mod config;
mod describe;
mod dtype;
mod file;
mod header;
mod index;
mod json;
mod names;
mod refuse;
mod rope;
#[cfg(test)]
mod tests;
mod view;
mod vocabulary;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

pub use describe::describe;
pub use file::check_header;

/// Checks the bytes of a `config.json`.
///
/// # Errors
/// Names the field at fault; the file goes by the name `(bytes)`.
pub fn check_config(json: &[u8]) -> Result<(), ModelFileError> {
    let document = Document::parse(Path::new("(bytes)"), json)?;
    Settings::read(&document.root())?;
    Ok(())
}

use self::config::Settings;
use self::header::Entry;
use self::index::Shards;
use self::json::Document;
use super::checkpoint::Checkpoint;
use super::float::Float;
use super::gguf::{Fault, Metadata, ModelFileError, TensorInfo, TensorKind, Value};

/// Largest `config.json` and `generation_config.json` in bytes; parsed they take many times that.
const MAX_CONFIG: u64 = 256 << 10;
/// GGUF's tensor of what rotations are divided by.
const ROPE_FACTORS: &str = "rope_freqs.weight";

/// An open model whose headers and configuration have been checked.
#[derive(Debug)]
pub struct SafetensorsModel {
    folder: PathBuf,
    document: Document,
    config: PathBuf,
    shards: Shards,
    settings: Settings,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    /// As many as `tensors`.
    places: Vec<Place>,
    by_name: HashMap<String, usize>,
}

/// Where a tensor's numbers come from.
#[derive(Debug)]
enum Place {
    /// Bytes of a file.
    Stored(Stored),
    /// Computed from the configuration.
    Computed(Vec<f32>),
}

/// Bytes of a file, and what they need to become GGUF's.
#[derive(Debug)]
struct Stored {
    file: usize,
    /// The name in the file.
    name: String,
    /// From the start of the file's data.
    start: u64,
    change: Change,
}

/// What is different in GGUF.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Nothing,
    /// Matrices: within each head of that many rows, the first half alternates with the second.
    Interleave {
        head: u64,
        row_bytes: u64,
    },
    /// Lists of numbers: they are single floats, `add` larger.
    Numbers {
        from: Float,
        add: f32,
    },
}

impl SafetensorsModel {
    /// Opens a folder, or one `.safetensors` file with what lies beside it, and checks all headers; reads no tensor.
    ///
    /// # Errors
    /// Names the file and the field that is missing, malformed or not supported.
    pub fn open(path: &Path) -> Result<Self, ModelFileError> {
        let (folder, mut shards) = if path.is_dir() {
            (path, Shards::in_folder(path)?)
        } else {
            let beside = path.parent().unwrap_or(Path::new(""));
            (beside, Shards::single(path)?)
        };
        let config = folder.join("config.json");
        let Some(document) = Document::open(&config, MAX_CONFIG)? else {
            let error = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(ModelFileError::new(&config, "file", Fault::Io(error)));
        };
        let mut settings = Settings::read(&document.root())?;
        let mut values = std::mem::take(&mut settings.values);
        if let Some(name) = folder_name(folder) {
            values.insert("general.name".to_owned(), Value::Text(name));
        }
        let entries = std::mem::take(&mut shards.entries);
        let mut model = Self {
            folder: folder.to_owned(),
            document,
            metadata: Metadata::new(&config, values),
            config,
            shards,
            settings,
            tensors: Vec::with_capacity(entries.len() + 1),
            places: Vec::with_capacity(entries.len() + 1),
            by_name: HashMap::with_capacity(entries.len() + 1),
        };
        for (file, entry) in entries {
            model.add(file, entry)?;
        }
        model.add_rope_factors();
        model.check()?;
        Ok(model)
    }

    /// Takes a tensor of a file on; leaves out what only repeats something else.
    fn add(&mut self, file: usize, entry: Entry) -> Result<(), ModelFileError> {
        let tied_head = self.settings.tied && entry.name == "lm_head.weight";
        if tied_head || names::is_computed(&entry.name) {
            return Ok(());
        }
        let error = |fault| ModelFileError::new(self.shards.files[file].path(), &entry.name, fault);
        let Some(name) = self.settings.architecture.names.in_gguf(&entry.name) else {
            let what = "a tensor that this decoder does not use".to_owned();
            return Err(error(Fault::Unsupported(what)));
        };
        let Some(kind) = entry.dtype.kind else {
            return Err(error(Fault::Unsupported(format!(
                "weights of type {}",
                entry.dtype.name
            ))));
        };
        if entry.bytes == 0 {
            return Err(error(Fault::Invalid(format!(
                "an axis of {:?} is zero",
                entry.shape
            ))));
        }
        let mut tensor = TensorInfo {
            name,
            dims: entry.shape.iter().rev().copied().collect(),
            kind,
            part: file,
            offset: entry.start,
            bytes: entry.bytes,
        };
        let change = self.change(&tensor).map_err(error)?;
        if let Change::Numbers { .. } = change {
            tensor.kind = TensorKind::F32;
            tensor.bytes = tensor.elements().saturating_mul(4);
        }
        let place = Place::Stored(Stored {
            file,
            name: entry.name,
            start: entry.start,
            change,
        });
        self.insert(tensor, place);
        Ok(())
    }

    fn change(&self, tensor: &TensorInfo) -> Result<Change, Fault> {
        let architecture = self.settings.architecture;
        match tensor.dims[..] {
            [_] => match Float::of(tensor.kind) {
                Some(from) => {
                    let norm = architecture.norms_from_one && tensor.name.ends_with("norm.weight");
                    let add = if norm { 1.0 } else { 0.0 };
                    Ok(Change::Numbers { from, add })
                }
                None => Ok(Change::Nothing),
            },
            [cols, rows] if architecture.interleaved && is_rotated(&tensor.name) => {
                let head = u64::from(self.settings.head_dim);
                if head == 0 || !head.is_multiple_of(2) || !rows.is_multiple_of(head) {
                    let reason = format!("{rows} rows are not whole heads of an even {head}");
                    return Err(Fault::Invalid(reason));
                }
                let row_bytes = cols * tensor.kind.block_bytes();
                Ok(Change::Interleave { head, row_bytes })
            }
            _ => Ok(Change::Nothing),
        }
    }

    fn add_rope_factors(&mut self) {
        let Some(factors) = self.settings.rope_factors.take() else {
            return;
        };
        let tensor = TensorInfo {
            name: ROPE_FACTORS.to_owned(),
            dims: vec![factors.len() as u64],
            kind: TensorKind::F32,
            part: 0,
            offset: 0,
            bytes: 4 * factors.len() as u64,
        };
        self.insert(tensor, Place::Computed(factors));
    }

    fn insert(&mut self, tensor: TensorInfo, place: Place) {
        self.by_name.insert(tensor.name.clone(), self.tensors.len());
        self.tensors.push(tensor);
        self.places.push(place);
    }

    /// What configuration and weights say of each other.
    fn check(&self) -> Result<(), ModelFileError> {
        if !self.settings.tied && self.tensor("output.weight").is_none() {
            return Err(self.error("output.weight", Fault::Missing));
        }
        let rows = self
            .tensor("token_embd.weight")
            .and_then(|tensor| tensor.dims.get(1));
        if let (Some(vocab), Some(rows)) = (self.settings.vocab, rows)
            && u64::from(vocab) != *rows
        {
            let reason = format!("{vocab} where the embedding has {rows} rows");
            return Err(ModelFileError::new(
                &self.config,
                "vocab_size",
                Fault::Invalid(reason),
            ));
        }
        Ok(())
    }
}

/// Whether GGUF has the rows of a matrix in another order where rotated pairs are neighbours.
fn is_rotated(name: &str) -> bool {
    name.ends_with(".attn_q.weight") || name.ends_with(".attn_k.weight")
}

/// A folder's own name, also of `.`.
fn folder_name(folder: &Path) -> Option<String> {
    let whole = folder.canonicalize().ok()?;
    Some(whole.file_name()?.to_string_lossy().into_owned())
}
