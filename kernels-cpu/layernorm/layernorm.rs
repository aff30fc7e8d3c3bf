//! `layernorm.layernorm`. Three passes over a row that is in L1 after the first: mean, variance, result.

use crate::isa::{Elem, Isa, load_tail, store_tail};
use crate::pool::Plan;
use crate::variants::{variants, with_float};
use kernels_core::Ctx;
use kernels_ops::layernorm::LayerNorm;
use std::ops::Range;

variants!(unsafe { op: LayerNorm, formats: Formats::same(DTypeSet::FLOAT), plan: plan, part: part });

fn plan(a: &LayerNorm<'_>) -> Plan {
    super::rmsnorm::by_rows(&a.x)
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(_: &Ctx, a: &LayerNorm<'_>, units: Range<usize>, _: usize) {
    let (Some(x), Some(o)) = (a.x.rows(), a.out.rows()) else { return };
    with_float!(a.x.dtype(), T => {
        let bias = a.bias.as_ref().map(|b| b.as_ptr::<T>());
        for r in units {
            // SAFETY: row r is inside both tensors.
            unsafe {
                let (xr, or) = (a.x.as_ptr::<T>().add(r * x.stride), a.out.as_mut_ptr::<T>().add(r * o.stride));
                let mean = sum::<S, T, false>(xr, x.cols, 0.0) / x.cols as f32;
                let variance = sum::<S, T, true>(xr, x.cols, mean) / x.cols as f32;
                let scale = 1.0 / (variance + a.eps).sqrt();
                apply::<S, T>(xr, a.weight.as_ptr(), bias, or, x.cols, (mean, scale));
            }
        }
    })
}

/// The sum of elements less `mean`, or of the squares of those.
///
/// # Safety
/// `S`'s features; `x` valid for `cols` elements.
#[inline(always)]
unsafe fn sum<S: Isa, T: Elem, const SQUARED: bool>(x: *const T, cols: usize, mean: f32) -> f32 {
    // SAFETY: every offset is below cols.
    unsafe {
        // Four sums hide the latency of the addition.
        let (m, mut sums, mut i) = (S::splat(mean), [S::splat(0.0); 4], 0);
        macro_rules! add {
            ($k:expr, $v:expr) => {
                let d = S::sub($v, m);
                sums[$k] = if SQUARED { S::fma(d, d, sums[$k]) } else { S::add(sums[$k], d) };
            };
        }
        while i + 4 * S::W <= cols {
            for k in 0..4 {
                add!(k, T::load::<S>(x.add(i + k * S::W)));
            }
            i += 4 * S::W;
        }
        while i + S::W <= cols {
            add!(0, T::load::<S>(x.add(i)));
            i += S::W;
        }
        if i < cols {
            // Lanes past the end hold the mean, whose difference is 0.
            add!(1, load_tail::<S, T>(x.add(i), cols - i, mean));
        }
        S::sum_of_four(sums)
    }
}

/// # Safety
/// `S`'s features; pointers valid for `cols` elements.
#[inline(always)]
unsafe fn apply<S: Isa, T: Elem>(
    x: *const T,
    w: *const T,
    bias: Option<*const T>,
    out: *mut T,
    cols: usize,
    (mean, scale): (f32, f32),
) {
    // SAFETY: every offset is below cols.
    unsafe {
        let (m, s, mut i) = (S::splat(mean), S::splat(scale), 0);
        while i + S::W <= cols {
            let y = S::mul(S::mul(S::sub(T::load::<S>(x.add(i)), m), s), T::load::<S>(w.add(i)));
            let y = match bias {
                Some(b) => S::add(y, T::load::<S>(b.add(i))),
                None => y,
            };
            T::store::<S>(out.add(i), y);
            i += S::W;
        }
        if i < cols {
            let n = cols - i;
            let (xt, wt) = (load_tail::<S, T>(x.add(i), n, 0.0), load_tail::<S, T>(w.add(i), n, 0.0));
            let y = S::mul(S::mul(S::sub(xt, m), s), wt);
            let y = match bias {
                Some(b) => S::add(y, load_tail::<S, T>(b.add(i), n, 0.0)),
                None => y,
            };
            store_tail::<S, T>(out.add(i), y, n);
        }
    }
}
