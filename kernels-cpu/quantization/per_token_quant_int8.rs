//! `quantization.per_token_quant_int8`.

use super::dynamic::groups;
use crate::isa::Isa;
use crate::pool::Plan;
use crate::variants::variants;
use kernels_core::Ctx;
use kernels_ops::quantization::{FLOOR, PerTokenQuantInt8};
use std::ops::Range;

variants!(unsafe {
    op: PerTokenQuantInt8,
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::of(&[::kernels_core::DType::I8])),
    plan: plan,
    part: part,
});

/// A unit is a row.
fn plan(a: &PerTokenQuantInt8<'_>) -> Plan {
    Plan { units: a.x.dim(0), work: 2 * a.x.layout().elements() }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(_: &Ctx, a: &PerTokenQuantInt8<'_>, units: Range<usize>, _: usize) {
    // SAFETY: passed on.
    unsafe { groups::<S>(&a.x, &a.q, &a.scales, a.x.dim(1), FLOOR, units) }
}
