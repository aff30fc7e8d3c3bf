//! `layernorm.add_rmsnorm_quant`. A row is summed, normalised and quantised in f32 scratch that stays in L1.

use super::fused_add_rmsnorm::row;
use crate::isa::Isa;
use crate::pool::Plan;
use crate::quantization::dynamic::one;
use crate::scratch::{self, row_bytes};
use crate::variants::{variants, with_float};
use kernels_core::Ctx;
use kernels_ops::layernorm::AddRmsNormQuant;
use kernels_ops::quantization::FLOOR;
use std::ops::Range;

variants!(unsafe {
    op: AddRmsNormQuant,
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::EIGHT_BIT),
    plan: plan,
    part: part,
    workspace: workspace,
});

/// A unit is a row.
fn plan(a: &AddRmsNormQuant<'_>) -> Plan {
    Plan { units: a.x.dim(0), work: 3 * a.x.layout().elements() }
}

fn workspace(a: &AddRmsNormQuant<'_>, threads: usize) -> usize {
    row_bytes(a.x.dim(1)) * threads
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &AddRmsNormQuant<'_>, units: Range<usize>, thread: usize) {
    let (Some(x), Some(res), Some(q)) = (a.x.rows(), a.residual.rows(), a.q.rows()) else { return };
    // SAFETY: the workspace has a row for each thread.
    let values = unsafe { scratch::row::<f32>(ctx, a.x.dim(1), thread) };
    with_float!(a.x.dtype(), T => {
        for r in units {
            // SAFETY: row r is inside all tensors.
            unsafe {
                let from = a.x.as_ptr::<T>().add(r * x.stride);
                let residual = a.residual.as_mut_ptr::<T>().add(r * res.stride);
                row::<S, T, f32, false>(from, residual, a.weight.as_ptr(), values, values, x.cols, a.eps);
                let scale = a.scales.as_mut_ptr::<f32>().add(r * a.scales.stride(0));
                one::<S, f32>(values, x.cols, (&a.q, r * q.stride), scale, FLOOR);
            }
        }
    })
}
