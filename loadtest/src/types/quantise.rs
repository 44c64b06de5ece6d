//! Quantises rows to the types of GGUF files by rounding to the nearest step: no search for better scales, which real
//! tools do, since speed and the engine's own error do not depend on it.

use compere::model::gguf::TensorKind;

/// Appends `row` as blocks of `kind`; false for a kind that is not known here.
///
/// # Panics
/// When the row is no whole number of blocks.
pub(super) fn quantise(kind: TensorKind, row: &[f32], out: &mut Vec<u8>) -> bool {
    let block: fn(&[f32], &mut Vec<u8>) = match kind {
        TensorKind::F32 => |x, out| out.extend(x[0].to_le_bytes()),
        TensorKind::F16 => |x, out| out.extend(to_half(x[0]).to_le_bytes()),
        TensorKind::BF16 => |x, out| out.extend(to_upper_half(x[0]).to_le_bytes()),
        TensorKind::Q8_0 => bytes,
        TensorKind::Q4_0 => |x, out| centred(x, 4, out),
        TensorKind::Q5_0 => |x, out| centred(x, 5, out),
        TensorKind::Q4_1 => |x, out| between(x, 4, out),
        TensorKind::Q5_1 => |x, out| between(x, 5, out),
        TensorKind::Q4_K => |x, out| with_minima(x, 4, out),
        TensorKind::Q5_K => |x, out| with_minima(x, 5, out),
        TensorKind::Q6_K => six_bits,
        _ => return false,
    };
    let size = usize::try_from(kind.block_elements()).expect("a block is small");
    let blocks = row.chunks_exact(size);
    assert!(blocks.remainder().is_empty(), "whole blocks of {kind}");
    for numbers in blocks {
        block(numbers, out);
    }
    true
}

/// The nearest half float, ties to even.
fn to_half(x: f32) -> u16 {
    let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
    let size = x.abs();
    if size < 6.104e-5 {
        // Steps of 2^-24.
        return sign | step(size * 16_777_216.0, 0x400);
    }
    let bits = size.to_bits() - (112 << 23);
    let rounded = (bits + 0xfff + (bits >> 13 & 1)) >> 13;
    sign | u16::try_from(rounded.min(0x7c00)).expect("bounded")
}

/// The value of a half float.
fn half(bits: u16) -> f32 {
    let fraction = f32::from(bits & 0x3ff);
    let exponent = i32::from(bits >> 10 & 31);
    let size = match exponent {
        0 => fraction * 2f32.powi(-24),
        _ => (1024.0 + fraction) * 2f32.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

fn to_upper_half(x: f32) -> u16 {
    let bits = x.to_bits();
    u16::try_from((bits + 0x7fff + (bits >> 16 & 1)) >> 16).expect("16 bits remain")
}

/// Appends a scale as half float; returns the value that a reader will see.
fn put_half(x: f32, out: &mut Vec<u8>) -> f32 {
    let bits = to_half(x);
    out.extend(bits.to_le_bytes());
    half(bits)
}

/// The nearest of the steps from 0 to `last`.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the range first"
)]
fn step(x: f32, last: u16) -> u16 {
    x.round_ties_even().clamp(0.0, f32::from(last)) as u16
}

/// As [`step`], for what fits a byte.
fn byte(x: f32, last: u8) -> u8 {
    u8::try_from(step(x, last.into())).expect("at most `last`")
}

/// `x / scale`, zero where all is.
fn over(x: f32, scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { x / scale }
}

/// The number that is furthest from zero.
fn furthest(x: &[f32]) -> f32 {
    x.iter().fold(
        0.0,
        |most: f32, &x| if x.abs() > most.abs() { x } else { most },
    )
}

fn range(x: &[f32]) -> (f32, f32) {
    x.iter()
        .fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &x| {
            (low.min(x), high.max(x))
        })
}

fn bytes(x: &[f32], out: &mut Vec<u8>) {
    let scale = put_half(furthest(x).abs() / 127.0, out);
    // Moved up by 128 and back, modulo 256.
    out.extend(x.iter().map(|x| byte(over(*x, scale) + 128.0, 255) ^ 0x80));
}

/// Fifth bits as a word, where there are five, then nibbles of input `k` and `k + 16`.
fn put_quants(quants: &[u8], bits: u32, out: &mut Vec<u8>) {
    if bits == 5 {
        let fifths = |word: u32, quant: &u8| word << 1 | u32::from(quant >> 4);
        out.extend(quants.iter().rev().fold(0, fifths).to_le_bytes());
    }
    let (first, second) = quants.split_at(16);
    out.extend(first.iter().zip(second).map(|(a, b)| a & 15 | b << 4));
}

fn centred(x: &[f32], bits: u32, out: &mut Vec<u8>) {
    let middle = 1_u8 << (bits - 1);
    let scale = put_half(-furthest(x) / f32::from(middle), out);
    let quants: Vec<u8> = x
        .iter()
        .map(|x| byte(over(*x, scale) + f32::from(middle), 2 * middle - 1))
        .collect();
    put_quants(&quants, bits, out);
}

