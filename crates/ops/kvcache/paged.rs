//! What the ops that store into a paged cache share: checks, and the reference's way to a slot.

use crate::args::{Arg, in_range};
use crate::element::{at, below, index, put};
use kernels_core::{CallError, Ctx, DTypeSet, View, ViewMut};

/// Element types of a cache.
pub(crate) const CACHE: DTypeSet = DTypeSet::FLOAT.union(DTypeSet::EIGHT_BIT);

/// What the caches' elements were divided by.
pub(crate) fn check_scales(
    op: &'static str,
    scales: [f32; 2],
    device: kernels_core::Device,
) -> Result<(), CallError> {
    for (what, scale) in ["k_scale", "v_scale"].into_iter().zip(scales) {
        in_range(op, what, scale.into(), scale > 0.0 && scale.is_finite(), "above 0", device)?;
    }
    Ok(())
}

/// Checks the caches and slots for new keys and values `[tokens, num_kv_heads, head_dim]`.
pub(super) fn check(
    op: &'static str,
    [key_name, value_name]: [&'static str; 2],
    [key, value]: [View<'_>; 2],
    [key_cache, value_cache]: [View<'_>; 2],
    slot_mapping: View<'_>,
    scales: [f32; 2],
) -> Result<(), CallError> {
    let arg = |name, view| Arg::new(op, name, view);
    let keys = arg(key_name, key).dtype(DTypeSet::FLOAT)?.rank(3)?.dense_last()?;
    arg(value_name, value).like(keys)?.shape(key.shape())?.dense_last()?;
    let cache = arg("key_cache", key_cache).dtype(CACHE)?.rank(4)?.dense_last()?.output()?;
    cache.shape(&[key_cache.dim(0), key_cache.dim(1), key.dim(1), key.dim(2)])?;
    let values = arg("value_cache", value_cache).like(cache)?.shape(key_cache.shape())?;
    values.dense_last()?.output()?;
    arg("slot_mapping", slot_mapping).indices(key.dim(0))?;
    check_scales(op, scales, key.device())
}

/// Slot of token `t`, if it has one; one beyond the cache is reported.
///
/// # Safety
/// Checked arguments on the host, and `t` below the number of slots given.
#[inline(always)]
pub unsafe fn slot(ctx: &Ctx, slot_mapping: &View<'_>, cache: &ViewMut<'_>, t: usize) -> Option<usize> {
    let slots = cache.dim(0) * cache.dim(1);
    // SAFETY: by contract.
    let slot = unsafe { index(slot_mapping, t) };
    let found = below(slot, slots);
    if found.is_none() && slot >= 0 {
        ctx.out_of_range(slot, slots);
    }
    found
}

/// Token `t` of `from`, divided by `scale`, to slot `s`.
///
/// # Safety
/// Checked arguments on the host; token and slot are inside.
pub(super) unsafe fn store(from: &View<'_>, t: usize, to: &ViewMut<'_>, s: usize, scale: f32) {
    let block_size = to.dim(1);
    for h in 0..from.dim(1) {
        let source = t * from.stride(0) + h * from.stride(1);
        let target = s / block_size * to.stride(0) + s % block_size * to.stride(1) + h * to.stride(2);
        for i in 0..from.dim(2) {
            // SAFETY: every index is inside its dimension. The quotient is f32's: where it is rounded to 8 bits,
            // the contract says from which number.
            unsafe { put(to, target + i, f64::from(at(from, source + i) as f32 / scale)) };
        }
    }
}
