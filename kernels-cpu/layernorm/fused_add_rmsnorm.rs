//! `layernorm.fused_add_rmsnorm`. The unrounded sums of a row wait in f32 scratch (16 KiB at 4096 columns,
//! in L1) between the pass that adds and the pass that normalises.

use crate::isa::{Elem, Isa, load_tail, store_tail};
use crate::pool::Plan;
use crate::variants::{variants, with_float};
use kernels_core::Ctx;
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
    let rows = a.x.rows().map_or(0, |r| r.rows);
    Plan { units: rows, work: 2 * a.x.layout().elements() }
}

/// One row of f32 for each thread, a whole number of cache lines apart.
fn workspace(a: &FusedAddRmsNorm<'_>, threads: usize) -> usize {
    row_bytes(a) * threads
}

fn row_bytes(a: &FusedAddRmsNorm<'_>) -> usize {
    a.x.rows().map_or(0, |r| r.cols * 4).next_multiple_of(64)
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(ctx: &Ctx, a: &FusedAddRmsNorm<'_>, units: Range<usize>, thread: usize) {
    let (Some(x), Some(res)) = (a.x.rows(), a.residual.rows()) else { return };
    // SAFETY: the workspace has a row for each thread.
    let sums = unsafe { ctx.workspace().0.add(thread * row_bytes(a)).cast::<f32>() };
    with_float!(a.x.dtype(), T => {
        for r in units {
            // SAFETY: row r is inside both tensors.
            unsafe {
                let xr = a.x.as_mut_ptr::<T>().add(r * x.stride);
                let rr = a.residual.as_mut_ptr::<T>().add(r * res.stride);
                row::<S, T>(xr, rr, a.weight.as_ptr(), sums, x.cols, a.eps);
            }
        }
    })
}

/// # Safety
/// `S`'s features; pointers valid for `cols` elements.
#[inline(always)]
unsafe fn row<S: Isa, T: Elem>(
    x: *mut T,
    residual: *mut T,
    w: *const T,
    sums: *mut f32,
    cols: usize,
    eps: f32,
) {
    // SAFETY: every offset is below cols.
    unsafe {
        let full = cols - cols % S::W;
        let tail = cols - full;
        let mut squares = [S::splat(0.0); 2];
        let (mut i, mut k) = (0, 0);
        while i < full {
            let s = S::add(T::load::<S>(x.add(i)), T::load::<S>(residual.add(i)));
            T::store::<S>(residual.add(i), s);
            S::store_f32(sums.add(i), s);
            squares[k] = S::fma(s, s, squares[k]);
            i += S::W;
            k ^= 1;
        }
        if tail > 0 {
            let (xt, rt) =
                (load_tail::<S, T>(x.add(full), tail, 0.0), load_tail::<S, T>(residual.add(full), tail, 0.0));
            let s = S::add(xt, rt);
            store_tail::<S, T>(residual.add(full), s, tail);
            store_tail::<S, f32>(sums.add(full), s, tail);
            squares[0] = S::fma(s, s, squares[0]);
        }
        let mean = S::sum(S::add(squares[0], squares[1])) / cols as f32;
        let scale = S::splat(1.0 / (mean + eps).sqrt());
        i = 0;
        while i < full {
            T::store::<S>(x.add(i), S::mul(S::mul(S::load_f32(sums.add(i)), scale), T::load::<S>(w.add(i))));
            i += S::W;
        }
        if tail > 0 {
            let (st, wt) =
                (load_tail::<S, f32>(sums.add(full), tail, 0.0), load_tail::<S, T>(w.add(full), tail, 0.0));
            store_tail::<S, T>(x.add(full), S::mul(S::mul(st, scale), wt), tail);
        }
    }
}
