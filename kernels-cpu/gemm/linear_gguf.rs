//! `gemm.linear_gguf` over floats. Weight rows become f32 in scratch, which then multiply all rows of x: the blocks
//! are read and decoded once for each call. With one row of x the decoded vectors never leave the registers.

use super::input::Input;
use super::output::Output;
use super::product::{self, Weight, is_cut, product};
use super::times::Numbers;
use crate::isa::{Elem, Isa};
use crate::pool::Plan;
use crate::quantization::blocks::{Sink, dequantize};
use crate::quantization::rows::{block, expand, row_bytes, with_blocks};
use crate::variants::{variants, with_float};
use kernels_core::{Ctx, DType, Rows};
use kernels_ops::gemm::LinearGguf;
use std::ops::Range;

variants!(unsafe {
    op: LinearGguf,
    formats: Formats::mixed(DTypeSet::FLOAT, DTypeSet::FLOAT.union(DTypeSet::GGUF)),
    plan: plan,
    part: part,
    prepare: (first, prepare),
    workspace: workspace,
});

fn cut(a: &LinearGguf<'_>) -> bool {
    is_cut(&a.x, false)
}

fn plan(a: &LinearGguf<'_>) -> Plan {
    product::plan(&a.x, cut(a), a.weight.dim(0), a.weight.layout().elements())
}

fn first(a: &LinearGguf<'_>) -> Plan {
    Input::plan(&a.x, cut(a))
}

fn workspace(a: &LinearGguf<'_>, threads: usize) -> usize {
    product::bytes(&a.x, cut(a), threads) + threads * decoded_bytes(a)
}

fn decoded_bytes(a: &LinearGguf<'_>) -> usize {
    (4 * group(a) * a.weight.dim(1)).next_multiple_of(64)
}

/// Weight rows decoded together: a unit of work.
fn group(a: &LinearGguf<'_>) -> usize {
    product::unit(cut(a))
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and rows that nobody else works on.
#[inline(always)]
unsafe fn prepare<S: Isa>(ctx: &Ctx, a: &LinearGguf<'_>, rows: Range<usize>, _: usize) {
    // SAFETY: the workspace begins with this size.
    unsafe { Input::prepare::<S>(&a.x, cut(a), rows, ctx.workspace().0) }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &LinearGguf<'_>, units: Range<usize>, thread: usize) {
    // SAFETY: passed on; the workspace has a group of decoded rows for each thread after the product's.
    with_float!(a.x.dtype(), O => unsafe {
        let after = product::bytes(&a.x, cut(a), ctx.threads) + thread * decoded_bytes(a);
        let decoded = ctx.workspace().0.add(after).cast::<f32>();
        typed::<S, O>(ctx, a, units, decoded, product::space(ctx, &a.x, cut(a), thread));
    })
}

/// # Safety
/// As for [`part`].
#[inline(always)]
unsafe fn typed<S: Isa, O: Elem>(
    ctx: &Ctx,
    a: &LinearGguf<'_>,
    units: Range<usize>,
    decoded: *mut f32,
    space: *mut f32,
) {
    let (x, out) = (Input::of(&a.x, cut(a), ctx.workspace().0), Output::<O>::of(&a.out, a.bias.as_ref()));
    let (Some(x), Some(out), Some(rows)) = (x, out, a.weight.rows()) else { return };
    let (bytes, last) = (row_bytes(a.weight.dtype(), rows.stride), rows.rows.min(units.end * group(a)));
    let mut first = units.start * group(a);
    if x.rows == 1 && a.weight.dtype().is_quantised() {
        for n in first..last {
            // SAFETY: the row is inside the weight and the output.
            unsafe {
                let sum = dot::<S>(a.weight.dtype(), a.weight.as_ptr::<u8>().add(n * bytes), x);
                out.put(0, n, sum);
            }
        }
        return;
    }
    while first < last {
        let count = group(a).min(last - first);
        for j in 0..count {
            // SAFETY: the row is inside the weight, and has its place in the scratch.
            unsafe {
                let source = a.weight.as_ptr::<u8>().add((first + j) * bytes);
                expand::<S, f32>(a.weight.dtype(), source, rows.cols, decoded.add(j * rows.cols));
            }
        }
        let group = Rows { rows: count, cols: rows.cols, stride: rows.cols };
        let weight = Weight { ptr: decoded.cast_const(), rows: group, packed: false };
        // SAFETY: one unit of decoded rows, which are columns of the output from `first` on.
        unsafe { product::<S, f32, O, Numbers>(x, weight, 0..1, out.without_columns(first), space) };
        first += count;
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
