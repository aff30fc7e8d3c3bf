//! `gemm.fp8_scaled_mm`. As `gemm.linear`, f8 widened where it is loaded.

use super::input::Input;
use super::output::Output;
use super::product::{self, Weight, is_cut, product};
use super::times::Numbers;
use crate::isa::Isa;
use crate::pool::Plan;
use crate::variants::{variants, with_float};
use kernels_core::{Ctx, F8E4M3};
use kernels_ops::gemm::Fp8ScaledMm;
use std::ops::Range;

variants!(unsafe {
    op: Fp8ScaledMm,
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::of(&[::kernels_core::DType::F8E4M3])),
    plan: plan,
    part: part,
    prepare: (first, prepare),
    workspace: workspace,
});

fn cut(a: &Fp8ScaledMm<'_>) -> bool {
    is_cut(&a.a, false)
}

fn plan(a: &Fp8ScaledMm<'_>) -> Plan {
    product::plan(&a.a, cut(a), a.b.dim(0), a.b.layout().elements())
}

fn first(a: &Fp8ScaledMm<'_>) -> Plan {
    Input::plan(&a.a, cut(a))
}

pub fn workspace(a: &Fp8ScaledMm<'_>, threads: usize) -> usize {
    product::bytes(&a.a, cut(a), threads)
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and rows that nobody else works on.
#[inline(always)]
unsafe fn prepare<S: Isa>(ctx: &Ctx, a: &Fp8ScaledMm<'_>, rows: Range<usize>, _: usize) {
    // SAFETY: the workspace begins with this size.
    unsafe { Input::prepare::<S>(&a.a, cut(a), rows, ctx.workspace().0) }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &Fp8ScaledMm<'_>, units: Range<usize>, thread: usize) {
    let (Some(x), Some(rows)) = (Input::of(&a.a, cut(a), ctx.workspace().0), a.b.rows()) else { return };
    let weight = Weight { ptr: a.b.as_ptr(), rows, packed: false };
    let space = product::space(ctx, &a.a, cut(a), thread);
    with_float!(a.out.dtype(), O => {
        let Some(out) = Output::<O>::of(&a.out, a.bias.as_ref()) else { return };
        let out = out.scaled(&a.scales_a, &a.scales_b);
        // SAFETY: passed on.
        unsafe { product::<S, F8E4M3, O, Numbers>(x, weight, units, out, space) }
    })
}
