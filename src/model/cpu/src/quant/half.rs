//! Half precision to single, in plain integer arithmetic: exact, and the same bits as the processors' instruction for
//! every number.

/// The value of an IEEE half given as bits. NaN becomes a quiet NaN.
#[inline]
pub(crate) fn to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let rest = u32::from(bits & 0x7fff);
    if rest >= 0x7c00 {
        let quiet = if rest > 0x7c00 { 0x0040_0000 } else { 0 };
        return f32::from_bits(sign | 0x7f80_0000 | ((rest & 0x3ff) << 13) | quiet);
    }
    // The half's exponent and mantissa, read as those of a single, stand for the value times 2^-112; the product is
    // exact, for subnormal halves too.
    let scaled = f32::from_bits(rest << 13) * f32::from_bits((127 + 112) << 23);
    f32::from_bits(sign | scaled.to_bits())
}

#[cfg(test)]
mod tests {
    use super::to_f32;

    #[test]
    fn every_half_has_its_value() {
        for bits in 0..=u16::MAX {
            let exponent = i32::from((bits >> 10) & 31);
            let mantissa = f64::from(bits & 1023);
            let magnitude = match exponent {
                0 => mantissa * 2f64.powi(-24),
                31 if mantissa == 0.0 => f64::INFINITY,
                31 => f64::NAN,
                _ => (1.0 + mantissa / 1024.0) * 2f64.powi(exponent - 15),
            };
            let expected = if bits & 0x8000 != 0 {
                -magnitude
            } else {
                magnitude
            };
            let got = to_f32(bits);
            assert_eq!(got.is_nan(), expected.is_nan(), "{bits:#x}");
            assert!(
                got.is_nan() || f64::from(got) == expected,
                "{bits:#x}: {got} != {expected}"
            );
            assert_eq!(got.is_sign_negative(), bits & 0x8000 != 0, "{bits:#x}");
        }
    }
}
