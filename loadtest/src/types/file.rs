//! Writes GGUF files for the measurement: the model of another file in another type.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

use compere::model::gguf::{GgufFile, TensorKind};
use compere_cpu::{Matrix, WeightKind};

use super::quantise::quantise;
use crate::Failure;

/// Start of each tensor's data, in bytes.
const ALIGNMENT: usize = 32;

/// The types that the decoder computes with, as files and kernels know them.
pub(super) const TYPES: [(TensorKind, WeightKind); 11] = [
    (TensorKind::Q4_1, WeightKind::Q4_1),
    (TensorKind::Q4_0, WeightKind::Q4_0),
    (TensorKind::Q4_K, WeightKind::Q4_K),
    (TensorKind::Q5_0, WeightKind::Q5_0),
    (TensorKind::Q5_1, WeightKind::Q5_1),
    (TensorKind::Q5_K, WeightKind::Q5_K),
    (TensorKind::Q6_K, WeightKind::Q6_K),
    (TensorKind::Q8_0, WeightKind::Q8_0),
    (TensorKind::F16, WeightKind::F16),
    (TensorKind::BF16, WeightKind::BF16),
    (TensorKind::F32, WeightKind::F32),
];

/// What tensors of rows that `kind` does not divide are stored as: what llama.cpp takes in its place.
fn fitting(kind: TensorKind, dims: &[u64]) -> TensorKind {
    if dims.len() < 2 {
        return TensorKind::F32;
    }
    if dims[0].is_multiple_of(kind.block_elements()) {
        return kind;
    }
    match kind {
        TensorKind::Q4_K => TensorKind::Q5_0,
        TensorKind::Q5_K => TensorKind::Q5_1,
        _ => TensorKind::Q8_0,
    }
}

/// Writes the model at `source` with its matrices as `kind`, where their rows allow.
pub(super) fn convert(source: &Path, kind: TensorKind, target: &Path) -> Result<(), Failure> {
    let file = GgufFile::open(source)?;
    let tensors: Vec<(&str, &[u64])> = file
        .tensors()
        .iter()
        .map(|tensor| (tensor.name.as_str(), tensor.dims.as_slice()))
        .collect();
    let mut bytes = Vec::new();
    let mut out = Writer::new(target, &metadata(&file)?, &tensors, kind)?;
    for tensor in file.tensors() {
        file.read_tensor(tensor, &mut bytes)?;
        let cols = usize::try_from(tensor.dims[0])?;
        let rows = usize::try_from(tensor.elements())? / cols;
        let weights = TYPES.iter().find(|(kind, _)| *kind == tensor.kind);
        let (_, weights) = weights.ok_or("a tensor of another type")?;
        let matrix = Matrix::pack(*weights, rows, cols, &bytes)?;
        out.tensor(&tensor.dims, kind, |row, numbers| matrix.row(row, numbers))?;
    }
    out.finish()
}

/// The bytes before the table of tensors.
fn metadata(file: &GgufFile) -> Result<Vec<u8>, Failure> {
    let first = file.tensors().first().ok_or("a model without tensors")?;
    let start = file.tensors().iter().map(|tensor| tensor.offset).min();
    let mut bytes = Vec::new();
    File::open(file.path())?
        .take(start.unwrap_or_default())
        .read_to_end(&mut bytes)?;
    let row = table_row(&first.name, &first.dims, first.kind, 0);
    // All but the offset, which need not be 0.
    let row = &row[..row.len() - 8];
    let end = bytes.windows(row.len()).rposition(|part| part == row);
    bytes.truncate(end.ok_or("no table of tensors")?);
    Ok(bytes)
}

fn table_row(name: &str, dims: &[u64], kind: TensorKind, offset: usize) -> Vec<u8> {
    let mut row = Vec::new();
    put_text(&mut row, name);
    row.extend(u32::try_from(dims.len()).expect("few axes").to_le_bytes());
    row.extend(dims.iter().flat_map(|axis| axis.to_le_bytes()));
    row.extend(kind.id().to_le_bytes());
    row.extend((offset as u64).to_le_bytes());
    row
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

/// A file being written, tensor after tensor.
pub(super) struct Writer {
    out: BufWriter<File>,
    at: usize,
}

impl Writer {
    pub(super) fn new(
        path: &Path,
        metadata: &[u8],
        tensors: &[(&str, &[u64])],
        kind: TensorKind,
    ) -> Result<Self, Failure> {
        let mut header = metadata.to_vec();
        let mut offset = 0;
        for (name, dims) in tensors {
            let kind = fitting(kind, dims);
            header.extend(table_row(name, dims, kind, offset));
            let bytes = kind.bytes(dims).ok_or("rows of no whole blocks")?;
            offset = (offset + usize::try_from(bytes)?).next_multiple_of(ALIGNMENT);
        }
        let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
        out.write_all(&header)?;
        let at = header.len();
        Ok(Self { out, at })
    }

    /// The next tensor of the table, whose rows `fill` gives.
    pub(super) fn tensor(
        &mut self,
        dims: &[u64],
        kind: TensorKind,
        mut fill: impl FnMut(usize, &mut [f32]),
    ) -> Result<(), Failure> {
        let pad = self.at.next_multiple_of(ALIGNMENT) - self.at;
        self.out.write_all(&[0; ALIGNMENT][..pad])?;
        self.at += pad;
        let kind = fitting(kind, dims);
        let mut numbers = vec![0.0; usize::try_from(dims[0])?];
        let mut bytes = Vec::new();
        for row in 0..usize::try_from(dims[1..].iter().product::<u64>())? {
            fill(row, &mut numbers);
            bytes.clear();
            if !quantise(kind, &numbers, &mut bytes) {
                return Err(format!("no way to quantise to {kind}").into());
            }
            self.out.write_all(&bytes)?;
            self.at += bytes.len();
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }
}
