//! `gemm.linear`.

use super::input::Input;
use super::output::Output;
use super::product::{self, product};
use crate::isa::{Elem, Isa};
use crate::pool::Plan;
use crate::variants::{variants, with_float};
use kernels_core::Ctx;
use kernels_ops::gemm::Linear;
use std::ops::Range;

variants!(unsafe {
    op: Linear,
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT),
    plan: plan,
    part: part,
    prepare: (first, prepare),
    workspace: workspace,
});

fn plan(a: &Linear<'_>) -> Plan {
    product::plan(&a.x, a.weight.dim(0), a.weight.layout().elements())
}

fn first(a: &Linear<'_>) -> Plan {
    Input::plan(&a.x)
}

pub fn workspace(a: &Linear<'_>, threads: usize) -> usize {
    product::bytes(&a.x, threads)
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and rows that nobody else works on.
#[inline(always)]
unsafe fn prepare<S: Isa>(ctx: &Ctx, a: &Linear<'_>, rows: Range<usize>) {
    // SAFETY: the workspace begins with this size.
    unsafe { Input::prepare::<S>(&a.x, rows, ctx.workspace().0) }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &Linear<'_>, units: Range<usize>, thread: usize) {
    // SAFETY: passed on.
    with_float!(a.weight.dtype(), W => with_float!(a.x.dtype(), O => unsafe {
        typed::<S, W, O>(ctx, a, units, thread);
    }))
}

/// # Safety
/// As for [`part`].
#[inline(always)]
unsafe fn typed<S: Isa, W: Elem, O: Elem>(ctx: &Ctx, a: &Linear<'_>, units: Range<usize>, thread: usize) {
    let (x, out) = (Input::of(&a.x, ctx.workspace().0), Output::of(&a.out, a.bias.as_ref()));
    let (Some(x), Some(out), Some(rows)) = (x, out, a.weight.rows()) else { return };
    let space = product::space(ctx, &a.x, thread);
    // SAFETY: passed on.
    unsafe { product::<S, W, O>(x, (a.weight.as_ptr(), rows), units, out, space) }
}
