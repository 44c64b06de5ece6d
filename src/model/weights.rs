//! A decoder's weights: read tensor by tensor into packed form, with no second copy of the file in memory.

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};

use compere_cpu::{Arena, Matrix, PackError, Packer, Pool, WeightKind};

use super::checkpoint::Checkpoint;
use super::decoder::{DecoderSpec, Pairs};
use super::gguf::{Fault, ModelFileError, TensorInfo, TensorKind};

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

/// Weights of one layer; matrices are `[outputs][inputs]`. In queries and keys, numbers that the rotary embedding turns
/// together are neighbours, whatever the file's order.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) attention_norm: Vec<f32>,
    pub(crate) query: Matrix,
    pub(crate) key: Matrix,
    pub(crate) value: Matrix,
    pub(crate) query_bias: Option<Vec<f32>>,
    pub(crate) key_bias: Option<Vec<f32>>,
    pub(crate) value_bias: Option<Vec<f32>>,
    /// `[head_dim]`, as is the keys'.
    pub(crate) query_norm: Option<Vec<f32>>,
    pub(crate) key_norm: Option<Vec<f32>>,
    pub(crate) attention_out: Matrix,
    /// Of what attention adds to the residual stream.
    pub(crate) attention_out_norm: Option<Vec<f32>>,
    pub(crate) hidden_norm: Vec<f32>,
    pub(crate) gate: Matrix,
    pub(crate) up: Matrix,
    pub(crate) down: Matrix,
    /// Of what the feed-forward layer adds to the residual stream.
    pub(crate) hidden_out_norm: Option<Vec<f32>>,
}

impl Weights {
    /// Reads all weights, on all threads of the pool.
    ///
    /// # Errors
    /// Names the tensor that is missing, of another shape than the spec says, of a kind that is not supported, or
    /// unreadable; or one that the decoder has no use for, since to ignore it would compute another model.
    pub(crate) fn read(
        file: &dyn Checkpoint,
        spec: &DecoderSpec,
        pool: &mut Pool,
    ) -> Result<Self, ModelFileError> {
        let names = Names::of(file, spec)?;
        let matrices: Vec<OnceLock<Result<Matrix, ModelFileError>>> =
            names.matrices.iter().map(|_| OnceLock::new()).collect();
        let arena = Mutex::new(Arena::new());
        pool.run(names.matrices.len(), &|task, _| {
            // Each task has a cell of its own, so it is empty.
            let (tensor, order) = names.matrices[task];
            let _ = matrices[task].set(read_matrix(file, tensor, order, &arena));
        });
        let mut matrices = matrices
            .into_iter()
            .map(|cell| cell.into_inner().expect("every task ran"));
        let mut next = || matrices.next().expect("one matrix a name");
        let vectors = Vectors { file, spec };
        Ok(Self {
            embedding: next()?,
            layers: (0..spec.layers)
                .map(|layer| {
                    let vector = |part: &str| vectors.layer(layer, part);
                    Ok(Layer {
                        attention_norm: vectors.layer_norm(layer, "attn_norm")?,
                        query: next()?,
                        key: next()?,
                        value: next()?,
                        query_bias: vector("attn_q.bias")?,
                        key_bias: vector("attn_k.bias")?,
                        value_bias: vector("attn_v.bias")?,
                        query_norm: vector("attn_q_norm.weight")?,
                        key_norm: vector("attn_k_norm.weight")?,
                        attention_out: next()?,
                        attention_out_norm: vector("post_attention_norm.weight")?,
                        hidden_norm: vectors.layer_norm(layer, "ffn_norm")?,
                        gate: next()?,
                        up: next()?,
                        down: next()?,
                        hidden_out_norm: vector("post_ffw_norm.weight")?,
                    })
                })
                .collect::<Result<_, _>>()?,
            final_norm: read_vector(file, "output_norm.weight", spec.width)?,
            head: names.separate_head.then(next).transpose()?,
        })
    }

    /// The matrix that turns the last hidden state into logits.
    pub(crate) fn head(&self) -> &Matrix {
        self.head.as_ref().unwrap_or(&self.embedding)
    }
}

/// How the rows of a matrix are read: `Some` size of heads whose halves are to be interleaved, or as they come.
type Order = Option<usize>;

/// The vectors that a layer has beside its two norms, where the spec says so: name, width, and whether it is by heads
/// whose numbers are ordered as the rows of queries and keys are.
fn parts(spec: &DecoderSpec) -> impl Iterator<Item = (&'static str, usize, bool)> {
    let (queries, keys, dim) = (spec.query_width(), spec.kv_width(), spec.head_dim);
    [
        (spec.biases, "attn_q.bias", queries, true),
        (spec.biases, "attn_k.bias", keys, true),
        (spec.biases, "attn_v.bias", keys, false),
        (spec.head_norms, "attn_q_norm.weight", dim, true),
        (spec.head_norms, "attn_k_norm.weight", dim, true),
        (
            spec.output_norms,
            "post_attention_norm.weight",
            spec.width,
            false,
        ),
        (spec.output_norms, "post_ffw_norm.weight", spec.width, false),
    ]
    .into_iter()
    .filter(|(exists, ..)| *exists)
    .map(|(_, name, width, paired)| (name, width, paired))
}

