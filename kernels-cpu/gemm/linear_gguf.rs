//! `gemm.linear_gguf`. Four weight rows at a time become f32 in scratch (64 KiB at 4096 columns), which then
//! multiply all rows of x: the blocks are read and decoded once for each call.

use super::panel::{Output, X_BLOCK, input, input_bytes, panel, widen};
use super::tile::NR;
use crate::isa::{Elem, Isa};
use crate::pool::Plan;
use crate::quantization::rows::{expand, row_bytes};
use crate::variants::{variants, with_float};
use kernels_core::Ctx;
use kernels_ops::gemm::LinearGguf;
use std::ops::Range;

variants!(unsafe {
    op: LinearGguf,
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT.union(DTypeSet::GGUF)),
    plan: plan,
    part: part,
    prepare: prepare,
    workspace: workspace,
});

/// Weight rows decoded together: several groups, so that the blocks of x in L2 are passed over less often.
const GROUP: usize = 8 * NR;

fn plan(a: &LinearGguf<'_>) -> Plan {
    let rows = a.x.rows().map_or(0, |r| r.rows);
    Plan { units: a.weight.dim(0).div_ceil(NR), work: rows.max(2) / 2 * a.weight.layout().elements() }
}

fn workspace(a: &LinearGguf<'_>, threads: usize) -> usize {
    input_bytes(&a.x) + threads * panel_bytes(a)
}

fn panel_bytes(a: &LinearGguf<'_>) -> usize {
    (4 * group(a) * a.weight.dim(1)).next_multiple_of(64)
}

/// With few rows of x, only as many weight rows as stay in L1.
fn group(a: &LinearGguf<'_>) -> usize {
    if a.x.rows().map_or(0, |r| r.rows) > X_BLOCK / 4 { GROUP } else { NR }
}

/// # Safety
/// Checked arguments on the host, `S`'s features.
#[inline(always)]
unsafe fn prepare<S: Isa>(ctx: &Ctx, a: &LinearGguf<'_>) {
    // SAFETY: the workspace begins with this size.
    unsafe { widen::<S>(&a.x, ctx.workspace().0) }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &LinearGguf<'_>, units: Range<usize>, thread: usize) {
    // SAFETY: passed on; the workspace has a panel for each thread after x.
    with_float!(a.x.dtype(), O => unsafe {
        let scratch = ctx.workspace().0.add(input_bytes(&a.x) + thread * panel_bytes(a)).cast::<f32>();
        typed::<S, O>(ctx, a, units, scratch);
    })
}

/// # Safety
/// As for [`part`].
#[inline(always)]
unsafe fn typed<S: Isa, O: Elem>(ctx: &Ctx, a: &LinearGguf<'_>, units: Range<usize>, scratch: *mut f32) {
    let (Some(x), Some(o), Some(rows)) = (input(&a.x, ctx.workspace().0), a.out.rows(), a.weight.rows()) else { return };
    let out = Output::<O> { ptr: a.out.as_mut_ptr(), stride: o.stride, bias: a.bias.as_ref().map(|b| b.as_ptr()) };
    let (bytes, last) = (row_bytes(a.weight.dtype(), rows.stride), rows.rows.min(units.end * NR));
    let mut first = units.start * NR;
    while first < last {
        let decoded = group(a).min(last - first);
        for j in 0..decoded {
            // SAFETY: the row is inside the weight, and has its place in the scratch.
            unsafe {
                let source = a.weight.as_ptr::<u8>().add((first + j) * bytes);
                expand::<S, f32>(a.weight.dtype(), source, rows.cols, scratch.add(j * rows.cols));
            }
        }
        let mut start = 0;
        while start < x.rows {
            let end = x.rows.min(start + X_BLOCK);
            let mut j = 0;
            while j < decoded {
                let count = NR.min(decoded - j);
                let mut w = [scratch.cast_const(); NR];
                for i in 0..NR {
                    // SAFETY: the row is inside the scratch.
                    w[i] = unsafe { scratch.add((j + i.min(count - 1)) * rows.cols) };
                }
                // SAFETY: all rows are inside their tensors.
                unsafe { panel::<S, f32, O>(x, (start, end), w, (first + j, count), out) };
                j += count;
            }
            start = end;
        }
        first += decoded;
    }
}
