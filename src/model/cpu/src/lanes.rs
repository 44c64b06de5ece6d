//! Sixteen f32 lanes, whatever the machine's vectors: every operation is exact per lane, so that the same source gives
//! the same bits as AVX-512, AVX2 or plain Rust. A product is fused with a sum only where the source says so; nothing here
//! is approximate.

/// Lanes of one [`Lanes`] value.
pub(crate) const LANES: usize = 16;

/// `1.5 * 2^23`: adding it rounds to the nearest integer, which then sits in the low bits of the pattern.
pub(crate) const ROUND: f32 = 12_582_912.0;

/// Sixteen f32. Unsafe to use: the instructions must exist on this machine, and pointers must reach all lanes.
pub(crate) trait Lanes: Copy {
    /// How many rows of two `Lanes` fit the registers beside what a rank update needs.
    const ROWS: usize;

    unsafe fn splat(value: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// Reads 16 IEEE half floats.
    unsafe fn load_half(from: *const u16) -> Self;
    /// Writes 16 IEEE half floats, rounded to nearest even.
    unsafe fn store_half(self, to: *mut u16);
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    /// `self * factor + other`, rounded once.
    unsafe fn mul_add(self, factor: Self, other: Self) -> Self;
    unsafe fn div(self, other: Self) -> Self;
    /// `if self > other { self } else { other }` per lane, which is what x86 computes also for NaN.
    unsafe fn max(self, other: Self) -> Self;
    /// `if self < other { self } else { other }` per lane.
    unsafe fn min(self, other: Self) -> Self;
    /// Zero where `x < limit`, else `self`.
    unsafe fn zero_where_less(self, x: Self, limit: f32) -> Self;
    /// `2^n` where `self` is `ROUND + n`, n from -126 to 127.
    unsafe fn exp2_of_rounded(self) -> Self;
    /// The first `count` lanes of `self`, `fill` in the others.
    unsafe fn keep_first(self, count: usize, fill: f32) -> Self;
    /// Swaps lanes 0 and 1, 2 and 3, and so on.
    unsafe fn swap_pairs(self) -> Self;
    /// Asks for `len` bytes that will be read soon.
    fn fetch(from: *const u8, len: usize);
    /// Sum of the lanes by the fixed tree: 16 to 8 (i with i + 8), to 4, to 2, to 1.
    unsafe fn sum(self) -> f32;
    /// Largest lane, by the same tree.
    unsafe fn largest(self) -> f32;
}

/// The portable sixteen lanes.
#[derive(Clone, Copy)]
pub(crate) struct Plain([f32; LANES]);

impl Plain {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }

    #[inline(always)]
    fn tree(self, f: impl Fn(f32, f32) -> f32) -> f32 {
        let mut lanes = self.0;
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                lanes[i] = f(lanes[i], lanes[i + half]);
            }
        }
        lanes[0]
    }
}

/// What x86's `max` computes: the second operand when either is NaN.
#[inline(always)]
pub(crate) fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

// SAFETY (of every method): pointers reach 16 elements by the trait's contract; the rest is plain Rust.
impl Lanes for Plain {
    const ROWS: usize = 3;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; LANES])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: see the impl.
        Self(unsafe { from.cast::<[f32; LANES]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: see the impl.
        unsafe { to.cast::<[f32; LANES]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn load_half(from: *const u16) -> Self {
        // SAFETY: see the impl.
        let halves = unsafe { from.cast::<[u16; LANES]>().read_unaligned() };
        Self(halves.map(half_to_f32))
    }

    #[inline(always)]
    unsafe fn store_half(self, to: *mut u16) {
        // SAFETY: see the impl.
        unsafe {
            to.cast::<[u16; LANES]>()
                .write_unaligned(self.0.map(f32_to_half))
        }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, other: Self) -> Self {
        Self(std::array::from_fn(|i| {
            self.0[i].mul_add(factor.0[i], other.0[i])
        }))
    }

    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| a / b)
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        self.zip(other, larger)
    }

    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        self.zip(other, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    unsafe fn zero_where_less(self, x: Self, limit: f32) -> Self {
        self.zip(x, |value, x| if x < limit { 0.0 } else { value })
    }

    #[inline(always)]
    unsafe fn exp2_of_rounded(self) -> Self {
        Self(
            self.0
                .map(|x| f32::from_bits((x.to_bits() << 23).wrapping_add(1.0f32.to_bits()))),
        )
    }

    #[inline(always)]
    unsafe fn keep_first(self, count: usize, fill: f32) -> Self {
        Self(std::array::from_fn(|i| {
            if i < count { self.0[i] } else { fill }
        }))
    }

    #[inline(always)]
    unsafe fn swap_pairs(self) -> Self {
        Self(std::array::from_fn(|i| self.0[i ^ 1]))
    }

    #[inline(always)]
    fn fetch(_from: *const u8, _len: usize) {}

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        self.tree(|a, b| a + b)
    }

    #[inline(always)]
    unsafe fn largest(self) -> f32 {
        self.tree(larger)
    }
}

