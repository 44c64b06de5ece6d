//! Element types of the format.

use crate::model::gguf::TensorKind;

/// An element type: its name in headers, its size, and the GGUF kind of the same bytes where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dtype {
    pub(super) name: &'static str,
    pub(super) bytes: u64,
    pub(super) kind: Option<TensorKind>,
}

const fn dtype(name: &'static str, bytes: u64, kind: Option<TensorKind>) -> Dtype {
    Dtype { name, bytes, kind }
}

/// Every type of whole bytes. Knowing a size does not mean that the decoder can compute with the type.
const DTYPES: [Dtype; 16] = [
    dtype("F32", 4, Some(TensorKind::F32)),
    dtype("F16", 2, Some(TensorKind::F16)),
    dtype("BF16", 2, Some(TensorKind::BF16)),
    dtype("F64", 8, Some(TensorKind::F64)),
    dtype("I8", 1, Some(TensorKind::I8)),
    dtype("I16", 2, Some(TensorKind::I16)),
    dtype("I32", 4, Some(TensorKind::I32)),
    dtype("I64", 8, Some(TensorKind::I64)),
    dtype("U8", 1, None),
    dtype("U16", 2, None),
    dtype("U32", 4, None),
    dtype("U64", 8, None),
    dtype("BOOL", 1, None),
    dtype("F8_E4M3", 1, None),
    dtype("F8_E5M2", 1, None),
    dtype("F8_E8M0", 1, None),
];

impl Dtype {
    /// The type that a header means by `name`.
    pub(super) fn named(name: &str) -> Option<Self> {
        DTYPES.into_iter().find(|dtype| dtype.name == name)
    }
}
