//! `quantization.dequantize_gguf`. One pass.

use super::rows::{expand, row_bytes};
use crate::isa::Isa;
use crate::pool::Plan;
use crate::variants::{variants, with_float};
use kernels_core::Ctx;
use kernels_ops::quantization::DequantizeGguf;
use std::ops::Range;

variants!(unsafe {
    op: DequantizeGguf,
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT.union(DTypeSet::GGUF)),
    plan: plan,
    part: part,
});

fn plan(a: &DequantizeGguf<'_>) -> Plan {
    Plan { units: a.weight.rows().map_or(0, |r| r.rows), work: a.weight.layout().elements() }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(_: &Ctx, a: &DequantizeGguf<'_>, units: Range<usize>, _: usize) {
    let (Some(w), Some(o)) = (a.weight.rows(), a.out.rows()) else { return };
    let bytes = row_bytes(a.weight.dtype(), w.stride);
    with_float!(a.out.dtype(), T => {
        for r in units {
            // SAFETY: row r is inside both tensors.
            unsafe {
                let (source, out) = (a.weight.as_ptr::<u8>().add(r * bytes), a.out.as_mut_ptr::<T>().add(r * o.stride));
                expand::<S, T>(a.weight.dtype(), source, w.cols, out);
            }
        }
    })
}