/// Exact; every half float is an f32.
#[inline(always)]
fn half_to_f32(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let magnitude = u32::from(half & 0x7fff);
    let bits = match magnitude {
        // Infinity and NaN; a NaN comes out quiet, as hardware does it.
        0x7c00.. => {
            0x7f80_0000
                | ((magnitude & 0x3ff) << 13)
                | if magnitude > 0x7c00 { 0x40_0000 } else { 0 }
        }
        // Moves the exponent's bias from 15 to 127.
        0x400.. => (magnitude << 13) + ((127 - 15) << 23),
        // Zero and subnormals count units of 2^-24.
        _ => (magnitude as f32 * f32::from_bits((127 - 24) << 23)).to_bits(),
    };
    f32::from_bits(sign | bits)
}

/// Rounds to nearest, ties to even; beyond the range of halves it is infinity.
#[inline(always)]
fn f32_to_half(value: f32) -> u16 {
    let sign = ((value.to_bits() >> 16) & 0x8000) as u16;
    let magnitude = value.to_bits() & 0x7fff_ffff;
    let half = match magnitude {
        0x7f80_0001.. => 0x7e00 | ((magnitude >> 13) & 0x1ff),
        // 65520 and above rounds past the largest half.
        0x477f_f000.. => 0x7c00,
        // 2^-14 and above: normal halves. Adds just under half a unit, and the odd bit for ties.
        0x3880_0000.. => (magnitude - ((127 - 15) << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13,
        // Adding 0.5 leaves the value in units of 2^-24 in the low bits, rounded by the addition itself.
        _ => (f32::from_bits(magnitude) + 0.5).to_bits() - 0.5f32.to_bits(),
    };
    sign | half as u16
}

/// Compiles `body::<L>(args)` once per instruction set and calls the one for `$isa`.
///
/// The features of the call exist, since an [`Isa`](crate::Isa) is only made for what the machine has; what the body
/// itself asks of its pointers is for the caller of the macro to keep.
macro_rules! dispatch {
    ($isa:expr, $body:ident($($arg:ident: $ty:ty),* $(,)?)) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c")]
        unsafe fn avx2($($arg: $ty),*) {
            // SAFETY: the caller's promise, and this function's features.
            unsafe { $body::<$crate::lanes_x86::Avx2>($($arg),*) }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl")]
        unsafe fn avx512($($arg: $ty),*) {
            // SAFETY: the caller's promise, and this function's features.
            unsafe { $body::<$crate::lanes_x86::Avx512>($($arg),*) }
        }
        match $isa.path() {
            #[cfg(target_arch = "x86_64")]
            $crate::gemm::isa::Path::Avx2 => avx2($($arg),*),
            #[cfg(target_arch = "x86_64")]
            $crate::gemm::isa::Path::Avx512 => avx512($($arg),*),
            $crate::gemm::isa::Path::Portable => $body::<$crate::lanes::Plain>($($arg),*),
        }
    }};
}
pub(crate) use dispatch;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::isa::Isa;

    fn to_f32(isa: Isa, halves: &[u16; LANES]) -> [u32; LANES] {
        #[inline(always)]
        unsafe fn body<L: Lanes>(from: *const u16, to: *mut f32) {
            // SAFETY: both arrays have 16 elements.
            unsafe { L::load_half(from).store(to) }
        }
        let mut out = [0.0; LANES];
        let (from, to) = (halves.as_ptr(), out.as_mut_ptr());
        // SAFETY: both arrays have 16 elements.
        unsafe { dispatch!(isa, body(from: *const u16, to: *mut f32)) }
        out.map(f32::to_bits)
    }

    fn to_half(isa: Isa, numbers: &[f32; LANES]) -> [u16; LANES] {
        #[inline(always)]
        unsafe fn body<L: Lanes>(from: *const f32, to: *mut u16) {
            // SAFETY: both arrays have 16 elements.
            unsafe { L::load(from).store_half(to) }
        }
        let mut out = [0; LANES];
        let (from, to) = (numbers.as_ptr(), out.as_mut_ptr());
        // SAFETY: both arrays have 16 elements.
        unsafe { dispatch!(isa, body(from: *const f32, to: *mut u16)) }
        out
    }

    #[test]
    fn every_half_float_is_read_alike_and_written_back() {
        for first in (0..=u16::MAX).step_by(LANES) {
            let halves: [u16; LANES] = std::array::from_fn(|i| first + i as u16);
            let want = to_f32(Isa::available()[0], &halves);
            for isa in Isa::available() {
                assert_eq!(to_f32(isa, &halves), want, "{isa:?} from {first:#x}");
            }
            let finite = halves.map(|half| half & 0x7c00 != 0x7c00);
            let back = to_half(Isa::best(), &want.map(f32::from_bits));
            assert!(
                (0..LANES).all(|i| !finite[i] || back[i] == halves[i]),
                "from {first:#x}"
            );
        }
        assert_eq!(half_to_f32(0x3555), 0.333_251_95);
        assert_eq!(half_to_f32(0x8001), -(2f32.powi(-24)));
    }

    #[test]
    fn numbers_are_rounded_to_half_floats_alike() {
        // All exponents, and fractions around what is cut off: exact, below, at and above the tie, even and odd.
        let fractions = [
            0, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x3000, 0x3001, 0x7f_e000, 0x7f_f000,
            0x7f_ffff,
        ];
        let numbers: Vec<f32> = (0..512u32)
            .flat_map(|sign_and_exponent| {
                fractions.map(|fraction| f32::from_bits(sign_and_exponent << 23 | fraction))
            })
            .filter(|number| !number.is_nan())
            .collect();
        for sixteen in numbers.as_chunks::<LANES>().0 {
            let want = to_half(Isa::available()[0], sixteen);
            for isa in Isa::available() {
                assert_eq!(to_half(isa, sixteen), want, "{isa:?} of {sixteen:?}");
            }
        }
    }

    #[test]
    fn instruction_sets_add_and_compare_by_the_same_tree() {
        #[inline(always)]
        unsafe fn body<L: Lanes>(from: *const f32, to: *mut f32) {
            // SAFETY: 16 elements are read, two written.
            unsafe {
                let lanes = L::load(from);
                to.write(lanes.sum());
                to.add(1).write(lanes.largest());
            }
        }
        for seed in 0..100u32 {
            let numbers: [f32; LANES] = std::array::from_fn(|i| {
                (seed * 16 + i as u32).wrapping_mul(2_654_435_761) as i32 as f32
            });
            let results = Isa::available().into_iter().map(|isa| {
                let mut out = [0.0f32; 2];
                let (from, to) = (numbers.as_ptr(), out.as_mut_ptr());
                // SAFETY: as the body wants.
                unsafe { dispatch!(isa, body(from: *const f32, to: *mut f32)) }
                out.map(f32::to_bits)
            });
            let results: Vec<_> = results.collect();
            assert!(
                results.iter().all(|result| result == &results[0]),
                "{numbers:?}"
            );
        }
    }
}
