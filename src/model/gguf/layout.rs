//! Where each tensor lies: alignment, sizes and offsets, checked against each other and against the file's size.

use std::collections::HashMap;

use super::error::{Fault, ModelFileError};
use super::header::{Entry, Header};
use super::kind::TensorKind;
use super::source::Source;
use super::value::Value;

/// The key that sets the alignment of tensor data.
pub(super) const ALIGNMENT_KEY: &str = "general.alignment";
/// Alignment where a file does not say.
const DEFAULT_ALIGNMENT: u64 = 32;

/// A tensor that is known to lie wholly inside the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name, unique in the file.
    pub name: String,
    /// Axes in the file's order, fastest first: a matrix of `rows` by `columns` has `[columns, rows]`.
    pub dims: Vec<u64>,
    /// Storage of the elements.
    pub kind: TensorKind,
    /// Which of the model's files it lies in, from 0.
    pub part: usize,
    /// First byte, from the start of the file.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

impl TensorInfo {
    /// Number of elements.
    #[must_use]
    pub fn elements(&self) -> u64 {
        // Does not overflow for a tensor that lies in a file; saturating all the same, since the fields are public.
        self.dims
            .iter()
            .fold(1, |count, axis| count.saturating_mul(*axis))
    }
}

/// Checks the tensor table and places each tensor in the file.
pub(super) fn place(
    source: &Source,
    header: &mut Header,
) -> Result<Vec<TensorInfo>, ModelFileError> {
    let alignment = alignment(source, header)?;
    let entries = std::mem::take(&mut header.tensors);
    let start = header.end.checked_next_multiple_of(alignment);
    let mut tensors = Vec::with_capacity(entries.len());
    let mut expected = 0;
    for entry in entries {
        let tensor = locate(source, entry, alignment, start)?;
        // Cannot overflow: `locate` checked this sum.
        expected = expected.max(tensor.offset + tensor.bytes);
        tensors.push(tensor);
    }
    if expected > source.size() {
        let outside = tensors
            .iter()
            .find(|tensor| tensor.offset + tensor.bytes > source.size());
        let field = outside.map_or("tensor data", |tensor| &tensor.name);
        let actual = source.size();
        return Err(source.error(field, Fault::Truncated { expected, actual }));
    }
    check_apart(source, &tensors)?;
    Ok(tensors)
}

fn alignment(source: &Source, header: &Header) -> Result<u64, ModelFileError> {
    let value = match header.metadata.get(ALIGNMENT_KEY) {
        None => return Ok(DEFAULT_ALIGNMENT),
        Some(Value::U32(value)) => u64::from(*value),
        Some(other) => {
            let fault = Fault::WrongType {
                expected: "u32",
                actual: other.kind(),
            };
            return Err(source.error(ALIGNMENT_KEY, fault));
        }
    };
    if !value.is_power_of_two() {
        return Err(source.invalid(ALIGNMENT_KEY, format!("{value} is not a power of two")));
    }
    Ok(value)
}

fn locate(
    source: &Source,
    entry: Entry,
    alignment: u64,
    start: Option<u64>,
) -> Result<TensorInfo, ModelFileError> {
    let Entry {
        name,
        dims,
        kind,
        offset,
    } = entry;
    if dims.contains(&0) {
        return Err(source.invalid(&name, format!("an axis of {dims:?} is zero")));
    }
    let block = kind.block_elements();
    if !dims.first().unwrap_or(&1).is_multiple_of(block) {
        return Err(source.invalid(
            &name,
            format!("first axis of {dims:?} is not a multiple of {block}, the block of {kind}"),
        ));
    }
    let too_large = || {
        source.invalid(
            &name,
            format!("size of {dims:?} as {kind} does not fit 64 bits"),
        )
    };
    let bytes = kind.bytes(&dims).ok_or_else(too_large)?;
    if !offset.is_multiple_of(alignment) {
        return Err(source.invalid(
            &name,
            format!("offset {offset} is not a multiple of the alignment {alignment}"),
        ));
    }
    let first = start.and_then(|start| start.checked_add(offset));
    let Some(first) = first.filter(|first| first.checked_add(bytes).is_some()) else {
        return Err(source.invalid(&name, format!("offset {offset} does not fit 64 bits")));
    };
    Ok(TensorInfo {
        name,
        dims,
        kind,
        part: 0,
        offset: first,
        bytes,
    })
}

/// Refuses two tensors of one name, and two that share bytes.
fn check_apart(source: &Source, tensors: &[TensorInfo]) -> Result<(), ModelFileError> {
    let mut names = HashMap::with_capacity(tensors.len());
    for tensor in tensors {
        if names.insert(tensor.name.as_str(), ()).is_some() {
            return Err(source.error(&tensor.name, Fault::Duplicate));
        }
    }
    let mut by_offset: Vec<&TensorInfo> = tensors.iter().collect();
    by_offset.sort_by_key(|tensor| tensor.offset);
    for pair in by_offset.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        if before.offset + before.bytes > after.offset {
            return Err(source.invalid(
                &after.name,
                format!("shares bytes with {}", before.name.escape_debug()),
            ));
        }
    }
    Ok(())
}
