//! The header of one file: a length, and that many bytes of JSON that give each tensor its type, shape and place.
//!
//! Pure: bytes in, a checked table or the field at fault out. Nothing is trusted; what is kept grows with the bytes
//! that are there and not with what they claim.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::dtype::Dtype;
use crate::model::gguf::Fault;

/// Bytes of the length before the header.
pub(super) const LENGTH: u64 = 8;
/// Longest header by the format.
const FORMAT_MAX: u64 = 100_000_000;
/// Longest header that is read. The largest of published models are a tenth of it.
const MAX_HEADER: u64 = 16 << 20;
/// Most tensors of one file.
const MAX_TENSORS: usize = 65_536;
/// Longest name in bytes.
const MAX_NAME: usize = 255;
/// Most axes.
const MAX_AXES: usize = 8;
/// What a refused element type is shown by, in characters.
const SHOWN: usize = 32;

/// A tensor that is known to lie wholly inside the file's data, apart from all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    /// Slowest axis first.
    pub(super) shape: Vec<u64>,
    /// First byte, from the start of the data.
    pub(super) start: u64,
    pub(super) bytes: u64,
}

/// The part of a header at fault.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) field: String,
    pub(super) fault: Fault,
}

impl Problem {
    fn new(field: &str, fault: Fault) -> Self {
        Self {
            field: field.to_owned(),
            fault,
        }
    }

    fn invalid(field: &str, reason: impl Into<String>) -> Self {
        Self::new(field, Fault::Invalid(reason.into()))
    }
}

/// The header's length, of a file of `size` bytes that starts with `first`.
pub(super) fn length(first: [u8; LENGTH as usize], size: u64) -> Result<usize, Problem> {
    let field = "header length";
    let other = match &first {
        b"version " => {
            Some("it looks like a git-lfs pointer to one, the file itself was not downloaded")
        }
        [b'P', b'K', 3, 4, ..] => Some("it is a zip archive, as PyTorch writes them; convert it"),
        [b'G', b'G', b'U', b'F', ..] => Some("it is a GGUF file"),
        [b'<', b'!' | b'h' | b'H', ..] => Some("it is a web page"),
        _ => None,
    };
    if let Some(what) = other {
        return Err(Problem::invalid(
            field,
            format!("not a safetensors file: {what}"),
        ));
    }
    let length = u64::from_le_bytes(first);
    if length > FORMAT_MAX {
        let reason = format!("{length} bytes; the format allows {FORMAT_MAX}");
        return Err(Problem::invalid(field, reason));
    }
    let expected = LENGTH + length;
    if expected > size {
        let actual = size;
        return Err(Problem::new(field, Fault::Truncated { expected, actual }));
    }
    if length > MAX_HEADER {
        let what = format!("a header of {length} bytes, more than {MAX_HEADER},");
        return Err(Problem::new(field, Fault::Unsupported(what)));
    }
    Ok(length as usize)
}

/// Parses and checks the JSON of a header that `data` bytes follow. The tensors come in the order of their bytes, which
/// they share out among them without gap or overlap.
pub(super) fn parse(json: &[u8], data: u64) -> Result<Vec<Entry>, Problem> {
    if json.first() != Some(&b'{') {
        return Err(Problem::invalid("header", "does not start with `{`"));
    }
    let mut table = Table::default();
    let mut json = serde_json::Deserializer::from_slice(json);
    let parsed = (&mut table)
        .deserialize(&mut json)
        .and_then(|()| json.end());
    if let Err(error) = parsed {
        // The place in the header, or what the table itself found wrong.
        return Err(table
            .problem
            .unwrap_or_else(|| Problem::invalid("header", error.to_string())));
    }
    let mut entries = table.entries;
    entries.sort_by_key(|entry| (entry.start, entry.bytes));
    check_complete(&entries, data)?;
    Ok(entries)
}

/// The format has the tensors' bytes follow each other from the first to the last of the data.
fn check_complete(entries: &[Entry], data: u64) -> Result<(), Problem> {
    let mut end = 0;
    for entry in entries {
        if entry.start != end {
            let what = if entry.start < end {
                "shares bytes with the tensor before it"
            } else {
                "leaves a gap before it"
            };
            let reason = format!(
                "starts at {} where {end} is expected: it {what}",
                entry.start
            );
            return Err(Problem::invalid(&entry.name, reason));
        }
        // Cannot overflow: `bytes` is the end that the header states less the start.
        end = entry.start + entry.bytes;
        if end > data {
            let fault = Fault::Truncated {
                expected: end,
                actual: data,
            };
            return Err(Problem::new(&entry.name, fault));
        }
    }
    if end != data {
        let reason = format!("{data} bytes, of which the tensors take {end}");
        return Err(Problem::invalid("tensor data", reason));
    }
    Ok(())
}

