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

/// A unit is a share of the cache's blocks: two tokens with one slot are written by one thread, the later one
/// last, and never race. Each unit looks at all slots, which is little beside the rows it copies.
const UNITS: usize = 16;

fn plan(a: &ReshapeAndCache<'_>) -> Plan {
    Plan { units: UNITS, work: 2 * a.key.layout().elements() }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &ReshapeAndCache<'_>, units: Range<usize>, _: usize) {
    let (block_size, slots) = (a.key_cache.dim(1), a.key_cache.dim(0) * a.key_cache.dim(1));
    with_float!(a.key.dtype(), A => with_float!(a.key_cache.dtype(), B => {
        for t in 0..a.key.dim(0) {
            // SAFETY: there is a slot for each token; the cache is written only where the slot is inside.
            unsafe {
                let slot = index(&a.slot_mapping, t);
                let Some(s) = below(slot, slots) else {
                    if slot >= 0 {
                        ctx.out_of_range(slot, slots);
                    }
                    continue;
                };
                let place = (s / block_size, s % block_size);
                if units.contains(&(place.0 % UNITS)) {
                    token::<S, A, B>(&a.key, &a.key_cache, t, place);
                    token::<S, A, B>(&a.value, &a.value_cache, t, place);
                }
            }
        }
    }))
}

/// # Safety
/// `S`'s features; the token and its place are inside the tensors.
#[inline(always)]
unsafe fn token<S: Isa, A: Elem, B: Elem>(
    from: &View<'_>,
    to: &ViewMut<'_>,
    t: usize,
    (block, row): (usize, usize),
) {
    for h in 0..from.dim(1) {
        // SAFETY: every index is inside its dimension.
        unsafe {
            let source = from.as_ptr::<A>().add(t * from.stride(0) + h * from.stride(1));
            let target =
                to.as_mut_ptr::<B>().add(block * to.stride(0) + row * to.stride(1) + h * to.stride(2));
            match <A as Element>::DTYPE == <B as Element>::DTYPE {
                true => target.copy_from_nonoverlapping(source.cast(), from.dim(2)),
                false => convert::<S, A, B>(source, target, from.dim(2)),
            }
        }
    }
}
