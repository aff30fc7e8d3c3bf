//! `layernorm.gemma_rmsnorm`.

use super::rmsnorm::{by_rows, rows};
use crate::isa::Isa;
use crate::pool::Plan;
use crate::variants::variants;
use kernels_core::Ctx;
use kernels_ops::layernorm::GemmaRmsNorm;
use std::ops::Range;

variants!(unsafe { op: GemmaRmsNorm, formats: Formats::same(DTypeSet::FLOAT), plan: plan, part: part });

fn plan(a: &GemmaRmsNorm<'_>) -> Plan {
    by_rows(&a.x)
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(_: &Ctx, a: &GemmaRmsNorm<'_>, units: Range<usize>, _: usize) {
    // SAFETY: passed on.
    unsafe { rows::<S, true>(&a.x, &a.weight, &a.out, a.eps, units) }
}
