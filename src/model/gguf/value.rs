//! Metadata values as the file types them.

/// One metadata value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// 8-bit unsigned.
    U8(u8),
    /// 8-bit signed.
    I8(i8),
    /// 16-bit unsigned.
    U16(u16),
    /// 16-bit signed.
    I16(i16),
    /// 32-bit unsigned.
    U32(u32),
    /// 32-bit signed.
    I32(i32),
    /// 64-bit unsigned.
    U64(u64),
    /// 64-bit signed.
    I64(i64),
    /// 32-bit float.
    F32(f32),
    /// 64-bit float.
    F64(f64),
    /// Truth value.
    Bool(bool),
    /// UTF-8 text.
    Text(String),
    /// Values of one type.
    Array(Array),
}

/// An array in its own element type, so that it takes no more memory than in the file.
#[derive(Clone, Debug, PartialEq)]
pub enum Array {
    /// 8-bit unsigned.
    U8(Vec<u8>),
    /// 8-bit signed.
    I8(Vec<i8>),
    /// 16-bit unsigned.
    U16(Vec<u16>),
    /// 16-bit signed.
    I16(Vec<i16>),
    /// 32-bit unsigned.
    U32(Vec<u32>),
    /// 32-bit signed.
    I32(Vec<i32>),
    /// 64-bit unsigned.
    U64(Vec<u64>),
    /// 64-bit signed.
    I64(Vec<i64>),
    /// 32-bit float.
    F32(Vec<f32>),
    /// 64-bit float.
    F64(Vec<f64>),
    /// Truth values.
    Bool(Vec<bool>),
    /// Texts.
    Text(Strings),
}

/// Many strings in one allocation: a vocabulary of a million tokens takes no more memory than in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    text: String,
    ends: Vec<usize>,
}

impl Strings {
    /// None yet, with room for so many strings of so many bytes together.
    pub(super) fn with_capacity(count: usize, bytes: usize) -> Self {
        Self {
            text: String::with_capacity(bytes),
            ends: Vec::with_capacity(count),
        }
    }

    /// Number of strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string at `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.text.get(start..end)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Adds one at the end.
    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len());
    }

    /// Gives back what growing left over.
    pub(super) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

impl Value {
    /// The type's name for messages: `u32`, `string`, `array of f32`.
    #[must_use]
    pub fn kind(&self) -> String {
        let name = match self {
            Self::U8(_) => "u8",
            Self::I8(_) => "i8",
            Self::U16(_) => "u16",
            Self::I16(_) => "i16",
            Self::U32(_) => "u32",
            Self::I32(_) => "i32",
            Self::U64(_) => "u64",
            Self::I64(_) => "i64",
            Self::F32(_) => "f32",
            Self::F64(_) => "f64",
            Self::Bool(_) => "bool",
            Self::Text(_) => "string",
            Self::Array(array) => return format!("array of {}", array.kind()),
        };
        name.to_owned()
    }

    /// The value of any integer type.
    #[must_use]
    pub fn integer(&self) -> Option<i128> {
        Some(match self {
            Self::U8(value) => i128::from(*value),
            Self::I8(value) => i128::from(*value),
            Self::U16(value) => i128::from(*value),
            Self::I16(value) => i128::from(*value),
            Self::U32(value) => i128::from(*value),
            Self::I32(value) => i128::from(*value),
            Self::U64(value) => i128::from(*value),
            Self::I64(value) => i128::from(*value),
            _ => return None,
        })
    }
}

impl Array {
    /// The element type's name for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::U8(_) => "u8",
            Self::I8(_) => "i8",
            Self::U16(_) => "u16",
            Self::I16(_) => "i16",
            Self::U32(_) => "u32",
            Self::I32(_) => "i32",
            Self::U64(_) => "u64",
            Self::I64(_) => "i64",
            Self::F32(_) => "f32",
            Self::F64(_) => "f64",
            Self::Bool(_) => "bool",
            Self::Text(_) => "string",
        }
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::U8(values) => values.len(),
            Self::I8(values) => values.len(),
            Self::U16(values) => values.len(),
            Self::I16(values) => values.len(),
            Self::U32(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::U64(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::Bool(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
