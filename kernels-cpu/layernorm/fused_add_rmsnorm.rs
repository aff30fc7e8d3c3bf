//! `layernorm.fused_add_rmsnorm`, and the rows of its Gemma form. The unrounded sums of a row wait in f32 scratch (16 KiB at 4096 columns,
//! in L1) between the pass that adds and the pass that normalises; those of f32 are the new residual itself.

use super::rmsnorm::offset;
use crate::isa::{Elem, Isa, load_tail, store_tail};
use crate::pool::Plan;
use crate::scratch::{self, row_bytes};
use crate::variants::{variants, with_float};
use kernels_core::{Ctx, DType, Element, View, ViewMut};
use kernels_ops::layernorm::FusedAddRmsNorm;
use std::ops::Range;

variants!(unsafe {
    op: FusedAddRmsNorm,
    formats: Formats::same(DTypeSet::FLOAT),
    plan: plan,
    part: part,
    workspace: workspace,
});

fn plan(a: &FusedAddRmsNorm<'_>) -> Plan {
    by_rows(&a.x)
}

fn workspace(a: &FusedAddRmsNorm<'_>, threads: usize) -> usize {
    row_bytes(a.x.rows().map_or(0, |r| r.cols)) * threads
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &FusedAddRmsNorm<'_>, units: Range<usize>, thread: usize) {
    // SAFETY: passed on.
    unsafe { rows::<S, false>(ctx, [&a.x, &a.residual], &a.weight, a.eps, units, thread) }
}

/// A unit is a row.
pub fn by_rows(x: &ViewMut<'_>) -> Plan {
    Plan { units: x.rows().map_or(0, |r| r.rows), work: 2 * x.layout().elements() }
}

/// Rows `units`, by weights or (`GEMMA`) by 1 + weights.
///
/// # Safety
/// As for [`part`], with a workspace of [`row_bytes`] for each thread.
#[inline(always)]
pub unsafe fn rows<S: Isa, const GEMMA: bool>(
    ctx: &Ctx,
    [x, residual]: [&ViewMut<'_>; 2],
    weight: &View<'_>,
    eps: f32,
    units: Range<usize>,
    thread: usize,
) {
    let (Some(rows), Some(res)) = (x.rows(), residual.rows()) else { return };
    // SAFETY: the workspace has a row for each thread.
    let sums = unsafe { scratch::row(ctx, rows.cols, thread) };
    with_float!(x.dtype(), T => {
        for r in units {
            // SAFETY: row r is inside both tensors.
            unsafe {
                let xr = x.as_mut_ptr::<T>().add(r * rows.stride);
                let rr = residual.as_mut_ptr::<T>().add(r * res.stride);
                row::<S, T, T, GEMMA>(xr, rr, weight.as_ptr(), sums, xr, rows.cols, eps);
            }
        }
    })
}

/// The normalised sums to `out`, which may be `x` or `sums`.
///
/// # Safety
/// `S`'s features; pointers valid for `cols` elements.
#[inline(always)]
pub unsafe fn row<S: Isa, T: Elem, O: Elem, const GEMMA: bool>(
    x: *const T,
    residual: *mut T,
    w: *const T,
    sums: *mut f32,
    out: *mut O,
    cols: usize,
    eps: f32,
) {
    // SAFETY: every offset is below cols.
    unsafe {
        // A row of its own as well would push the weights out of L1.
        let kept = <T as Element>::DTYPE == DType::F32;
        let sums = if kept { residual.cast::<f32>() } else { sums };
        let full = cols - cols % S::W;
        let tail = cols - full;
        // Four sums hide the latency of the addition.
        let mut squares = [S::splat(0.0); 4];
        macro_rules! add {
            ($k:expr, $i:expr) => {
                let s = S::add(T::load::<S>(x.add($i)), T::load::<S>(residual.add($i)));
                T::store::<S>(residual.add($i), s);
                if !kept {
                    S::store_f32(sums.add($i), s);
                }
                squares[$k] = S::fma(s, s, squares[$k]);
            };
        }
        let mut i = 0;
        while i + 4 * S::W <= full {
            for k in 0..4 {
                add!(k, i + k * S::W);
            }
            i += 4 * S::W;
        }
        while i < full {
            add!(0, i);
            i += S::W;
        }
        if tail > 0 {
            let (xt, rt) =
                (load_tail::<S, T>(x.add(full), tail, 0.0), load_tail::<S, T>(residual.add(full), tail, 0.0));
            let s = S::add(xt, rt);
            store_tail::<S, T>(residual.add(full), s, tail);
            store_tail::<S, f32>(sums.add(full), s, tail);
            squares[0] = S::fma(s, s, squares[0]);
        }
        let mean = S::sum_of_four(squares) / cols as f32;
        let scale = S::splat(1.0 / (mean + eps).sqrt());
        i = 0;
        while i < full {
            let weight = offset::<S, GEMMA>(T::load::<S>(w.add(i)));
            O::store::<S>(out.add(i), S::mul(S::mul(S::load_f32(sums.add(i)), scale), weight));
            i += S::W;
        }
        if tail > 0 {
            let (st, wt) =
                (load_tail::<S, f32>(sums.add(full), tail, 0.0), load_tail::<S, T>(w.add(full), tail, 0.0));
            store_tail::<S, O>(out.add(full), S::mul(S::mul(st, scale), offset::<S, GEMMA>(wt)), tail);
        }
    }
}
