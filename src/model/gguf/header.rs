//! Parses the header: magic, version, metadata and the table of tensors. Nothing of it is trusted.

use std::collections::BTreeMap;

use super::error::{Fault, ModelFileError};
use super::kind::TensorKind;
use super::source::Source;
use super::value::{Array, Strings, Value};

/// Most metadata keys; real files have under a hundred. Bounds what a large hostile file makes us keep per key.
const MAX_KEYS: u64 = 16_384;
/// Most tensors; the largest published models have a few thousand per file.
const MAX_TENSORS: u64 = 16_384;
/// Longest key, by the format.
const MAX_KEY: u64 = 65_535;
/// Longest tensor name. The reference implementation stops at 63.
const MAX_NAME: u64 = 255;
/// Longest single text, a chat template for example.
const MAX_TEXT: u64 = 16 << 20;
/// Most axes, by the format.
const MAX_AXES: u32 = 4;

/// A parsed header.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) version: u32,
    pub(super) metadata: BTreeMap<String, Value>,
    pub(super) tensors: Vec<Entry>,
    /// Bytes up to here are header.
    pub(super) end: u64,
}

/// A row of the tensor table, as stated.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) dims: Vec<u64>,
    pub(super) kind: TensorKind,
    /// From the start of the tensor data.
    pub(super) offset: u64,
}

/// Reads a header from the start of a file.
pub(super) fn parse(source: &mut Source) -> Result<Header, ModelFileError> {
    magic(source)?;
    let version = version(source)?;
    let tensor_count = source.number("tensor count", u64::from_le_bytes)?;
    let key_count = source.number("metadata count", u64::from_le_bytes)?;
    // Least: a name or key length and a byte of it, axis count, type, offset; key type and a byte of value.
    source.check_count("tensor count", tensor_count, 8 + 1 + 4 + 4 + 8)?;
    source.check_count("metadata count", key_count, 8 + 1 + 4 + 1)?;
    if tensor_count > MAX_TENSORS {
        return Err(source.invalid(
            "tensor count",
            format!("{tensor_count} exceeds {MAX_TENSORS}"),
        ));
    }
    if key_count > MAX_KEYS {
        return Err(source.invalid("metadata count", format!("{key_count} exceeds {MAX_KEYS}")));
    }
    let metadata = metadata(source, key_count)?;
    let tensors = (0..tensor_count)
        .map(|index| entry(source, index))
        .collect::<Result<_, _>>()?;
    Ok(Header {
        version,
        metadata,
        tensors,
        end: source.at(),
    })
}

fn magic(source: &mut Source) -> Result<(), ModelFileError> {
    let mut magic = [0; 4];
    source.read("magic", &mut magic)?;
    let reason = match &magic {
        b"GGUF" => return Ok(()),
        b"vers" => "not a GGUF file; it looks like a git-lfs pointer to one, the file itself was not downloaded".to_owned(),
        b"PK\x03\x04" => "not a GGUF file but a zip archive".to_owned(),
        b"lmgg" | b"tjgg" | b"fmgg" | b"algg" => "a file of the time before GGUF; convert it".to_owned(),
        b"<!DO" | b"<!do" | b"<htm" | b"<HTM" => "not a GGUF file but a web page".to_owned(),
        other => format!("not a GGUF file: starts with \"{}\"", other.escape_ascii()),
    };
    Err(source.invalid("magic", reason))
}

fn version(source: &mut Source) -> Result<u32, ModelFileError> {
    let version = source.number("version", u32::from_le_bytes)?;
    let what = match version {
        2 | 3 => return Ok(version),
        _ if (1..=3).contains(&version.swap_bytes()) => "a big-endian file".to_owned(),
        _ => format!("version {version}"),
    };
    Err(source.error("version", Fault::Unsupported(what)))
}

fn metadata(source: &mut Source, count: u64) -> Result<BTreeMap<String, Value>, ModelFileError> {
    let mut values = BTreeMap::new();
    let mut scratch = Vec::new();
    for index in 0..count {
        let place = format!("metadata key {index}");
        let key = source.text(&place, MAX_KEY, &mut scratch)?.to_owned();
        if key.is_empty() {
            return Err(source.invalid(&place, "name is empty"));
        }
        if values.contains_key(&key) {
            return Err(source.error(&key, Fault::Duplicate));
        }
        let kind = source.number(&key, u32::from_le_bytes)?;
        let value = value(source, &key, kind)?;
        values.insert(key, value);
    }
    Ok(values)
}

