//! `sampling.top_p_renorm`.

use super::renorm::{plan as by_rows, row};
use crate::isa::Isa;
use crate::pool::Plan;
use crate::scratch::{self, row_bytes};
use crate::variants::variants;
use kernels_core::Ctx;
use kernels_ops::sampling::TopPRenorm;
use std::ops::Range;

variants!(unsafe {
    op: TopPRenorm,
    formats: Formats::same(DTypeSet::of(&[::kernels_core::DType::F32])),
    plan: plan,
    part: part,
    workspace: workspace,
});

fn plan(a: &TopPRenorm<'_>) -> Plan {
    by_rows(&a.probs)
}

fn workspace(a: &TopPRenorm<'_>, threads: usize) -> usize {
    threads * row_bytes(a.probs.dim(1))
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &TopPRenorm<'_>, units: Range<usize>, thread: usize) {
    for r in units {
        // SAFETY: there is a p for each row; the workspace has a part for each thread.
        unsafe {
            let ids = scratch::row::<u32>(ctx, a.probs.dim(1), thread);
            let p = *a.p.as_ptr::<f32>().add(r);
            // Nothing of the sum is the least of it: the most probable token.
            let filter = (!p.is_nan()).then(|| (0, f64::from(p).max(1e-300)));
            if filter.is_none() {
                ctx.not_a_number(r);
            }
            row(&a.probs, &a.out, r, filter, ids);
        }
    }
}
