//! `sampling.softmax`. Three passes over a row: the maximum, exponentials and their sum, the division.

use crate::isa::{Elem, Isa, load_tail, store_tail};
use crate::pool::Plan;
use crate::variants::{variants, with_float};
use kernels_core::Ctx;
use kernels_ops::sampling::Softmax;
use std::ops::Range;

variants!(unsafe { op: Softmax, formats: Formats::same(DTypeSet::FLOAT), plan: plan, part: part });

fn plan(a: &Softmax<'_>) -> Plan {
    Plan { units: a.logits.rows().map_or(0, |r| r.rows), work: 4 * a.logits.layout().elements() }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(_: &Ctx, a: &Softmax<'_>, units: Range<usize>, _: usize) {
    let (Some(x), Some(p)) = (a.logits.rows(), a.probs.rows()) else { return };
    with_float!(a.logits.dtype(), T => {
        for r in units {
            // SAFETY: row r is inside both tensors.
            unsafe {
                let (row, out) = (a.logits.as_ptr::<T>().add(r * x.stride), a.probs.as_mut_ptr::<f32>().add(r * p.stride));
                let (max, _) = largest_and_sum::<S, T>(row, x.cols);
                if max == f32::NEG_INFINITY && all_masked::<T>(row, x.cols) {
                    out.write_bytes(0, x.cols);
                    continue;
                }
                let sum = weights::<S, T>(row, out, x.cols, max, 1.0 / a.temperature);
                scale::<S>(out, x.cols, (1.0 / sum) as f32);
            }
        }
    })
}

/// The largest element (NaN passed over as likely as not), and the plain sum, NaN where any element is.
///
/// # Safety
/// `S`'s features; `row` valid for `n` elements.
#[inline(always)]
pub unsafe fn largest_and_sum<S: Isa, T: Elem>(row: *const T, n: usize) -> (f32, f32) {
    // SAFETY: by contract.
    unsafe {
        let (max, sum) = lanes_largest::<S, T>(row, n, [S::splat(0.0); 4]);
        (S::largest(max), S::sum_of_four(sum))
    }
}

/// The lanes of [`largest_and_sum`]: the largest elements, and `sum` with all of them added.
///
/// # Safety
/// `S`'s features; `row` valid for `n` elements.
#[inline(always)]
pub unsafe fn lanes_largest<S: Isa, T: Elem>(
    row: *const T,
    n: usize,
    mut sum: [S::V; 4],
) -> (S::V, [S::V; 4]) {
    // SAFETY: every offset is below n.
    unsafe {
        let mut max = [S::splat(f32::NEG_INFINITY); 4];
        let mut i = 0;
        while i + 4 * S::W <= n {
            for k in 0..4 {
                let v = T::load::<S>(row.add(i + k * S::W));
                max[k] = S::max(v, max[k]);
                sum[k] = S::add(sum[k], v);
            }
            i += 4 * S::W;
        }
        while i < n {
            let left = S::W.min(n - i);
            let v = load_tail::<S, T>(row.add(i), left, f32::NEG_INFINITY);
            max[0] = S::max(v, max[0]);
            // The filling is not an element, so it must not count.
            sum[0] = S::add(sum[0], load_tail::<S, T>(row.add(i), left, 0.0));
            i += left;
        }
        (S::max(S::max(max[0], max[1]), S::max(max[2], max[3])), sum)
    }
}

/// A maximum of −∞ can also come of a row of NaN.
///
/// # Safety
/// `row` valid for `n` elements.
unsafe fn all_masked<T: Elem>(row: *const T, n: usize) -> bool {
    // SAFETY: i is below n.
    (0..n).all(|i| unsafe { *row.add(i) }.to_f32() == f32::NEG_INFINITY)
}

/// e^((x − max) · scale) into `out`; their sum, in f64 over blocks.
///
/// # Safety
/// `S`'s features; pointers valid for `n` elements.
#[inline(always)]
pub unsafe fn weights<S: Isa, T: Elem>(row: *const T, out: *mut f32, n: usize, max: f32, scale: f32) -> f64 {
    // SAFETY: every offset is below n.
    unsafe {
        let (m, s) = (S::splat(max), S::splat(scale));
        let mut total = 0f64;
        let mut i = 0;
        while i + S::W <= n {
            // A long f32 sum would lose the small ones: add up in f64 after each few thousand.
            let mut sum = S::splat(0.0);
            let end = n.min(i + 4096);
            while i + S::W <= end {
                let e = S::exp(S::mul(S::sub(T::load::<S>(row.add(i)), m), s));
                S::store_f32(out.add(i), e);
                sum = S::add(sum, e);
                i += S::W;
            }
            total += f64::from(S::sum(sum));
        }
        if i < n {
            let x = load_tail::<S, T>(row.add(i), n - i, f32::NEG_INFINITY);
            let e = S::exp(S::mul(S::sub(x, m), s));
            store_tail::<S, f32>(out.add(i), e, n - i);
            total += f64::from(S::sum(e));
        }
        total
    }
}

/// # Safety
/// `S`'s features; `out` valid for `n` elements.
#[inline(always)]
unsafe fn scale<S: Isa>(out: *mut f32, n: usize, factor: f32) {
    // SAFETY: every offset is below n.
    unsafe {
        let f = S::splat(factor);
        let mut i = 0;
        while i + S::W <= n {
            S::store_f32(out.add(i), S::mul(S::load_f32(out.add(i)), f));
            i += S::W;
        }
        while i < n {
            *out.add(i) *= factor;
            i += 1;
        }
    }
}
