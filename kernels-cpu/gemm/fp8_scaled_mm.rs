//! `gemm.fp8_scaled_mm`. As `gemm.linear`, f8 widened where it is loaded.

use super::linear::stream;
use super::panel::{Output, input, input_bytes, widen};
use super::tile::NR;
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
    prepare: prepare,
    workspace: workspace,
});

fn plan(a: &Fp8ScaledMm<'_>) -> Plan {
    Plan { units: a.b.dim(0).div_ceil(NR), work: a.a.dim(0).max(2) / 2 * a.b.layout().elements() }
}

fn workspace(a: &Fp8ScaledMm<'_>, _: usize) -> usize {
    input_bytes(&a.a)
}

/// # Safety
/// Checked arguments on the host, `S`'s features.
#[inline(always)]
unsafe fn prepare<S: Isa>(ctx: &Ctx, a: &Fp8ScaledMm<'_>) {
    // SAFETY: the workspace was asked for with this size.
    unsafe { widen::<S>(&a.a, ctx.workspace().0) }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &Fp8ScaledMm<'_>, units: Range<usize>, _: usize) {
    let (Some(x), Some(o), Some(rows)) = (input(&a.a, ctx.workspace().0), a.out.rows(), a.b.rows()) else {
        return;
    };
    let scales = Some((a.scales_a.as_ptr(), a.scales_b.as_ptr()));
    with_float!(a.out.dtype(), O => {
        let bias = a.bias.as_ref().map(|b| b.as_ptr());
        let out = Output::<O> { ptr: a.out.as_mut_ptr(), stride: o.stride, bias, scales };
        // SAFETY: passed on.
        unsafe { stream::<S, F8E4M3, O>(x, (a.b.as_ptr(), rows), units, out) }
    })
}
