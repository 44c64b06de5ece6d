//! Puts keys and values of a batch's rows into their blocks.

use super::plan::Row;
use super::{Attention, HeadInput, MAX_HEAD_DIM};
use crate::kv::BLOCK_TOKENS;
use crate::lanes::{LANES, Lanes};
use crate::rope::rotate;

/// What is stored, and where.
pub(super) struct StoreJob<'a> {
    pub(super) attention: &'a Attention<'a>,
    pub(super) keys: HeadInput<'a>,
    pub(super) values: HeadInput<'a>,
}

/// Stores keys and values of some rows.
///
/// # Safety
/// L's features exist; nothing else touches the rows' places in the cache meanwhile.
#[inline(always)]
pub(super) unsafe fn store_rows<L: Lanes>(job: &StoreJob<'_>, rows: &[Row]) {
    let attention = job.attention;
    let shape = attention.cache.shape();
    let (dim, epsilon) = (shape.head_dim, attention.epsilon);
    let (mut keys, mut values) = ([0.0f32; MAX_HEAD_DIM], [0.0f32; MAX_HEAD_DIM]);
    let mut rotated = [0.0f32; MAX_HEAD_DIM];
    let mut halves = [0u16; MAX_HEAD_DIM];
    for row in rows {
        let block = attention.plan.block(row, row.position / BLOCK_TOKENS);
        let slot = row.position % BLOCK_TOKENS;
        let factors = attention.rope.factors(row.position);
        for head in 0..shape.heads {
            let at = attention.cache.head(block, attention.layer, head);
            let place = (row.input, head, shape.heads);
            // SAFETY: `head_dim` is a multiple of the lanes and at most the buffers' length; the slot is inside the
            // block, where keys lie a block's tokens apart and values `head_dim` apart.
            unsafe {
                let keys = job.keys.head::<L>(place, epsilon, dim, &mut keys);
                let values = job.values.head::<L>(place, epsilon, dim, &mut values);
                rotate::<L>(
                    keys.as_ptr(),
                    factors.as_ptr(),
                    1.0,
                    rotated.as_mut_ptr(),
                    dim,
                );
                for i in (0..dim).step_by(LANES) {
                    L::load(rotated.as_ptr().add(i)).store_half(halves.as_mut_ptr().add(i));
                    L::load(values.as_ptr().add(i)).store_half(at.values.add(slot * dim + i));
                }
                for (i, half) in halves[..dim].iter().enumerate() {
                    *at.keys.add(i * BLOCK_TOKENS + slot) = *half;
                }
            }
        }
    }
}
