//! `attention.merge_state`. One pass over both results.

use crate::isa::{Elem, Isa, load_tail, store_tail};
use crate::pool::Plan;
use crate::variants::{variants, with_float};
use kernels_core::{Ctx, View};
use kernels_ops::attention::MergeState;
use std::ops::Range;

variants!(unsafe { op: MergeState, formats: Formats::same(DTypeSet::FLOAT), plan: plan, part: part });

/// A unit is a token.
fn plan(a: &MergeState<'_>) -> Plan {
    Plan { units: a.out.dim(0), work: 2 * a.out.layout().elements() }
}

/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
unsafe fn part<S: Isa>(_: &Ctx, a: &MergeState<'_>, units: Range<usize>, _: usize) {
    with_float!(a.out.dtype(), T => {
        for t in units {
            for h in 0..a.out.dim(1) {
                // SAFETY: token and head are inside all tensors.
                unsafe {
                    let entry = |v: &View<'_>| *v.as_ptr::<f32>().add(t * v.stride(0) + h * v.stride(1));
                    let (lse, factors) = weigh(entry(&a.lse_a), entry(&a.lse_b));
                    let head = |v: &View<'_>| v.as_ptr::<T>().add(t * v.stride(0) + h * v.stride(1));
                    let out = a.out.as_mut_ptr::<T>().add(t * a.out.stride(0) + h * a.out.stride(1));
                    merge::<S, T>([head(&a.out_a), head(&a.out_b)], factors, out, a.out.dim(2));
                    a.lse.as_mut_ptr::<f32>().add(t * a.lse.stride(0) + h * a.lse.stride(1)).write(lse);
                }
            }
        }
    })
}

/// The common LSE, and the share of each part.
fn weigh(a: f32, b: f32) -> (f32, [f32; 2]) {
    let max = if a > b || a.is_nan() { a } else { b };
    let weight = |s: f32| if s == f32::NEG_INFINITY { 0.0 } else { (s - max).exp() };
    let (w_a, w_b) = (weight(a), weight(b));
    let total = w_a + w_b;
    match total == 0.0 {
        true => (f32::NEG_INFINITY, [0.0, 0.0]),
        false => (max + total.ln(), [w_a / total, w_b / total]),
    }
}

/// A part without weight is not read: it may hold anything.
///
/// # Safety
/// `S`'s features; pointers valid for `n` elements.
#[inline(always)]
unsafe fn merge<S: Isa, T: Elem>([a, b]: [*const T; 2], [fa, fb]: [f32; 2], out: *mut T, n: usize) {
    // SAFETY: every offset is below n.
    unsafe {
        let (a, b) = (if fa == 0.0 { b } else { a }, if fb == 0.0 { a } else { b });
        if fa == 0.0 && fb == 0.0 {
            return out.write_bytes(0, n);
        }
        let (va, vb, mut i) = (S::splat(fa), S::splat(fb), 0);
        while i < n {
            let left = n - i;
            match left >= S::W {
                true => {
                    let y = S::fma(T::load::<S>(a.add(i)), va, S::mul(T::load::<S>(b.add(i)), vb));
                    T::store::<S>(out.add(i), y);
                }
                false => {
                    let (x, y) =
                        (load_tail::<S, T>(a.add(i), left, 0.0), load_tail::<S, T>(b.add(i), left, 0.0));
                    store_tail::<S, T>(out.add(i), S::fma(x, va, S::mul(y, vb)), left);
                }
            }
            i += S::W;
        }
    }
}
