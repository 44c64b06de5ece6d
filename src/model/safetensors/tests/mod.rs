//! Headers, folders and configurations, right ones and wrong ones.

mod folder;
mod header;
mod settings;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::*;

/// The tiny models, each as a checkpoint and as GGUF.
fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny")
}

/// A file of this header and data.
fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

/// The header of tensors of f32, one after the other.
fn table(tensors: &[(&str, &[u64])]) -> (String, usize) {
    let (mut end, mut map) = (0, serde_json::Map::new());
    for (name, shape) in tensors {
        let start = end;
        end += 4 * shape.iter().product::<u64>();
        let value = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, end]});
        map.insert((*name).to_owned(), value);
    }
    (Value::Object(map).to_string(), end as usize)
}

/// A folder with a copy of a tiny model, to be changed.
struct Copy {
    folder: tempfile::TempDir,
}

impl Copy {
    fn of(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for file in ["config.json", "model.safetensors"] {
            let from = fixtures().join(name).join(file);
            fs::copy(from, folder.path().join(file)).expect("it is copied");
        }
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Sets a field of `config.json`; `null` takes it away.
    fn set(&self, field: &str, value: Value) {
        let path = self.path().join("config.json");
        let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        config[field] = value;
        fs::write(&path, config.to_string()).unwrap();
    }

    /// The message about this folder, after the folder's path.
    fn refused(&self) -> String {
        let error = SafetensorsModel::open(self.path()).expect_err("it is refused");
        let message = error.to_string();
        let folder = format!("{}/", self.path().display());
        message.strip_prefix(&folder).unwrap_or(&message).to_owned()
    }
}

/// Floats of any kind as numbers, by bits so that all are compared.
fn numbers(file: &dyn Checkpoint, tensor: &TensorInfo) -> Vec<u32> {
    let mut bytes = Vec::new();
    file.read_tensor(tensor, &mut bytes).expect("it is read");
    let float = Float::of(tensor.kind).expect("floats");
    float.numbers(&bytes).map(f32::to_bits).collect()
}
