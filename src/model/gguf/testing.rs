//! Writes small GGUF files, right ones and wrong ones, for tests.

use std::path::{Path, PathBuf};

use super::{Array, TensorKind, Value};

/// Builds a file: metadata in the order given, then tensors, each at the next aligned offset.
#[derive(Clone, Debug)]
pub(crate) struct GgufBuilder {
    version: u32,
    alignment: u64,
    metadata: Vec<(String, Value)>,
    tensors: Vec<Tensor>,
}

#[derive(Clone, Debug)]
struct Tensor {
    name: String,
    dims: Vec<u64>,
    kind: u32,
    data: Vec<u8>,
    offset: Option<u64>,
}

impl GgufBuilder {
    /// An empty file of version 3.
    pub(crate) fn new() -> Self {
        Self {
            version: 3,
            alignment: 32,
            metadata: Vec::new(),
            tensors: Vec::new(),
        }
    }

    /// Another version.
    pub(crate) fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Aligns the data otherwise; states it in the metadata.
    pub(crate) fn alignment(mut self, alignment: u32) -> Self {
        self.alignment = u64::from(alignment);
        self.value("general.alignment", Value::U32(alignment))
    }

    /// Adds a key of any type, even one that exists.
    pub(crate) fn value(mut self, key: &str, value: Value) -> Self {
        self.metadata.push((key.to_owned(), value));
        self
    }

    /// Sets a key to another value, or adds it.
    pub(crate) fn replace(self, key: &str, value: Value) -> Self {
        self.without(key).value(key, value)
    }

    /// Adds a string.
    pub(crate) fn text(self, key: &str, text: &str) -> Self {
        self.value(key, Value::Text(text.to_owned()))
    }

    /// Adds an unsigned number.
    pub(crate) fn u32(self, key: &str, value: u32) -> Self {
        self.value(key, Value::U32(value))
    }

    /// Adds a float.
    pub(crate) fn f32(self, key: &str, value: f32) -> Self {
        self.value(key, Value::F32(value))
    }

    /// Adds an array of strings.
    pub(crate) fn strings<S: AsRef<str>>(self, key: &str, texts: &[S]) -> Self {
        let mut strings = super::Strings::default();
        for text in texts {
            strings.push(text.as_ref());
        }
        self.value(key, Value::Array(Array::Text(strings)))
    }

    /// Adds an array of i32.
    pub(crate) fn i32s(self, key: &str, values: &[i32]) -> Self {
        self.value(key, Value::Array(Array::I32(values.to_vec())))
    }

    /// Adds a tensor with its bytes; `dims` fastest axis first.
    pub(crate) fn tensor(self, name: &str, dims: &[u64], kind: TensorKind, data: Vec<u8>) -> Self {
        self.raw_tensor(name, dims, kind.id(), data, None)
    }

    /// Leaves a key out.
    pub(crate) fn without(mut self, key: &str) -> Self {
        self.metadata.retain(|(known, _)| known != key);
        self
    }

    /// Leaves a tensor out.
    pub(crate) fn without_tensor(mut self, name: &str) -> Self {
        self.tensors.retain(|tensor| tensor.name != name);
        self
    }

    /// Adds a tensor of f32.
    pub(crate) fn f32_tensor(self, name: &str, dims: &[u64], values: &[f32]) -> Self {
        let data = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.tensor(name, dims, TensorKind::F32, data)
    }

    /// Adds a tensor of any type number, whose row may state another offset than its data has.
    pub(crate) fn raw_tensor(
        mut self,
        name: &str,
        dims: &[u64],
        kind: u32,
        data: Vec<u8>,
        offset: Option<u64>,
    ) -> Self {
        self.tensors.push(Tensor {
            name: name.to_owned(),
            dims: dims.to_vec(),
            kind,
            data,
            offset,
        });
        self
    }

