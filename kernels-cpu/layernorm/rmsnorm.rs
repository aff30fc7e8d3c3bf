//! `layernorm.rmsnorm`, and the rows of its Gemma form. Two passes over a row that is in L1 after the first: 2 loads and 1 store a vector.

use crate::isa::{Elem, Isa, load_tail, store_tail};
use crate::pool::Plan;
use crate::variants::{variants, with_float};
use kernels_core::{Ctx, Rows, View, ViewMut};
use kernels_ops::layernorm::RmsNorm;
use std::ops::Range;

variants!(unsafe { op: RmsNorm, formats: Formats::same(DTypeSet::FLOAT), plan: plan, part: part });

fn plan(a: &RmsNorm<'_>) -> Plan {
    by_rows(&a.x)
}

/// A unit is a row.
pub fn by_rows(x: &View<'_>) -> Plan {
    Plan { units: x.rows().map_or(0, |r| r.rows), work: x.layout().elements() }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(_: &Ctx, a: &RmsNorm<'_>, units: Range<usize>, _: usize) {
    // SAFETY: passed on.
    unsafe { rows::<S, false>(&a.x, &a.weight, &a.out, a.eps, units) }
}

/// Rows `units`, by weights or (`GEMMA`) by 1 + weights.
///
/// # Safety
/// As for [`part`].
#[inline(always)]
pub unsafe fn rows<S: Isa, const GEMMA: bool>(
    x: &View<'_>,
    weight: &View<'_>,
    out: &ViewMut<'_>,
    eps: f32,
    units: Range<usize>,
) {
    let (Some(from), Some(to)) = (x.rows(), out.rows()) else { return };
    with_float!(x.dtype(), T => {
        for r in units {
            // SAFETY: row r is inside both tensors.
            unsafe {
                let (xr, or) = (x.as_ptr::<T>().add(r * from.stride), out.as_mut_ptr::<T>().add(r * to.stride));
                row::<S, T, T, GEMMA>(xr, weight.as_ptr(), or, from, eps);
            }
        }
    })
}

/// A vector of weights, plus 1 in Gemma's form.
///
/// # Safety
/// `S`'s features.
#[inline(always)]
pub unsafe fn offset<S: Isa, const GEMMA: bool>(w: S::V) -> S::V {
    // SAFETY: passed on.
    if GEMMA { unsafe { S::add(w, S::splat(1.0)) } } else { w }
}

/// # Safety
/// `S`'s features; pointers valid for `cols` elements.
#[inline(always)]
pub unsafe fn row<S: Isa, T: Elem, O: Elem, const GEMMA: bool>(
    x: *const T,
    w: *const T,
    out: *mut O,
    Rows { cols, .. }: Rows,
    eps: f32,
) {
    // SAFETY: every offset is below cols.
    unsafe {
        let full = cols - cols % S::W;
        let tail = cols - full;
        let squares = sum_of_squares::<S, T>(x, cols);
        let scale = S::splat(1.0 / (squares / cols as f32 + eps).sqrt());
        let mut i = 0;
        while i < full {
            let weight = offset::<S, GEMMA>(T::load::<S>(w.add(i)));
            O::store::<S>(out.add(i), S::mul(S::mul(T::load::<S>(x.add(i)), scale), weight));
            i += S::W;
        }
        if tail > 0 {
            let (xt, wt) =
                (load_tail::<S, T>(x.add(full), tail, 0.0), load_tail::<S, T>(w.add(full), tail, 0.0));
            store_tail::<S, O>(out.add(full), S::mul(S::mul(xt, scale), offset::<S, GEMMA>(wt)), tail);
        }
    }
}

/// # Safety
/// `S`'s features; `x` valid for `cols` elements.
#[inline(always)]
unsafe fn sum_of_squares<S: Isa, T: Elem>(x: *const T, cols: usize) -> f32 {
    // SAFETY: every offset is below cols.
    unsafe {
        // Four sums hide the latency of the addition.
        let mut sums = [S::splat(0.0); 4];
        let mut i = 0;
        while i + 4 * S::W <= cols {
            for k in 0..4 {
                let v = T::load::<S>(x.add(i + k * S::W));
                sums[k] = S::fma(v, v, sums[k]);
            }
            i += 4 * S::W;
        }
        while i + S::W <= cols {
            let v = T::load::<S>(x.add(i));
            sums[0] = S::fma(v, v, sums[0]);
            i += S::W;
        }
        if i < cols {
            let v = load_tail::<S, T>(x.add(i), cols - i, 0.0);
            sums[1] = S::fma(v, v, sums[1]);
        }
        S::sum_of_four(sums)
    }
}
