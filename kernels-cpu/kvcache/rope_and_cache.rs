//! `kvcache.rope_and_cache`. Each token once: q and k are turned, and stored while they are in L1.

use super::store::{UNITS, store};
use crate::embeddings::rope::turn;
use crate::isa::Isa;
use crate::pool::Plan;
use crate::variants::{variants, with_cache, with_float};
use kernels_core::Ctx;
use kernels_ops::element::{below, index};
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
    let (block_size, half) = (a.key_cache.dim(1), a.cos_sin_cache.dim(1) / 2);
    with_float!(a.q.dtype(), A => with_cache!(a.key_cache.dtype(), B => {
        for t in 0..a.q.dim(0) {
            // SAFETY: there is a position and a slot for each token; both caches are touched only inside.
            unsafe {
                let place = slot(ctx, &a.slot_mapping, &a.key_cache, t).map(|s| (s / block_size, s % block_size));
                if !units.contains(&(place.map_or(t, |p| p.0) % UNITS)) {
                    continue;
                }
                let position = index(&a.positions, t);
                let Some(p) = below(position, a.cos_sin_cache.dim(0)) else {
                    ctx.out_of_range(position, a.cos_sin_cache.dim(0));
                    continue;
                };
                let cos = a.cos_sin_cache.as_ptr::<f32>().add(p * a.cos_sin_cache.stride(0));
                for x in [&a.q, &a.k] {
                    for h in 0..x.dim(1) {
                        let head = x.as_mut_ptr::<A>().add(t * x.stride(0) + h * x.stride(1));
                        turn::<S, A>(head, cos, half, a.is_neox);
                    }
                }
                if let Some(place) = place {
                    store::<S, A, B>(&a.k.as_view(), &a.key_cache, t, place, a.k_scale);
                    store::<S, A, B>(&a.value, &a.value_cache, t, place, a.v_scale);
                }
            }
        }
    }))
}