    /// The file's bytes up to the end of the header, without padding.
    pub(crate) fn header(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, value) in &self.metadata {
            put_text(&mut out, key);
            put_value(&mut out, value);
        }
        let mut next = 0_u64;
        for tensor in &self.tensors {
            put_text(&mut out, &tensor.name);
            out.extend((tensor.dims.len() as u32).to_le_bytes());
            out.extend(tensor.dims.iter().flat_map(|axis| axis.to_le_bytes()));
            out.extend(tensor.kind.to_le_bytes());
            out.extend(tensor.offset.unwrap_or(next).to_le_bytes());
            next = self.pad(next + tensor.data.len() as u64);
        }
        out
    }

    /// The whole file.
    pub(crate) fn build(&self) -> Vec<u8> {
        let mut out = self.header();
        for tensor in &self.tensors {
            out.resize(self.pad(out.len() as u64) as usize, 0);
            out.extend(&tensor.data);
        }
        out
    }

    /// The same model in `count` files: tensors in turns, all else in the first.
    pub(crate) fn split(&self, count: usize) -> Vec<Self> {
        let part = |number: usize| {
            let metadata = if number == 0 { &self.metadata[..] } else { &[] };
            let tensors = self.tensors.iter().skip(number).step_by(count);
            let part = Self {
                metadata: metadata.to_vec(),
                tensors: tensors.cloned().collect(),
                alignment: if number == 0 { self.alignment } else { 32 },
                ..*self
            };
            part.value("split.no", Value::U16(number as u16))
                .value("split.count", Value::U16(count as u16))
                .value("split.tensors.count", Value::I32(self.tensors.len() as i32))
        };
        (0..count).map(part).collect()
    }

    /// Writes the whole file into `folder`.
    pub(crate) fn write(&self, folder: &Path) -> PathBuf {
        write(folder, &self.build())
    }

    fn pad(&self, at: u64) -> u64 {
        at.next_multiple_of(self.alignment.max(1))
    }
}

/// Writes bytes as `folder/model.gguf`.
pub(crate) fn write(folder: &Path, bytes: &[u8]) -> PathBuf {
    let path = folder.join("model.gguf");
    std::fs::write(&path, bytes).expect("the test's folder can be written");
    path
}

/// Writes parts under the names that they must have; returns the first one's.
pub(crate) fn write_parts(folder: &Path, parts: &[GgufBuilder]) -> PathBuf {
    let path = |number: usize| folder.join(format!("model-{number:05}-of-{:05}.gguf", parts.len()));
    for (index, part) in parts.iter().enumerate() {
        std::fs::write(path(index + 1), part.build()).expect("the test's folder can be written");
    }
    path(1)
}

/// Appends a length and the text.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

/// Appends a type number and the value.
fn put_value(out: &mut Vec<u8>, value: &Value) {
    macro_rules! scalar {
        ($id:literal, $value:expr) => {{
            out.extend(u32::to_le_bytes($id));
            out.extend($value.to_le_bytes());
        }};
    }
    match value {
        Value::U8(value) => scalar!(0, value),
        Value::I8(value) => scalar!(1, value),
        Value::U16(value) => scalar!(2, value),
        Value::I16(value) => scalar!(3, value),
        Value::U32(value) => scalar!(4, value),
        Value::I32(value) => scalar!(5, value),
        Value::F32(value) => scalar!(6, value),
        Value::Bool(value) => scalar!(7, u8::from(*value)),
        Value::U64(value) => scalar!(10, value),
        Value::I64(value) => scalar!(11, value),
        Value::F64(value) => scalar!(12, value),
        Value::Text(text) => {
            out.extend(8_u32.to_le_bytes());
            put_text(out, text);
        }
        Value::Array(array) => {
            out.extend(9_u32.to_le_bytes());
            put_array(out, array);
        }
    }
}

/// Appends an element type, a count and the elements.
fn put_array(out: &mut Vec<u8>, array: &Array) {
    macro_rules! numbers {
        ($id:literal, $values:expr) => {{
            out.extend(u32::to_le_bytes($id));
            out.extend(($values.len() as u64).to_le_bytes());
            out.extend($values.iter().flat_map(|value| value.to_le_bytes()));
        }};
    }
    match array {
        Array::U8(values) => numbers!(0, values),
        Array::I8(values) => numbers!(1, values),
        Array::U16(values) => numbers!(2, values),
        Array::I16(values) => numbers!(3, values),
        Array::U32(values) => numbers!(4, values),
        Array::I32(values) => numbers!(5, values),
        Array::F32(values) => numbers!(6, values),
        Array::U64(values) => numbers!(10, values),
        Array::I64(values) => numbers!(11, values),
        Array::F64(values) => numbers!(12, values),
        Array::Bool(values) => {
            let bytes: Vec<u8> = values.iter().map(|value| u8::from(*value)).collect();
            numbers!(7, bytes);
        }
        Array::Text(values) => {
            out.extend(8_u32.to_le_bytes());
            out.extend((values.len() as u64).to_le_bytes());
            for text in values.iter() {
                put_text(out, text);
            }
        }
    }
}
