//! `kvcache.qk_norm_rope_store`. Each token once: q and k are normalised and turned, and stored while they are in L1.

use super::store::{UNITS, store};
use crate::isa::Isa;
use crate::layernorm::qk_norm_rope::token;
use crate::pool::Plan;
use crate::scratch::{self, row_bytes};
use crate::variants::{variants, with_cache, with_float};
use kernels_core::Ctx;
use kernels_ops::embeddings::position;
use kernels_ops::kvcache::{QkNormRopeStore, slot};
use std::ops::Range;

variants!(unsafe {
    op: QkNormRopeStore,
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT.union(DTypeSet::EIGHT_BIT)),
    plan: plan,
    part: part,
    workspace: workspace,
});

/// A unit is the tokens of a share of the cache's blocks, and of those without a slot.
fn plan(a: &QkNormRopeStore<'_>) -> Plan {
    Plan { units: UNITS, work: 3 * a.q.layout().elements() + 5 * a.k.layout().elements() }
}

fn workspace(a: &QkNormRopeStore<'_>, threads: usize) -> usize {
    row_bytes(a.q.dim(2)) * threads
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &QkNormRopeStore<'_>, units: Range<usize>, thread: usize) {
    let block_size = a.key_cache.dim(1);
    // SAFETY: the workspace has a head for each thread.
    let head = unsafe { scratch::row(ctx, a.q.dim(2), thread) };
    with_float!(a.q.dtype(), A => with_cache!(a.key_cache.dtype(), B => {
        for t in 0..a.q.dim(0) {
            // SAFETY: there is a position and a slot for each token; both caches are touched only inside.
            unsafe {
                let place = slot(ctx, &a.slot_mapping, &a.key_cache, t).map(|s| (s / block_size, s % block_size));
                if !units.contains(&(place.map_or(t, |p| p.0) % UNITS)) {
                    continue;
                }
                let Some(p) = position(ctx, &a.positions, &a.cos_sin_cache, t) else { continue };
                let heads = [(&a.q, &a.q_weight), (&a.k, &a.k_weight)];
                token::<S, A>(heads, a.eps, t, &a.cos_sin_cache, p, a.is_neox, head);
                if let Some(place) = place {
                    store::<S, A, B>(&a.k.as_view(), &a.key_cache, t, place, a.k_scale);
                    store::<S, A, B>(&a.value, &a.value_cache, t, place, a.v_scale);
                }
            }
        }
    }))
}
