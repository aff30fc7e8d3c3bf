//! `activation.silu_and_mul_quant`. A row is gated and quantised in f32 scratch that stays in L1 or L2.

use super::map::gate_row;
use super::silu_and_mul::Silu;
use crate::isa::Isa;
use crate::pool::Plan;
use crate::quantization::dynamic::one;
use crate::scratch::{self, row_bytes};
use crate::variants::{variants, with_float};
use kernels_core::Ctx;
use kernels_ops::activation::SiluAndMulQuant;
use kernels_ops::quantization::FLOOR;
use std::ops::Range;

variants!(unsafe {
    op: SiluAndMulQuant,
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::EIGHT_BIT),
    plan: plan,
    part: part,
    workspace: workspace,
});

/// A unit is a row.
fn plan(a: &SiluAndMulQuant<'_>) -> Plan {
    Plan { units: a.q.dim(0), work: 6 * a.q.layout().elements() }
}

fn workspace(a: &SiluAndMulQuant<'_>, threads: usize) -> usize {
    row_bytes(a.q.dim(1)) * threads
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &SiluAndMulQuant<'_>, units: Range<usize>, thread: usize) {
    let (Some(x), Some(q)) = (a.x.rows(), a.q.rows()) else { return };
    // SAFETY: the workspace has a row for each thread.
    let values = unsafe { scratch::row::<f32>(ctx, a.q.dim(1), thread) };
    with_float!(a.x.dtype(), T => {
        for r in units {
            // SAFETY: row r is inside all tensors.
            unsafe {
                let gate = a.x.as_ptr::<T>().add(r * x.stride);
                gate_row::<S, T, f32, Silu>(gate, gate.add(q.cols), values, q.cols, &Silu);
                let scale = a.scales.as_mut_ptr::<f32>().add(r * a.scales.stride(0));
                one::<S, f32>(values, q.cols, (&a.q, r * q.stride), scale, FLOOR);
            }
        }
    })
}
