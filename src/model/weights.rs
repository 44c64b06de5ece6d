//! A decoder's weights: read tensor by tensor into packed form, with no second copy of the file in memory.

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};

use compere_cpu::{Arena, Matrix, PackError, Packer, Pool, WeightKind};

use super::decoder::DecoderSpec;
use super::gguf::{Fault, GgufFile, ModelFileError, TensorInfo, TensorKind};

/// Bytes read at once.
const PIECE: usize = 1 << 20;

/// All weights of a decoder.
#[derive(Debug)]
pub(crate) struct Weights {
    /// `[vocab][width]`; also the head where `head` is none.
    pub(crate) embedding: Matrix,
    pub(crate) layers: Vec<Layer>,
    /// `[width]`
    pub(crate) final_norm: Vec<f32>,
    /// `[vocab][width]`
    pub(crate) head: Option<Matrix>,
}

/// Weights of one layer; matrices are `[outputs][inputs]`.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) attention_norm: Vec<f32>,
    pub(crate) query: Matrix,
    pub(crate) key: Matrix,
    pub(crate) value: Matrix,
    pub(crate) attention_out: Matrix,
    pub(crate) hidden_norm: Vec<f32>,
    pub(crate) gate: Matrix,
    pub(crate) up: Matrix,
    pub(crate) down: Matrix,
}

impl Weights {
    /// Reads all weights, on all threads of the pool.
    ///
    /// # Errors
    /// Names the tensor that is missing, of another shape than the spec says, of a kind that is not supported, or
    /// unreadable; or one that the decoder has no use for, since to ignore it would compute another model.
    pub(crate) fn read(
        file: &GgufFile,
        spec: &DecoderSpec,
        pool: &mut Pool,
    ) -> Result<Self, ModelFileError> {
        let names = Names::of(file, spec)?;
        let matrices: Vec<OnceLock<Result<Matrix, ModelFileError>>> =
            names.matrices.iter().map(|_| OnceLock::new()).collect();
        let arena = Mutex::new(Arena::new());
        pool.run(names.matrices.len(), &|task, _| {
            // Each task has a cell of its own, so it is empty.
            let _ = matrices[task].set(read_matrix(file, names.matrices[task], &arena));
        });
        let mut matrices = matrices
            .into_iter()
            .map(|cell| cell.into_inner().expect("every task ran"));
        let mut next = || matrices.next().expect("one matrix a name");
        let norm = |name: &str| read_norm(file, name, spec.width);
        Ok(Self {
            embedding: next()?,
            layers: (0..spec.layers)
                .map(|layer| {
                    Ok(Layer {
                        attention_norm: norm(&format!("blk.{layer}.attn_norm.weight"))?,
                        query: next()?,
                        key: next()?,
                        value: next()?,
                        attention_out: next()?,
                        hidden_norm: norm(&format!("blk.{layer}.ffn_norm.weight"))?,
                        gate: next()?,
                        up: next()?,
                        down: next()?,
                    })
                })
                .collect::<Result<_, _>>()?,
            final_norm: norm("output_norm.weight")?,
            head: names.separate_head.then(next).transpose()?,
        })
    }

    /// The matrix that turns the last hidden state into logits.
    pub(crate) fn head(&self) -> &Matrix {
        self.head.as_ref().unwrap_or(&self.embedding)
    }
}

/// The matrices that a decoder needs, in the order of [`Weights`].
struct Names<'a> {
    matrices: Vec<&'a TensorInfo>,
    separate_head: bool,
}

impl<'a> Names<'a> {
    fn of(file: &'a GgufFile, spec: &DecoderSpec) -> Result<Self, ModelFileError> {
        let mut known = BTreeSet::from(["output_norm.weight".to_owned()]);
        let mut matrices = Vec::with_capacity(2 + 7 * spec.layers);
        let mut add = |name: String, rows: usize, cols: usize| {
            matrices.push(find(file, &name, &[cols, rows])?);
            known.insert(name);
            Ok(())
        };
        let (width, queries, keys) = (spec.width, spec.query_width(), spec.kv_width());
        add("token_embd.weight".to_owned(), spec.vocab, width)?;
        for layer in 0..spec.layers {
            for (part, rows, cols) in [
                ("attn_q", queries, width),
                ("attn_k", keys, width),
                ("attn_v", keys, width),
                ("attn_output", width, queries),
                ("ffn_gate", spec.hidden, width),
                ("ffn_up", spec.hidden, width),
                ("ffn_down", width, spec.hidden),
            ] {
                add(format!("blk.{layer}.{part}.weight"), rows, cols)?;
            }
        }
        let separate_head = file.tensor("output.weight").is_some();
        if separate_head {
            add("output.weight".to_owned(), spec.vocab, width)?;
        }
        for layer in 0..spec.layers {
            known
                .extend(["attn_norm", "ffn_norm"].map(|part| format!("blk.{layer}.{part}.weight")));
        }
        match file
            .tensors()
            .iter()
            .find(|tensor| !known.contains(&tensor.name))
        {
            Some(tensor) => {
                let what = "a tensor that this decoder does not use".to_owned();
                Err(file.error(&tensor.name, Fault::Unsupported(what)))
            }
            None => Ok(Self {
                matrices,
                separate_head,
            }),
        }
    }
}

