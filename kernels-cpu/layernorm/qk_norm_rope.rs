//! `layernorm.qk_norm_rope`. A head is normalised into f32 scratch, turned there, and rounded back in place.

use super::rmsnorm::row;
use crate::embeddings::rope::turn;
use crate::isa::{Elem, Isa};
use crate::pool::Plan;
use crate::quantization::rows::convert;
use crate::scratch::{self, row_bytes};
use crate::variants::{variants, with_float};
use kernels_core::{Ctx, Rows, View, ViewMut};
use kernels_ops::embeddings::position;
use kernels_ops::layernorm::QkNormRope;
use std::ops::Range;

variants!(unsafe {
    op: QkNormRope,
    formats: Formats::same(DTypeSet::FLOAT),
    plan: plan,
    part: part,
    workspace: workspace,
});

fn plan(a: &QkNormRope<'_>) -> Plan {
    Plan { units: a.q.dim(0), work: 3 * (a.q.layout().elements() + a.k.layout().elements()) }
}

fn workspace(a: &QkNormRope<'_>, threads: usize) -> usize {
    row_bytes(a.q.dim(2)) * threads
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &QkNormRope<'_>, units: Range<usize>, thread: usize) {
    // SAFETY: the workspace has a head for each thread.
    let head = unsafe { scratch::row(ctx, a.q.dim(2), thread) };
    with_float!(a.q.dtype(), T => {
        for t in units {
            // SAFETY: t is below the number of tokens; the cache is read only where the position is inside.
            unsafe {
                let Some(p) = position(ctx, &a.positions, &a.cos_sin_cache, t) else { continue };
                let heads = [(&a.q, &a.q_weight), (&a.k, &a.k_weight)];
                token::<S, T>(heads, a.eps, t, &a.cos_sin_cache, p, a.is_neox, head);
            }
        }
    })
}

/// Every head of token `t`, normalised and turned by the angles of row `p` of the cache.
///
/// # Safety
/// `S`'s features; token and row are inside the tensors, whose heads are of type `T`; `scratch` is valid for a head.
#[inline(always)]
pub unsafe fn token<S: Isa, T: Elem>(
    both: [(&ViewMut<'_>, &View<'_>); 2],
    eps: f32,
    t: usize,
    cache: &View<'_>,
    p: usize,
    is_neox: bool,
    scratch: *mut f32,
) {
    // SAFETY: by contract.
    unsafe {
        let cos = cache.as_ptr::<f32>().add(p * cache.stride(0));
        for (x, weight) in both {
            let dim = x.dim(2);
            let whole = Rows { rows: 1, cols: dim, stride: dim };
            for h in 0..x.dim(1) {
                let head = x.as_mut_ptr::<T>().add(t * x.stride(0) + h * x.stride(1));
                row::<S, T, f32, false>(head, weight.as_ptr(), scratch, whole, eps);
                turn::<S, f32>(scratch, cos, cache.dim(1) / 2, is_neox);
                convert::<S, f32, T>(scratch, head, dim);
            }
        }
    }
}
