//! `layernorm.qk_norm_rope`. A head is normalised into f32 scratch, turned there, and rounded back in place.

use super::rmsnorm::row;
use crate::embeddings::rope::turn;
use crate::isa::Isa;
use crate::pool::Plan;
use crate::quantization::rows::convert;
use crate::variants::{variants, with_float};
use kernels_core::{Ctx, Rows};
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
    head_bytes(a) * threads
}

fn head_bytes(a: &QkNormRope<'_>) -> usize {
    (4 * a.q.dim(2)).next_multiple_of(64)
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &QkNormRope<'_>, units: Range<usize>, thread: usize) {
    let (dim, half) = (a.q.dim(2), a.cos_sin_cache.dim(1) / 2);
    let whole = Rows { rows: 1, cols: dim, stride: dim };
    // SAFETY: the workspace has a head for each thread.
    let scratch = unsafe { ctx.workspace().0.add(thread * head_bytes(a)).cast::<f32>() };
    with_float!(a.q.dtype(), T => {
        for t in units {
            // SAFETY: t is below the number of tokens; the cache is read only where the position is inside.
            unsafe {
                let Some(p) = position(ctx, &a.positions, &a.cos_sin_cache, t) else { continue };
                let cos = a.cos_sin_cache.as_ptr::<f32>().add(p * a.cos_sin_cache.stride(0));
                for (x, weight) in [(&a.q, &a.q_weight), (&a.k, &a.k_weight)] {
                    for h in 0..x.dim(1) {
                        let head = x.as_mut_ptr::<T>().add(t * x.stride(0) + h * x.stride(1));
                        row::<S, T, f32, false>(head, weight.as_ptr(), scratch, whole, a.eps);
                        turn::<S, f32>(scratch, cos, half, a.is_neox);
                        convert::<S, f32, T>(scratch, head, dim);
                    }
                }
            }
        }
    })
}
