//! `kvcache.reshape_and_cache`. A copy, or a conversion, of each head's row.

use super::store::{UNITS, store};
use crate::isa::Isa;
use crate::pool::Plan;
use crate::variants::{variants, with_cache, with_float};
use kernels_core::Ctx;
use kernels_ops::kvcache::{ReshapeAndCache, slot};
use std::ops::Range;

variants!(unsafe {
    op: ReshapeAndCache,
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT.union(DTypeSet::EIGHT_BIT)),
    plan: plan,
    part: part,
});

/// A unit is a share of the cache's blocks; each unit looks at all slots, which is little beside the rows it
/// copies.
fn plan(a: &ReshapeAndCache<'_>) -> Plan {
    Plan { units: UNITS, work: 2 * a.key.layout().elements() }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &ReshapeAndCache<'_>, units: Range<usize>, _: usize) {
    let block_size = a.key_cache.dim(1);
    with_float!(a.key.dtype(), A => with_cache!(a.key_cache.dtype(), B => {
        for t in 0..a.key.dim(0) {
            // SAFETY: there is a slot for each token; the cache is written only where the slot is inside.
            unsafe {
                let Some(s) = slot(ctx, &a.slot_mapping, &a.key_cache, t) else { continue };
                let place = (s / block_size, s % block_size);
                if units.contains(&(place.0 % UNITS)) {
                    store::<S, A, B>(&a.key, &a.key_cache, t, place, a.k_scale);
                    store::<S, A, B>(&a.value, &a.value_cache, t, place, a.v_scale);
                }
            }
        }
    }))
}
