//! Which files hold the tensors: one, or the shards that `model.safetensors.index.json` names.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{Error, MapAccess, Visitor};

use super::file::TensorFile;
use super::header::Entry;
use super::json;
use crate::model::gguf::{Fault, ModelFileError};

/// The file of a model that is in one file.
const SINGLE: &str = "model.safetensors";
/// The file that names the shards.
const INDEX: &str = "model.safetensors.index.json";
/// Largest index in bytes; a thousand shards with all tensors that are read take a third.
const MAX_INDEX: u64 = 16 << 20;
/// Most tensors of a model.
const MAX_TENSORS: usize = 65_536;
/// Most shards.
const MAX_SHARDS: usize = 1024;

/// The files of a model, opened, and what is in them.
#[derive(Debug)]
pub(super) struct Shards {
    /// The file that should name a tensor that is missing.
    pub(super) table: PathBuf,
    pub(super) files: Vec<TensorFile>,
    /// Each tensor with the index of its file.
    pub(super) entries: Vec<(usize, Entry)>,
}

impl Shards {
    /// Opens what is in `folder`: the single file if there is one, as others do, else every shard of the index.
    pub(super) fn in_folder(folder: &Path) -> Result<Self, ModelFileError> {
        let single = folder.join(SINGLE);
        if single.exists() {
            return Self::single(&single);
        }
        let path = folder.join(INDEX);
        let Some(bytes) = json::read(&path, MAX_INDEX)? else {
            let reason = format!("there is no {SINGLE} in the folder, and no {INDEX}");
            return Err(ModelFileError::new(
                folder,
                "weights",
                Fault::Invalid(reason),
            ));
        };
        let index: Index =
            serde_json::from_slice(&bytes).map_err(|error| json::syntax(&path, &error))?;
        drop(bytes);
        Self::open(folder, path, index.weight_map)
    }

    /// Opens one file, whatever lies beside it.
    pub(super) fn single(path: &Path) -> Result<Self, ModelFileError> {
        let (file, entries) = TensorFile::open(path)?;
        Ok(Self {
            table: path.to_owned(),
            files: vec![file],
            entries: entries.into_iter().map(|entry| (0, entry)).collect(),
        })
    }

    fn open(folder: &Path, table: PathBuf, mut map: WeightMap) -> Result<Self, ModelFileError> {
        let error = |field: &str, fault| ModelFileError::new(&table, field, fault);
        let mut files = Vec::with_capacity(map.files.len());
        let mut entries = Vec::with_capacity(map.tensors.len());
        for (number, name) in map.files.iter().enumerate() {
            check_name(name).map_err(|reason| error("weight_map", Fault::Invalid(reason)))?;
            let (file, found) = TensorFile::open(&folder.join(name))?;
            for entry in found {
                // What is left in the map at the end was promised and is nowhere.
                if map.tensors.remove(&entry.name) != Some(number) {
                    let reason = format!("is in {name}, where weight_map does not have it");
                    return Err(error(&entry.name, Fault::Invalid(reason)));
                }
                entries.push((number, entry));
            }
            files.push(file);
        }
        // The least name, so that the message is the same each time.
        if let Some((name, number)) = map.tensors.iter().min() {
            let reason = format!("is not in {}, where weight_map has it", map.files[*number]);
            return Err(error(name, Fault::Invalid(reason)));
        }
        Ok(Self {
            table,
            files,
            entries,
        })
    }
}

/// Shards lie beside the index: nothing that could lead elsewhere is a name.
fn check_name(name: &str) -> Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if !name.starts_with('.') && name.bytes().all(plain) && name.ends_with(".safetensors") {
        return Ok(());
    }
    let shown: String = name.chars().take(64).collect();
    Err(format!(
        "{shown:?} is not the name of a .safetensors file in the folder"
    ))
}

/// The index; other fields only inform people.
#[derive(Deserialize)]
struct Index {
    weight_map: WeightMap,
}

/// Tensors by name, with the index of their file.
#[derive(Default)]
struct WeightMap {
    files: Vec<String>,
    tensors: HashMap<String, usize>,
}

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: serde::Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = WeightMap;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensor names and file names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WeightMap, A::Error> {
                let mut weights = WeightMap::default();
                let mut numbers = HashMap::new();
                while let Some((tensor, file)) = map.next_entry::<String, String>()? {
                    let next = numbers.len();
                    let number = *numbers.entry(file).or_insert_with_key(|file| {
                        weights.files.push(file.clone());
                        next
                    });
                    if let Some(twice) = weights
                        .tensors
                        .insert(tensor.clone(), number)
                        .map(|_| tensor)
                    {
                        let shown: String = twice.chars().take(64).collect();
                        return Err(A::Error::custom(format_args!(
                            "weight_map: {shown:?} occurs twice"
                        )));
                    }
                    if weights.tensors.len() > MAX_TENSORS || weights.files.len() > MAX_SHARDS {
                        return Err(A::Error::custom(format_args!(
                            "weight_map: more than {MAX_TENSORS} tensors or {MAX_SHARDS} files"
                        )));
                    }
                }
                Ok(weights)
            }
        }
        json.deserialize_map(Pairs)
    }
}
