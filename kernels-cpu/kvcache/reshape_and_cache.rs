//! `kvcache.reshape_and_cache`. A copy, or a conversion, of each head's row.

use crate::isa::{Elem, Isa};
use crate::pool::Plan;
use crate::quantization::rows::convert;
use crate::variants::{variants, with_float};
use kernels_core::{Ctx, Element, View, ViewMut};
use kernels_ops::element::{below, index};
use kernels_ops::kvcache::ReshapeAndCache;
use std::ops::Range;

variants!(unsafe {
    op: ReshapeAndCache,
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT),
    plan: plan,
    part: part,
});

/// A unit is one head of keys or of values, for all tokens: two tokens with one slot are then written by one
/// thread, the later one last, and never race.
fn plan(a: &ReshapeAndCache<'_>) -> Plan {
    Plan { units: 2 * a.key.dim(1), work: 2 * a.key.layout().elements() }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &ReshapeAndCache<'_>, units: Range<usize>, _: usize) {
    with_float!(a.key.dtype(), A => with_float!(a.key_cache.dtype(), B => {
        for u in units {
            let (from, to) = if u % 2 == 0 { (&a.key, &a.key_cache) } else { (&a.value, &a.value_cache) };
            // SAFETY: passed on; u / 2 is below the number of heads.
            unsafe { head::<S, A, B>(ctx, a, from, to, u / 2) };
        }
    }))
}

/// # Safety
/// As for [`part`], for one head.
#[inline(always)]
unsafe fn head<S: Isa, A: Elem, B: Elem>(
    ctx: &Ctx,
    a: &ReshapeAndCache<'_>,
    from: &View<'_>,
    to: &ViewMut<'_>,
    h: usize,
) {
    let (block_size, slots) = (to.dim(1), to.dim(0) * to.dim(1));
    for t in 0..from.dim(0) {
        // SAFETY: there is a slot for each token; the cache is written only where the slot is inside.
        unsafe {
            let slot = index(&a.slot_mapping, t);
            let Some(s) = below(slot, slots) else {
                if slot >= 0 {
                    ctx.out_of_range(slot, slots);
                }
                continue;
            };
            let source = from.as_ptr::<A>().add(t * from.stride(0) + h * from.stride(1));
            let row = s / block_size * to.stride(0) + s % block_size * to.stride(1) + h * to.stride(2);
            let target = to.as_mut_ptr::<B>().add(row);
            match <A as Element>::DTYPE == <B as Element>::DTYPE {
                true => target.copy_from_nonoverlapping(source.cast(), from.dim(2)),
                false => convert::<S, A, B>(source, target, from.dim(2)),
            }
        }
    }
}
