//! Models in several files, `NAME-00001-of-00003.gguf` and so on. The first says what the model is, the others hold more
//! of its tensors; each says which part of how many it is.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::error::{Fault, ModelFileError};
use super::layout::{self, TensorInfo};
use super::metadata::Metadata;
use super::{header, source};

/// Parts of the model.
const COUNT: &str = "split.count";
/// Which of them this is, from 0.
const NUMBER: &str = "split.no";
/// Tensors in all of them.
const TENSORS: &str = "split.tensors.count";
/// Each is held open, and a process may open few more files than this.
const MAX_PARTS: u32 = 512;
/// Tensors of one model; the largest published ones have a few thousand.
const MAX_TENSORS: usize = 65_536;

/// One file of a model, open.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) size: u64,
    /// How many tensors lie in it.
    pub(super) tensors: usize,
}

/// A file whose header has been checked by itself.
pub(super) struct Opened {
    pub(super) part: Part,
    pub(super) version: u32,
    pub(super) metadata: Metadata,
    pub(super) tensors: Vec<TensorInfo>,
}

impl Opened {
    /// Opens a file; its tensors are those of part `index`.
    pub(super) fn read(path: &Path, index: usize) -> Result<Self, ModelFileError> {
        let (file, size) = source::open_regular(path)?;
        let mut source = source::Source::new(path, &file, size);
        let mut header = header::parse(&mut source)?;
        let mut tensors = layout::place(&source, &mut header)?;
        drop(source);
        for tensor in &mut tensors {
            tensor.part = index;
        }
        Ok(Self {
            part: Part {
                path: path.to_owned(),
                size,
                file,
                tensors: tensors.len(),
            },
            version: header.version,
            metadata: Metadata::new(path, header.metadata),
            tensors,
        })
    }
}

/// What a part says of its place in the whole.
struct Place {
    count: u32,
    number: u32,
    tensors: usize,
}

impl Place {
    /// `None` for a model in one file.
    fn of(metadata: &Metadata) -> Result<Option<Self>, ModelFileError> {
        let count = metadata.opt_u32(COUNT)?.unwrap_or(0);
        if count <= 1 && metadata.opt_u32(NUMBER)?.unwrap_or(0) == 0 {
            return Ok(None);
        }
        let number = metadata.u32(NUMBER)?;
        let invalid = |key, reason| Err(metadata.error(key, Fault::Invalid(reason)));
        if number >= count {
            return invalid(NUMBER, format!("{number} in a model of {count} parts"));
        }
        if count > MAX_PARTS {
            return invalid(COUNT, format!("{count} exceeds {MAX_PARTS}"));
        }
        let tensors = metadata.u32(TENSORS)? as usize;
        if tensors > MAX_TENSORS {
            return invalid(TENSORS, format!("{tensors} exceeds {MAX_TENSORS}"));
        }
        Ok(Some(Self {
            count,
            number,
            tensors,
        }))
    }
}

/// Opens the other parts of the model whose first file is `first`: none where it is the only one.
///
/// # Errors
/// Names the file that is missing or does not belong to the first one, and the key that says so.
pub(super) fn others(first: &Opened) -> Result<Vec<Opened>, ModelFileError> {
    let Some(place) = Place::of(&first.metadata)? else {
        return Ok(Vec::new());
    };
    let invalid = |key, reason| first.metadata.error(key, Fault::Invalid(reason));
    let Some(stem) = stem(&first.part.path, &place) else {
        let ending = ending(place.number, place.count);
        return Err(invalid(
            NUMBER,
            format!("the name does not end in {ending}"),
        ));
    };
    let path = |number| {
        let name = format!("{stem}{}", ending(number, place.count));
        first.part.path.with_file_name(name)
    };
    if place.number != 0 {
        let (number, count) = (place.number + 1, place.count);
        let reason = format!("part {number} of {count}; open {}", path(0).display());
        return Err(invalid(NUMBER, reason));
    }
    let mut total = first.tensors.len();
    let mut others = Vec::new();
    for number in 1..place.count {
        let mut other = part(&path(number), number, place.count)?;
        check(&other.metadata, first, &place, number)?;
        // It only repeats the first part's: hundreds of copies of a vocabulary are not kept.
        other.metadata = Metadata::new(&other.part.path, BTreeMap::new());
        total += other.tensors.len();
        if total > place.tensors {
            break;
        }
        others.push(other);
    }
    if total != place.tensors {
        let reason = format!(
            "{} tensors are promised, the parts have {total}",
            place.tensors
        );
        return Err(invalid(TENSORS, reason));
    }
    Ok(others)
}

fn part(path: &Path, number: u32, count: u32) -> Result<Opened, ModelFileError> {
    Opened::read(path, number as usize).map_err(|error| match error.fault {
        Fault::Io(cause) if cause.kind() == io::ErrorKind::NotFound => {
            let reason = format!("no such file; it is part {} of {count}", number + 1);
            ModelFileError::new(path, "file", Fault::Invalid(reason))
        }
        _ => error,
    })
}

/// Whether a part belongs to the first and is the one that its name says. What it says of the model must be what the
/// first says, since nobody reads it.
fn check(
    other: &Metadata,
    first: &Opened,
    place: &Place,
    number: u32,
) -> Result<(), ModelFileError> {
    for (key, expected) in [
        (COUNT, place.count as usize),
        (NUMBER, number as usize),
        (TENSORS, place.tensors),
    ] {
        let found = other.u32(key)? as usize;
        if found != expected {
            let reason = format!("{found} where the name and the first part say {expected}");
            return Err(other.error(key, Fault::Invalid(reason)));
        }
    }
    for (key, value) in other.iter() {
        // How a file is laid out is its own affair.
        let own = key.starts_with("split.") || key == layout::ALIGNMENT_KEY;
        if !own && first.metadata.get(key) != Some(value) {
            let reason = "is not what the first part says".to_owned();
            return Err(other.error(key, Fault::Invalid(reason)));
        }
    }
    Ok(())
}

/// How the name of a part ends; names count from 1.
fn ending(number: u32, count: u32) -> String {
    format!("-{:05}-of-{count:05}.gguf", number + 1)
}

/// The name of a part's file without its ending.
fn stem<'a>(path: &'a Path, place: &Place) -> Option<&'a str> {
    path.file_name()?
        .to_str()?
        .strip_suffix(&ending(place.number, place.count))
}
