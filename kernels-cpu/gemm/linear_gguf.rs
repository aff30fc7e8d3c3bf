//! `gemm.linear_gguf`. Four weight rows at a time become f32 in scratch (64 KiB at 4096 columns), which then
//! multiply all rows of x: the blocks are read and decoded once for each call. With one row of x the decoded
//! vectors never leave the registers.

use super::panel::{Input, Output, X_BLOCK, input, input_bytes, panel, widen};
use super::tile::NR;
use crate::isa::{Elem, Isa};
use crate::pool::Plan;
use crate::quantization::blocks::{Sink, dequantize};
use crate::quantization::rows::{block, expand, row_bytes, with_blocks};
use crate::variants::{variants, with_float};
use kernels_core::{Ctx, DType};
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
    let (Some(x), Some(o), Some(rows)) = (input(&a.x, ctx.workspace().0), a.out.rows(), a.weight.rows())
    else {
        return;
    };
    let bias = a.bias.as_ref().map(|b| b.as_ptr());
    let out = Output::<O> { ptr: a.out.as_mut_ptr(), stride: o.stride, bias, scales: None };
    let (bytes, last) = (row_bytes(a.weight.dtype(), rows.stride), rows.rows.min(units.end * NR));
    let mut first = units.start * NR;
    if x.rows == 1 && a.weight.dtype().is_quantised() {
        for n in first..last {
            // SAFETY: the row is inside the weight and the output.
            unsafe {
                let sum = dot::<S>(a.weight.dtype(), a.weight.as_ptr::<u8>().add(n * bytes), x);
                let bias = out.bias.map_or(0.0, |b| (*b.add(n)).to_f32());
                out.ptr.add(n).write(O::from_f32(sum + bias));
            }
        }
        return;
    }
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

/// One weight row times the one row of x.
///
/// # Safety
/// `S`'s features; the row valid for `x.cols` elements.
#[inline(always)]
unsafe fn dot<S: Isa>(dtype: DType, row: *const u8, x: Input) -> f32 {
    let mut total = 0.0;
    // SAFETY: a block's elements have their counterpart in x.
    with_blocks!(dtype, FORMAT => unsafe {
        let mut sums = Dot::<S> { x: x.ptr, sums: [S::splat(0.0); 4] };
        for i in 0..x.cols / FORMAT.block_len() {
            sums.x = x.ptr.add(i * FORMAT.block_len());
            dequantize::<S, Dot<S>>(FORMAT, block(FORMAT, row, i), &mut sums);
        }
        let [a, b, c, d] = sums.sums;
        total = S::sum(S::add(S::add(a, b), S::add(c, d)));
    });
    total
}

struct Dot<S: Isa> {
    x: *const f32,
    sums: [S::V; 4],
}

impl<S: Isa> Sink<S> for Dot<S> {
    #[inline(always)]
    unsafe fn put(&mut self, at: usize, v: S::V) {
        // SAFETY: passed on. The index is a constant after inlining, so the sums stay in registers.
        unsafe {
            let k = at / S::W % 4;
            self.sums[k] = S::fma(S::load_f32(self.x.add(at)), v, self.sums[k]);
        }
    }
}
