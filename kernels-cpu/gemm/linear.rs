//! `gemm.linear`. A weight may be packed ahead of the calls: then nothing of it is turned in them.

use super::input::Input;
use super::output::Output;
use super::product::{self, Weight, is_cut, product};
use super::turn::pack;
use crate::isa::{Elem, Isa};
use crate::pool::Plan;
use crate::variants::{variants, with_float};
use kernels_core::{Ctx, Error, PackedFor, Tensor, View};
use kernels_ops::gemm::Linear;
use std::ops::Range;

variants!(unsafe {
    op: Linear,
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT),
    plan: plan,
    part: part,
    prepare: (first, prepare),
    workspace: workspace,
    prepack: prepack,
});

fn is_packed(a: &Linear<'_>) -> bool {
    a.weight.packed() != PackedFor::NOBODY
}

fn cut(a: &Linear<'_>) -> bool {
    is_cut(&a.x, is_packed(a))
}

/// # Safety
/// A float weight on the host.
unsafe fn prepack<S: Isa>(weight: &View<'_>) -> Result<Tensor, Error> {
    // SAFETY: passed on.
    with_float!(weight.dtype(), W => unsafe { pack::<S, W>(weight) })
}

fn plan(a: &Linear<'_>) -> Plan {
    product::plan(&a.x, cut(a), a.weight.dim(0), a.weight.layout().elements())
}

fn first(a: &Linear<'_>) -> Plan {
    Input::plan(&a.x, cut(a))
}

pub fn workspace(a: &Linear<'_>, threads: usize) -> usize {
    product::bytes(&a.x, cut(a), threads)
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and rows that nobody else works on.
#[inline(always)]
unsafe fn prepare<S: Isa>(ctx: &Ctx, a: &Linear<'_>, rows: Range<usize>, _: usize) {
    // SAFETY: the workspace begins with this size.
    unsafe { Input::prepare::<S>(&a.x, cut(a), rows, ctx.workspace().0) }
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
    let (x, out) = (Input::of(&a.x, cut(a), ctx.workspace().0), Output::of(&a.out, a.bias.as_ref()));
    let (Some(x), Some(out), Some(rows)) = (x, out, a.weight.rows()) else { return };
    let space = product::space(ctx, &a.x, cut(a), thread);
    let weight = Weight { ptr: a.weight.as_ptr(), rows, packed: is_packed(a) };
    // SAFETY: passed on.
    unsafe { product::<S, W, O>(x, weight, units, out, space) }
}
