//! `sampling.top_k_renorm`.

use super::renorm::{plan as by_rows, row};
use crate::isa::Isa;
use crate::pool::Plan;
use crate::scratch::{self, row_bytes};
use crate::variants::variants;
use kernels_core::Ctx;
use kernels_ops::element::index;
use kernels_ops::sampling::TopKRenorm;
use std::ops::Range;

variants!(unsafe {
    op: TopKRenorm,
    formats: Formats::same(DTypeSet::of(&[::kernels_core::DType::F32])),
    plan: plan,
    part: part,
    workspace: workspace,
});

fn plan(a: &TopKRenorm<'_>) -> Plan {
    by_rows(&a.probs)
}

fn workspace(a: &TopKRenorm<'_>, threads: usize) -> usize {
    threads * row_bytes(a.probs.dim(1))
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &TopKRenorm<'_>, units: Range<usize>, thread: usize) {
    for r in units {
        // SAFETY: there is a k for each row; the workspace has a part for each thread.
        unsafe {
            let ids = scratch::row::<u32>(ctx, a.probs.dim(1), thread);
            let k = index(&a.k, r);
            let filter = usize::try_from(k).ok().map(|k| (k, 1.0));
            if filter.is_none() {
                ctx.out_of_range(k, a.probs.dim(1) + 1);
            }
            row(&a.probs, &a.out, r, filter, ids);
        }
    }
}