/// The table being read.
#[derive(Default)]
struct Table {
    entries: Vec<Entry>,
    names: HashSet<String>,
    problem: Option<Problem>,
}

impl<'de> DeserializeSeed<'de> for &mut Table {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Table {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut stated_metadata = false;
        while let Some(Name(name)) = map.next_key()? {
            if name == "__metadata__" {
                if std::mem::replace(&mut stated_metadata, true) {
                    return self.refuse(Problem::new(&name, Fault::Duplicate));
                }
                let checked = map.next_value::<Metadata>();
                self.note(&name, checked)?;
                continue;
            }
            if name.is_empty() || name.len() > MAX_NAME {
                let reason = format!(
                    "a name of {} bytes, from 1 to {MAX_NAME} are possible",
                    name.len()
                );
                return self.refuse(Problem::invalid(&name, reason));
            }
            if self.names.contains(&*name) {
                return self.refuse(Problem::new(&name, Fault::Duplicate));
            }
            let stated = map.next_value::<Stated<'_>>();
            let stated = self.note(&name, stated)?;
            match stated.place(&name) {
                Ok(entry) => self.entries.push(entry),
                Err(problem) => return self.refuse(problem),
            }
            if self.entries.len() > MAX_TENSORS {
                return self.refuse(Problem::invalid(
                    "header",
                    format!("more than {MAX_TENSORS} tensors"),
                ));
            }
            self.names.insert(name.into_owned());
        }
        Ok(())
    }
}

impl Table {
    /// Keeps a problem for who asked; the error itself only ends the reading.
    fn refuse<T, E: Error>(&mut self, problem: Problem) -> Result<T, E> {
        self.problem = Some(problem);
        Err(E::custom("refused"))
    }

    /// Names the tensor whose value is not what it must be.
    fn note<T, E: Error>(&mut self, name: &str, value: Result<T, E>) -> Result<T, E> {
        value.inspect_err(|error| self.problem = Some(Problem::invalid(name, error.to_string())))
    }
}

/// A key, borrowed from the header where it has no escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// What a header says of a tensor.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stated<'a> {
    #[serde(borrow)]
    dtype: Cow<'a, str>,
    shape: Shape,
    data_offsets: (u64, u64),
}

impl Stated<'_> {
    fn place(self, name: &str) -> Result<Entry, Problem> {
        let Some(dtype) = Dtype::named(&self.dtype) else {
            let shown: String = self
                .dtype
                .chars()
                .take(SHOWN)
                .flat_map(char::escape_debug)
                .collect();
            return Err(Problem::new(
                name,
                Fault::Unsupported(format!("dtype \"{shown}\"")),
            ));
        };
        let shape = self.shape.0;
        let bytes = shape
            .iter()
            .try_fold(dtype.bytes, |bytes, axis| bytes.checked_mul(*axis));
        let Some(bytes) = bytes else {
            let reason = format!("size of {shape:?} as {} does not fit 64 bits", dtype.name);
            return Err(Problem::invalid(name, reason));
        };
        let (start, end) = self.data_offsets;
        if end.checked_sub(start) != Some(bytes) {
            let reason = format!(
                "data_offsets [{start}, {end}] are not {bytes} bytes apart, as {shape:?} of {} takes",
                dtype.name
            );
            return Err(Problem::invalid(name, reason));
        }
        Ok(Entry {
            name: name.to_owned(),
            dtype,
            shape,
            start,
            bytes,
        })
    }
}

/// A shape; longer lists than any tensor has are refused while they are read.
struct Shape(Vec<u64>);

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: serde::Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Axes;
        impl<'de> Visitor<'de> for Axes {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a shape of up to {MAX_AXES} axes")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Shape, A::Error> {
                let mut axes = Vec::new();
                while let Some(axis) = list.next_element()? {
                    if axes.len() == MAX_AXES {
                        return Err(A::Error::invalid_length(MAX_AXES + 1, &self));
                    }
                    axes.push(axis);
                }
                Ok(Shape(axes))
            }
        }
        json.deserialize_seq(Axes)
    }
}

/// Texts for people, of which nothing is kept.
struct Metadata;

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: serde::Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Texts;
        impl<'de> Visitor<'de> for Texts {
            type Value = Metadata;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
                while map.next_key::<IgnoredAny>()?.is_some() {
                    map.next_value::<Name<'_>>()?;
                }
                Ok(Metadata)
            }
        }
        json.deserialize_map(Texts)
    }
}
