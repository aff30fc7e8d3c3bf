//! `layernorm.gemma_fused_add_rmsnorm`.

use super::fused_add_rmsnorm::{by_rows, rows};
use crate::isa::Isa;
use crate::pool::Plan;
use crate::scratch::row_bytes;
use crate::variants::variants;
use kernels_core::Ctx;
use kernels_ops::layernorm::GemmaFusedAddRmsNorm;
use std::ops::Range;

variants!(unsafe {
    op: GemmaFusedAddRmsNorm,
    formats: Formats::same(DTypeSet::FLOAT),
    plan: plan,
    part: part,
    workspace: workspace,
});

fn plan(a: &GemmaFusedAddRmsNorm<'_>) -> Plan {
    by_rows(&a.x)
}

fn workspace(a: &GemmaFusedAddRmsNorm<'_>, threads: usize) -> usize {
    row_bytes(a.x.rows().map_or(0, |r| r.cols)) * threads
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &GemmaFusedAddRmsNorm<'_>, units: Range<usize>, thread: usize) {
    // SAFETY: passed on.
    unsafe { rows::<S, true>(ctx, [&a.x, &a.residual], &a.weight, a.eps, units, thread) }
}