fn value(source: &mut Source, key: &str, kind: u32) -> Result<Value, ModelFileError> {
    Ok(match kind {
        0 => Value::U8(source.number(key, u8::from_le_bytes)?),
        1 => Value::I8(source.number(key, i8::from_le_bytes)?),
        2 => Value::U16(source.number(key, u16::from_le_bytes)?),
        3 => Value::I16(source.number(key, i16::from_le_bytes)?),
        4 => Value::U32(source.number(key, u32::from_le_bytes)?),
        5 => Value::I32(source.number(key, i32::from_le_bytes)?),
        6 => Value::F32(source.number(key, f32::from_le_bytes)?),
        7 => {
            let byte = source.number(key, u8::from_le_bytes)?;
            Value::Bool(truth(source, key, byte)?)
        }
        8 => Value::Text(source.text(key, MAX_TEXT, &mut Vec::new())?.to_owned()),
        9 => Value::Array(array(source, key)?),
        10 => Value::U64(source.number(key, u64::from_le_bytes)?),
        11 => Value::I64(source.number(key, i64::from_le_bytes)?),
        12 => Value::F64(source.number(key, f64::from_le_bytes)?),
        _ => return Err(source.error(key, Fault::Unsupported(format!("value type {kind}")))),
    })
}

fn truth(source: &Source, key: &str, byte: u8) -> Result<bool, ModelFileError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(source.invalid(key, format!("a bool is 0 or 1, not {byte}"))),
    }
}

fn array(source: &mut Source, key: &str) -> Result<Array, ModelFileError> {
    let kind = source.number(key, u32::from_le_bytes)?;
    let count = source.number(key, u64::from_le_bytes)?;
    Ok(match kind {
        0 => Array::U8(source.numbers(key, count, u8::from_le_bytes)?),
        1 => Array::I8(source.numbers(key, count, i8::from_le_bytes)?),
        2 => Array::U16(source.numbers(key, count, u16::from_le_bytes)?),
        3 => Array::I16(source.numbers(key, count, i16::from_le_bytes)?),
        4 => Array::U32(source.numbers(key, count, u32::from_le_bytes)?),
        5 => Array::I32(source.numbers(key, count, i32::from_le_bytes)?),
        6 => Array::F32(source.numbers(key, count, f32::from_le_bytes)?),
        7 => {
            let bytes = source.numbers(key, count, u8::from_le_bytes)?;
            for byte in &bytes {
                truth(source, key, *byte)?;
            }
            Array::Bool(bytes.into_iter().map(|byte| byte == 1).collect())
        }
        8 => Array::Text(strings(source, key, count)?),
        9 => return Err(source.error(key, Fault::Unsupported("an array of arrays".to_owned()))),
        10 => Array::U64(source.numbers(key, count, u64::from_le_bytes)?),
        11 => Array::I64(source.numbers(key, count, i64::from_le_bytes)?),
        12 => Array::F64(source.numbers(key, count, f64::from_le_bytes)?),
        _ => {
            return Err(source.error(
                key,
                Fault::Unsupported(format!("an array of value type {kind}")),
            ));
        }
    })
}

fn strings(source: &mut Source, key: &str, count: u64) -> Result<Strings, ModelFileError> {
    source.check_count(key, count, 8)?;
    // What is left of the header after the lengths is text at most; growing by doubling would take twice that.
    let text = source.room().saturating_sub(8 * count);
    let mut strings = Strings::with_capacity(count as usize, text as usize);
    let mut scratch = Vec::new();
    for _ in 0..count {
        strings.push(source.text(key, MAX_TEXT, &mut scratch)?);
    }
    // Shrinking may copy: not beside the longest string.
    drop(scratch);
    strings.shrink();
    Ok(strings)
}

fn entry(source: &mut Source, index: u64) -> Result<Entry, ModelFileError> {
    let place = format!("tensor {index}");
    let name = source.text(&place, MAX_NAME, &mut Vec::new())?.to_owned();
    if name.is_empty() {
        return Err(source.invalid(&place, "name is empty"));
    }
    let axes = source.number(&name, u32::from_le_bytes)?;
    if axes > MAX_AXES {
        return Err(source.invalid(&name, format!("{axes} axes, more than {MAX_AXES}")));
    }
    let dims = source.numbers(&name, u64::from(axes), u64::from_le_bytes)?;
    let id = source.number(&name, u32::from_le_bytes)?;
    let Some(kind) = TensorKind::from_id(id) else {
        return Err(source.error(&name, Fault::Unsupported(format!("tensor type {id}"))));
    };
    let offset = source.number(&name, u64::from_le_bytes)?;
    Ok(Entry {
        name,
        dims,
        kind,
        offset,
    })
}
