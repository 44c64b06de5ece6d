//! How a tensor's elements are stored: the block layouts that GGUF numbers.

/// Defines the enum and its table from one list: variant, id, elements per block, bytes per block.
macro_rules! kinds {
    ($($variant:ident = $id:literal, $elements:literal, $bytes:literal;)*) => {
        /// The storage of a tensor. Knowing the size of a kind does not mean that the decoder can compute with it.
        #[allow(non_camel_case_types, reason = "the names under which these formats are known")]
        #[allow(missing_docs, reason = "each is its own name")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum TensorKind { $($variant,)* }

        impl TensorKind {
            /// Every kind, by rising id.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The kind that a file means by `id`.
            #[must_use]
            pub fn from_id(id: u32) -> Option<Self> {
                match id { $($id => Some(Self::$variant),)* _ => None }
            }

            /// The number that stands for it in a file.
            #[must_use]
            pub fn id(self) -> u32 {
                match self { $(Self::$variant => $id,)* }
            }

            /// Its usual name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant),)* }
            }

            /// Elements in a block; rows hold whole blocks.
            #[must_use]
            pub fn block_elements(self) -> u64 {
                match self { $(Self::$variant => $elements,)* }
            }

            /// Bytes of a block.
            #[must_use]
            pub fn block_bytes(self) -> u64 {
                match self { $(Self::$variant => $bytes,)* }
            }
        }
    };
}

kinds! {
    F32 = 0, 1, 4;
    F16 = 1, 1, 2;
    Q4_0 = 2, 32, 18;
    Q4_1 = 3, 32, 20;
    Q5_0 = 6, 32, 22;
    Q5_1 = 7, 32, 24;
    Q8_0 = 8, 32, 34;
    Q8_1 = 9, 32, 36;
    Q2_K = 10, 256, 84;
    Q3_K = 11, 256, 110;
    Q4_K = 12, 256, 144;
    Q5_K = 13, 256, 176;
    Q6_K = 14, 256, 210;
    Q8_K = 15, 256, 292;
    IQ2_XXS = 16, 256, 66;
    IQ2_XS = 17, 256, 74;
    IQ3_XXS = 18, 256, 98;
    IQ1_S = 19, 256, 50;
    IQ4_NL = 20, 32, 18;
    IQ3_S = 21, 256, 110;
    IQ2_S = 22, 256, 82;
    IQ4_XS = 23, 256, 136;
    I8 = 24, 1, 1;
    I16 = 25, 1, 2;
    I32 = 26, 1, 4;
    I64 = 27, 1, 8;
    F64 = 28, 1, 8;
    IQ1_M = 29, 256, 56;
    BF16 = 30, 1, 2;
    TQ1_0 = 34, 256, 54;
    TQ2_0 = 35, 256, 66;
    MXFP4 = 39, 32, 17;
}

impl std::fmt::Display for TensorKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl TensorKind {
    /// Bytes of a tensor of these axes, fastest first; `None` where it does not fit 64 bits or rows are no whole blocks.
    #[must_use]
    pub fn bytes(self, dims: &[u64]) -> Option<u64> {
        let row = dims.first().copied().unwrap_or(1);
        if !row.is_multiple_of(self.block_elements()) {
            return None;
        }
        let row_bytes = (row / self.block_elements()).checked_mul(self.block_bytes())?;
        dims.iter()
            .skip(1)
            .try_fold(row_bytes, |bytes, axis| bytes.checked_mul(*axis))
    }
}
