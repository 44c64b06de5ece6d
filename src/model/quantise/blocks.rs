//! 32 numbers to one block, as the file format has it and with the rounding of its reference quantiser: scales are
//! found in single precision, quants with the scale before it becomes a half.

use crate::model::float::to_half;
use crate::model::gguf::TensorKind;

/// Numbers of a block.
pub(super) const BLOCK: usize = 32;

/// Writes the block of `numbers`; `false` where a number is not finite or the scale too large for a half.
pub(super) fn write(kind: TensorKind, numbers: &[f32; BLOCK], into: &mut [u8]) -> bool {
    match kind {
        TensorKind::Q8_0 => q8_0(numbers, into),
        TensorKind::Q4_0 => q4_0(numbers, into),
        TensorKind::Q4_1 => q4_1(numbers, into),
        _ => false,
    }
}

/// Scale: the largest size over 127. Quants: the nearest steps, from the middle away from zero.
fn q8_0(numbers: &[f32; BLOCK], into: &mut [u8]) -> bool {
    let largest = numbers.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let scale = largest / 127.0;
    let inverse = inverse(scale);
    let (header, quants) = into.split_at_mut(2);
    for (quant, number) in quants.iter_mut().zip(numbers) {
        *quant = (number * inverse).round() as i8 as u8;
    }
    put_half(header, scale) && all_finite(numbers)
}

/// Scale: the number of largest size, of whichever sign, becomes quant 0 and so -8 steps.
fn q4_0(numbers: &[f32; BLOCK], into: &mut [u8]) -> bool {
    let mut largest = 0.0_f32;
    for &number in numbers {
        if number.abs() > largest.abs() {
            largest = number;
        }
    }
    let scale = largest / -8.0;
    let inverse = inverse(scale);
    let (header, quants) = into.split_at_mut(2);
    // The cast cuts off, so half a step more rounds.
    nibbles(quants, |index| numbers[index] * inverse + 8.5);
    put_half(header, scale) && all_finite(numbers)
}

/// 16 steps from the smallest number to the largest.
fn q4_1(numbers: &[f32; BLOCK], into: &mut [u8]) -> bool {
    let least = numbers.iter().copied().fold(f32::INFINITY, f32::min);
    let most = numbers.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let scale = (most - least) / 15.0;
    let inverse = inverse(scale);
    let (header, quants) = into.split_at_mut(4);
    nibbles(quants, |index| (numbers[index] - least) * inverse + 0.5);
    let (first, second) = header.split_at_mut(2);
    put_half(first, scale) && put_half(second, least) && all_finite(numbers)
}

/// The first half of the block goes to the low, the second to the high nibbles.
fn nibbles(into: &mut [u8], quant: impl Fn(usize) -> f32) {
    for (index, byte) in into.iter_mut().enumerate() {
        let [low, high] = [index, index + BLOCK / 2].map(|index| (quant(index) as u8).min(15));
        *byte = low | (high << 4);
    }
}

fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// `false` where the number has no half.
fn put_half(into: &mut [u8], number: f32) -> bool {
    let half = to_half(number);
    into.copy_from_slice(&half.to_le_bytes());
    half & 0x7c00 != 0x7c00
}

fn all_finite(numbers: &[f32; BLOCK]) -> bool {
    numbers.iter().all(|number| number.is_finite())
}
