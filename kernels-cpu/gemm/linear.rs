//! `gemm.linear`. Units are groups of weight rows, so that a weight is read once for each 64 rows of x, and
//! at one row of x streams through once.

use super::panel::{Input, Output, X_BLOCK, input, input_bytes, panel, widen};
use super::tile::NR;
use crate::isa::{Elem, Isa};
use crate::pool::Plan;
use crate::variants::{variants, with_float};
use kernels_core::{Ctx, Rows};
use kernels_ops::gemm::Linear;
use std::ops::Range;

variants!(unsafe {
    op: Linear,
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT),
    plan: plan,
    part: part,
    prepare: prepare,
    workspace: workspace,
});

fn plan(a: &Linear<'_>) -> Plan {
    let rows = a.x.rows().map_or(0, |r| r.rows);
    Plan { units: a.weight.dim(0).div_ceil(NR), work: rows.max(2) / 2 * a.weight.layout().elements() }
}

fn workspace(a: &Linear<'_>, _: usize) -> usize {
    input_bytes(&a.x)
}

/// # Safety
/// Checked arguments on the host, `S`'s features.
#[inline(always)]
unsafe fn prepare<S: Isa>(ctx: &Ctx, a: &Linear<'_>) {
    // SAFETY: the workspace was asked for with this size.
    unsafe { widen::<S>(&a.x, ctx.workspace().0) }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &Linear<'_>, units: Range<usize>, _: usize) {
    let Some(rows) = a.weight.rows() else { return };
    // SAFETY: passed on.
    with_float!(a.weight.dtype(), W => with_float!(a.x.dtype(), O => unsafe {
        typed::<S, W, O>(ctx, a, units, a.weight.as_ptr::<W>(), rows);
    }))
}

/// # Safety
/// As for [`part`].
#[inline(always)]
unsafe fn typed<S: Isa, W: Elem, O: Elem>(
    ctx: &Ctx,
    a: &Linear<'_>,
    units: Range<usize>,
    weight: *const W,
    rows: Rows,
) {
    let (Some(x), Some(o)) = (input(&a.x, ctx.workspace().0), a.out.rows()) else { return };
    let bias = a.bias.as_ref().map(|b| b.as_ptr());
    let out = Output::<O> { ptr: a.out.as_mut_ptr(), stride: o.stride, bias, scales: None };
    // SAFETY: passed on.
    unsafe { stream::<S, W, O>(x, (weight, rows), units, out) }
}

/// All rows of x times the weight rows of `units`, groups of [`NR`].
///
/// # Safety
/// As for [`part`].
#[inline(always)]
pub unsafe fn stream<S: Isa, W: Elem, O: Elem>(
    x: Input,
    (weight, rows): (*const W, Rows),
    units: Range<usize>,
    out: Output<O>,
) {
    let mut start = 0;
    while start < x.rows {
        let end = x.rows.min(start + X_BLOCK);
        for u in units.clone() {
            let n = u * NR;
            let count = NR.min(rows.rows - n);
            let mut w = [weight; NR];
            for j in 0..NR {
                // SAFETY: the row is inside the weight.
                w[j] = unsafe { weight.add((n + j.min(count - 1)) * rows.stride) };
            }
            // SAFETY: all rows are inside their tensors.
            unsafe { panel::<S, W, O>(x, (start, end), w, (n, count), out) };
        }
        start = end;
    }
}
