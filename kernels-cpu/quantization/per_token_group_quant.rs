//! `quantization.per_token_group_quant`.

use super::dynamic::groups;
use crate::isa::Isa;
use crate::pool::Plan;
use crate::variants::variants;
use kernels_core::Ctx;
use kernels_ops::quantization::PerTokenGroupQuant;
use std::ops::Range;

variants!(unsafe {
    op: PerTokenGroupQuant,
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::EIGHT_BIT),
    plan: plan,
    part: part,
});

/// A unit is a group.
fn plan(a: &PerTokenGroupQuant<'_>) -> Plan {
    Plan { units: a.x.dim(0) * (a.x.dim(1) / a.group_size.max(1)), work: 2 * a.x.layout().elements() }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(_: &Ctx, a: &PerTokenGroupQuant<'_>, units: Range<usize>, _: usize) {
    // SAFETY: passed on.
    unsafe { groups::<S>(&a.x, &a.q, &a.scales, a.group_size, a.eps, units) }
}
