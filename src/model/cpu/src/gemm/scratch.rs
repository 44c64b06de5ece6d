//! Room for one tile's weights as a path unpacks them, reused from tile to tile.

use std::mem::MaybeUninit;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code, reason = "seen through other types")] [MaybeUninit<u8>; 64]);

#[derive(Default)]
pub(super) struct Scratch(Vec<Line>);

impl Scratch {
    /// Room for `len` values whose alignment is at most 64.
    pub(super) fn take<T>(&mut self, len: usize) -> &mut [MaybeUninit<T>] {
        const { assert!(align_of::<T>() <= align_of::<Line>()) };
        let lines = (len * size_of::<T>()).div_ceil(size_of::<Line>());
        if self.0.len() < lines {
            self.0.resize(lines, Line([MaybeUninit::uninit(); 64]));
        }
        // SAFETY: the vector holds at least `len` values' bytes, aligned for them, and uninitialised values are valid.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), len) }
    }
}