/// The tensor of that name, whose axes must be `dims`, fastest first.
fn find<'a>(
    file: &'a GgufFile,
    name: &str,
    dims: &[usize],
) -> Result<&'a TensorInfo, ModelFileError> {
    let tensor = file
        .tensor(name)
        .ok_or_else(|| file.error(name, Fault::Missing))?;
    if tensor
        .dims
        .iter()
        .copied()
        .eq(dims.iter().map(|&axis| axis as u64))
    {
        return Ok(tensor);
    }
    let reason = format!("axes {:?}, expected {dims:?}", tensor.dims);
    Err(file.error(name, Fault::Invalid(reason)))
}

fn weight_kind(file: &GgufFile, tensor: &TensorInfo) -> Result<WeightKind, ModelFileError> {
    match tensor.kind {
        TensorKind::F32 => Ok(WeightKind::F32),
        TensorKind::F16 => Ok(WeightKind::F16),
        TensorKind::Q8_0 => Ok(WeightKind::Q8_0),
        TensorKind::Q4_0 => Ok(WeightKind::Q4_0),
        TensorKind::Q4_1 => Ok(WeightKind::Q4_1),
        TensorKind::BF16 => Ok(WeightKind::BF16),
        TensorKind::Q5_0 => Ok(WeightKind::Q5_0),
        TensorKind::Q5_1 => Ok(WeightKind::Q5_1),
        TensorKind::Q4_K => Ok(WeightKind::Q4_K),
        TensorKind::Q5_K => Ok(WeightKind::Q5_K),
        TensorKind::Q6_K => Ok(WeightKind::Q6_K),
        other => Err(file.error(
            &tensor.name,
            Fault::Unsupported(format!("weights of kind {other}")),
        )),
    }
}

fn read_matrix(
    file: &GgufFile,
    tensor: &TensorInfo,
    arena: &Mutex<Arena>,
) -> Result<Matrix, ModelFileError> {
    let pack = |error: PackError| file.error(&tensor.name, Fault::Invalid(error.to_string()));
    // `find` compared the axes with sizes of this machine.
    let (rows, cols) = (tensor.dims[1] as usize, tensor.dims[0] as usize);
    let kind = weight_kind(file, tensor)?;
    let mut packer = {
        // An arena is whole between calls, also after a panic in one.
        let mut arena = arena.lock().unwrap_or_else(PoisonError::into_inner);
        Packer::new_in(&mut arena, kind, rows, cols).map_err(pack)?
    };
    let row_bytes = packer.row_bytes();
    let piece_rows = (PIECE / row_bytes).clamp(1, rows);
    let mut piece = vec![0; piece_rows * row_bytes];
    for first in (0..rows).step_by(piece_rows) {
        let piece = &mut piece[..piece_rows.min(rows - first) * row_bytes];
        file.read_range(tensor, (first * row_bytes) as u64, piece)?;
        packer.push(piece).map_err(pack)?;
    }
    packer.finish().map_err(pack)
}

fn read_norm(file: &GgufFile, name: &str, width: usize) -> Result<Vec<f32>, ModelFileError> {
    let tensor = find(file, name, &[width])?;
    let kind = weight_kind(file, tensor)?;
    let mut bytes = Vec::new();
    file.read_tensor(tensor, &mut bytes)?;
    let norm = Matrix::pack(kind, 1, width, &bytes)
        .map_err(|error| file.error(name, Fault::Invalid(error.to_string())))?;
    let mut numbers = vec![0.0; width];
    norm.row(0, &mut numbers);
    Ok(numbers)
}
