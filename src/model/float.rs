//! Floats as model files store them, and the nearest half of a single.

use super::gguf::TensorKind;

/// A stored float.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float {
    F32,
    F16,
    Bf16,
}

impl Float {
    /// The float that a tensor of this kind consists of.
    pub(crate) fn of(kind: TensorKind) -> Option<Self> {
        match kind {
            TensorKind::F32 => Some(Self::F32),
            TensorKind::F16 => Some(Self::F16),
            TensorKind::BF16 => Some(Self::Bf16),
            _ => None,
        }
    }

    /// Bytes of one.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// The numbers that `bytes` hold; what is left over at the end is no number.
    pub(crate) fn numbers(self, bytes: &[u8]) -> impl Iterator<Item = f32> {
        bytes
            .chunks_exact(self.bytes())
            .map(move |bytes| match (self, bytes) {
                (Self::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
                (Self::F16, &[a, b]) => from_half(u16::from_le_bytes([a, b])),
                (_, bytes) => {
                    // The upper half of a single.
                    let high = bytes
                        .iter()
                        .rev()
                        .fold(0, |high, byte| (high << 8) | u32::from(*byte));
                    f32::from_bits(high << 16)
                }
            })
    }
}

/// The value of a half; exact.
pub(crate) fn from_half(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let rest = u32::from(bits & 0x7fff);
    if rest >= 0x7c00 {
        return f32::from_bits(sign | 0x7f80_0000 | ((rest & 0x3ff) << 13));
    }
    // Read as exponent and mantissa of a single it is 2^-112 of the value; the product is exact.
    let size = f32::from_bits(rest << 13) * f32::from_bits((127 + 112) << 23);
    f32::from_bits(sign | size.to_bits())
}

/// The half nearest to a number, of two equally near the even one; infinite above the largest, as the processors'
/// instruction has it.
pub(crate) fn to_half(number: f32) -> u16 {
    let sign = ((number.to_bits() >> 16) & 0x8000) as u16;
    let size = number.abs();
    if size.is_nan() {
        return sign | 0x7e00;
    }
    // From here on a number rounds up past the largest half, 65504.
    if size >= 65520.0 {
        return sign | 0x7c00;
    }
    let bits = size.to_bits();
    let half = if bits < 113 << 23 {
        // Subnormal halves are multiples of 2^-24; adding 1/2 makes the sum's last place just that, rounded to even.
        (size + 0.5).to_bits() - 0.5_f32.to_bits()
    } else {
        // Rounded on what will be cut off; a carry goes on into the exponent, as it should.
        ((bits + 0xfff + ((bits >> 13) & 1)) >> 13) - (112 << 10)
    };
    // Below 0x7c00: the largest was dealt with.
    sign | half as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_the_way_to_a_single_and_back() {
        for bits in 0..=u16::MAX {
            let number = from_half(bits);
            if number.is_nan() {
                assert!(from_half(to_half(number)).is_nan());
            } else {
                assert_eq!(to_half(number), bits, "{number}");
            }
        }
    }

    #[test]
    fn a_number_goes_to_the_nearest_half_and_from_the_middle_to_the_even_one() {
        for bits in 0..0x7bff_u16 {
            let (low, high) = (from_half(bits), from_half(bits + 1));
            let middle = (low + high) / 2.0;
            assert_eq!(to_half(middle), bits + bits % 2, "{middle}");
            assert_eq!(to_half(middle.next_down()), bits);
            assert_eq!(to_half(middle.next_up()), bits + 1);
            assert_eq!(to_half(-middle.next_up()), 0x8000 | (bits + 1));
        }
        assert_eq!(to_half(65520.0_f32.next_down()), 0x7bff);
        assert_eq!(to_half(65520.0), 0x7c00);
        assert_eq!(to_half(f32::NEG_INFINITY), 0xfc00);
    }

    #[test]
    fn a_bfloat_is_the_upper_half_of_a_single() {
        let bytes = [0x80, 0x3f, 0x20, 0xc1];
        assert_eq!(
            Float::Bf16.numbers(&bytes).collect::<Vec<_>>(),
            [1.0, -10.0]
        );
        let single = 1.5_f32.to_le_bytes();
        assert_eq!(Float::F32.numbers(&single).collect::<Vec<_>>(), [1.5]);
        assert_eq!(Float::F16.numbers(&[0, 0x3c, 7]).collect::<Vec<_>>(), [1.0]);
    }
}
