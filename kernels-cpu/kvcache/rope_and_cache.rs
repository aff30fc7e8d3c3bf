//! `kvcache.rope_and_cache`. Each token once: q and k are turned, and stored while they are in L1.

use super::store::{UNITS, store};
use crate::embeddings::rope::turn_token;
use crate::isa::Isa;
use crate::pool::Plan;
use crate::variants::{variants, with_cache, with_float};
use kernels_core::Ctx;
use kernels_ops::embeddings::position;
use kernels_ops::kvcache::{RopeAndCache, slot};
use std::ops::Range;

variants!(unsafe {
    op: RopeAndCache,
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT.union(DTypeSet::EIGHT_BIT)),
    plan: plan,
    part: part,
});

/// A unit is the tokens of a share of the cache's blocks, and of those without a slot.
fn plan(a: &RopeAndCache<'_>) -> Plan {
    Plan { units: UNITS, work: 2 * a.q.layout().elements() + 4 * a.k.layout().elements() }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &RopeAndCache<'_>, units: Range<usize>, _: usize) {
    let block_size = a.key_cache.dim(1);
    with_float!(a.q.dtype(), A => with_cache!(a.key_cache.dtype(), B => {
        for t in 0..a.q.dim(0) {
            // SAFETY: there is a position and a slot for each token; both caches are touched only inside.
            unsafe {
                let place = slot(ctx, &a.slot_mapping, &a.key_cache, t).map(|s| (s / block_size, s % block_size));
                if !units.contains(&(place.map_or(t, |p| p.0) % UNITS)) {
                    continue;
                }
                let Some(p) = position(ctx, &a.positions, &a.cos_sin_cache, t) else { continue };
                turn_token::<S, A>([&a.q, &a.k], t, &a.cos_sin_cache, p, a.is_neox);
                if let Some(place) = place {
                    store::<S, A, B>(&a.k.as_view(), &a.key_cache, t, place, a.k_scale);
                    store::<S, A, B>(&a.value, &a.value_cache, t, place, a.v_scale);
                }
            }
        }
    }))
}