/// Reads vectors.
struct Vectors<'a> {
    file: &'a dyn Checkpoint,
    spec: &'a DecoderSpec,
}

impl Vectors<'_> {
    fn layer_norm(&self, layer: usize, part: &str) -> Result<Vec<f32>, ModelFileError> {
        let name = format!("blk.{layer}.{part}.weight");
        read_vector(self.file, &name, self.spec.width)
    }

    /// A layer's part that the spec may not have.
    fn layer(&self, layer: usize, part: &str) -> Result<Option<Vec<f32>>, ModelFileError> {
        let Some((name, width, paired)) = parts(self.spec).find(|(name, ..)| *name == part) else {
            return Ok(None);
        };
        let numbers = read_vector(self.file, &format!("blk.{layer}.{name}"), width)?;
        let interleave = paired && self.spec.pairs == Pairs::Halves;
        Ok(Some(if interleave {
            let heads = numbers.chunks_exact(self.spec.head_dim);
            heads
                .flat_map(|head| interleaved(head.len()).map(|i| head[i]))
                .collect()
        } else {
            numbers
        }))
    }
}

/// Where the numbers of a head of `dim` come from when its halves are interleaved.
fn interleaved(dim: usize) -> impl Iterator<Item = usize> {
    (0..dim).map(move |to| to / 2 + to % 2 * (dim / 2))
}

/// The matrices that a decoder needs, in the order of [`Weights`].
struct Names<'a> {
    matrices: Vec<(&'a TensorInfo, Order)>,
    separate_head: bool,
}

impl<'a> Names<'a> {
    fn of(file: &'a dyn Checkpoint, spec: &DecoderSpec) -> Result<Self, ModelFileError> {
        let mut known = BTreeSet::from(["output_norm.weight".to_owned()]);
        if spec.rope.divisors.is_some() {
            known.insert("rope_freqs.weight".to_owned());
        }
        let mut matrices = Vec::with_capacity(2 + 7 * spec.layers);
        let mut add = |name: String, rows: usize, cols: usize, order: Order| {
            matrices.push((find(file, &name, &[cols, rows])?, order));
            known.insert(name);
            Ok(())
        };
        let (width, queries, keys) = (spec.width, spec.query_width(), spec.kv_width());
        let paired = (spec.pairs == Pairs::Halves).then_some(spec.head_dim);
        add("token_embd.weight".to_owned(), spec.vocab, width, None)?;
        for layer in 0..spec.layers {
            for (part, rows, cols, order) in [
                ("attn_q", queries, width, paired),
                ("attn_k", keys, width, paired),
                ("attn_v", keys, width, None),
                ("attn_output", width, queries, None),
                ("ffn_gate", spec.hidden, width, None),
                ("ffn_up", spec.hidden, width, None),
                ("ffn_down", width, spec.hidden, None),
            ] {
                add(format!("blk.{layer}.{part}.weight"), rows, cols, order)?;
            }
        }
        let separate_head = file.tensor("output.weight").is_some();
        if separate_head {
            add("output.weight".to_owned(), spec.vocab, width, None)?;
        }
        for layer in 0..spec.layers {
            let norms = ["attn_norm.weight", "ffn_norm.weight"];
            let names = norms.into_iter().chain(parts(spec).map(|(name, ..)| name));
            known.extend(names.map(|name| format!("blk.{layer}.{name}")));
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
    file: &'a dyn Checkpoint,
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

fn weight_kind(file: &dyn Checkpoint, tensor: &TensorInfo) -> Result<WeightKind, ModelFileError> {
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
    file: &dyn Checkpoint,
    tensor: &TensorInfo,
    order: Order,
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
    let mut piece_rows = (PIECE / row_bytes).clamp(1, rows);
    // Whole heads, so that their halves are at hand; they divide the rows.
    piece_rows = order.map_or(piece_rows, |dim| piece_rows.next_multiple_of(dim));
    let mut piece = vec![0; piece_rows * row_bytes];
    let mut ordered = Vec::new();
    for first in (0..rows).step_by(piece_rows) {
        let piece = &mut piece[..piece_rows.min(rows - first) * row_bytes];
        file.read_range(tensor, (first * row_bytes) as u64, piece)?;
        let Some(dim) = order else {
            packer.push(piece).map_err(pack)?;
            continue;
        };
        ordered.clear();
        for head in piece.chunks_exact(dim * row_bytes) {
            for row in interleaved(dim) {
                ordered.extend_from_slice(&head[row * row_bytes..][..row_bytes]);
            }
        }
        packer.push(&ordered).map_err(pack)?;
    }
    packer.finish().map_err(pack)
}

fn read_vector(
    file: &dyn Checkpoint,
    name: &str,
    width: usize,
) -> Result<Vec<f32>, ModelFileError> {
    let tensor = find(file, name, &[width])?;
    let kind = weight_kind(file, tensor)?;
    let mut bytes = Vec::new();
    file.read_tensor(tensor, &mut bytes)?;
    let vector = Matrix::pack(kind, 1, width, &bytes)
        .map_err(|error| file.error(name, Fault::Invalid(error.to_string())))?;
    let mut numbers = vec![0.0; width];
    vector.row(0, &mut numbers);
    Ok(numbers)
}