fn between(x: &[f32], bits: u32, out: &mut Vec<u8>) {
    let last = (1_u8 << bits) - 1;
    let (low, high) = range(x);
    let scale = put_half((high - low) / f32::from(last), out);
    let min = put_half(low, out);
    let quants: Vec<u8> = x.iter().map(|x| byte(over(x - min, scale), last)).collect();
    put_quants(&quants, bits, out);
}

/// Blocks of 256 with a scale and a minimum per 32, both as six-bit multiples of the block's.
fn with_minima(x: &[f32], bits: u32, out: &mut Vec<u8>) {
    let last = (1_u8 << bits) - 1;
    let ranges: Vec<(f32, f32)> = x
        .chunks_exact(32)
        .map(|x| {
            let (low, high) = range(x);
            ((high - low.min(0.0)) / f32::from(last), -low.min(0.0))
        })
        .collect();
    let largest = |pick: fn(&(f32, f32)) -> f32| ranges.iter().map(pick).fold(0.0, f32::max) / 63.0;
    let scale = put_half(largest(|range| range.0), out);
    let min = put_half(largest(|range| range.1), out);
    let factors: Vec<[u8; 2]> = ranges
        .iter()
        .map(|range| [byte(over(range.0, scale), 63), byte(over(range.1, min), 63)])
        .collect();
    for kind in [0, 1] {
        out.extend((0..4).map(|i| factors[i][kind] | factors[i + 4][kind] >> 4 << 6));
    }
    out.extend((4..8).map(|i| factors[i][0] & 15 | factors[i][1] << 4));
    let quants: Vec<u8> = x
        .iter()
        .enumerate()
        .map(|(k, x)| {
            let [a, b] = factors[k / 32].map(f32::from);
            byte(over(x + min * b, scale * a), last)
        })
        .collect();
    if bits == 5 {
        out.extend((0..32).map(|k| (0..8).fold(0, |byte, i| byte | quants[32 * i + k] >> 4 << i)));
    }
    for pair in quants.chunks_exact(64) {
        out.extend((0..32).map(|k| pair[k] & 15 | pair[k + 32] << 4));
    }
}

/// Blocks of 256 with a scale per 16, a signed multiple of the block's.
fn six_bits(x: &[f32], out: &mut Vec<u8>) {
    let scales: Vec<f32> = x.chunks_exact(16).map(|x| -furthest(x) / 32.0).collect();
    let scale = half(to_half(furthest(&scales) / -127.0));
    let factors: Vec<u8> = scales
        .iter()
        .map(|x| byte(over(*x, scale) + 128.0, 255))
        .collect();
    let quants: Vec<u8> = x
        .iter()
        .enumerate()
        .map(|(k, x)| {
            let factor = f32::from(factors[k / 16]) - 128.0;
            byte(over(*x, scale * factor) + 32.0, 63)
        })
        .collect();
    for part in quants.chunks_exact(128) {
        out.extend((0..64).map(|k| part[k] & 15 | part[k + 64] << 4));
    }
    for part in quants.chunks_exact(128) {
        out.extend(
            (0..32).map(|k| (0..4).fold(0, |byte, i| byte | part[32 * i + k] >> 4 << (2 * i))),
        );
    }
    out.extend(factors.iter().map(|factor| factor ^ 0x80));
    put_half(scale, out);
}

#[cfg(test)]
mod tests {
    use compere_cpu::{Matrix, WeightKind};

    use super::*;

    /// Each type's numbers are as near as its steps allow.
    #[test]
    fn what_is_quantised_reads_back_within_a_step() {
        let kinds = [
            (TensorKind::F32, WeightKind::F32, 0.0),
            (TensorKind::F16, WeightKind::F16, 0.0006),
            (TensorKind::BF16, WeightKind::BF16, 0.005),
            (TensorKind::Q8_0, WeightKind::Q8_0, 0.005),
            (TensorKind::Q4_0, WeightKind::Q4_0, 0.13),
            (TensorKind::Q4_1, WeightKind::Q4_1, 0.07),
            (TensorKind::Q5_0, WeightKind::Q5_0, 0.07),
            (TensorKind::Q5_1, WeightKind::Q5_1, 0.035),
            (TensorKind::Q4_K, WeightKind::Q4_K, 0.09),
            (TensorKind::Q5_K, WeightKind::Q5_K, 0.055),
            (TensorKind::Q6_K, WeightKind::Q6_K, 0.04),
        ];
        let mut state = 7_u32;
        let row: Vec<f32> = (0..512)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                f32::from(u16::try_from(state >> 16).unwrap()) / 32_768.0 - 1.0
            })
            .collect();
        for (kind, weights, bound) in kinds {
            for row in [row.clone(), vec![0.0; 512]] {
                let mut bytes = Vec::new();
                assert!(quantise(kind, &row, &mut bytes));
                let mut read = vec![0.0; 512];
                Matrix::pack(weights, 1, 512, &bytes)
                    .unwrap()
                    .row(0, &mut read);
                for (x, read) in row.iter().zip(read) {
                    assert!((x - read).abs() <= bound, "{kind}: {read} for {x}");
                }
            }
        }
        assert!(!quantise(TensorKind::IQ4_NL, &row, &mut Vec::new()));
    }
}
