//! A group of activations as 8-bit values: the largest magnitude, and then the values, from L1.

use crate::isa::{Elem, Isa, load_tail, store_tail};
use crate::variants::with_float;
use kernels_core::{DType, F8E4M3, View, ViewMut};
use kernels_ops::quantization::largest;
use std::ops::Range;

/// Groups `units` of all groups, row after row. A group of a whole row has one scale for each row.
///
/// # Safety
/// Checked arguments on the host, `S`'s features, and units that nobody else works on.
#[inline(always)]
pub unsafe fn groups<S: Isa>(
    x: &View<'_>,
    q: &ViewMut<'_>,
    scales: &ViewMut<'_>,
    group: usize,
    floor: f32,
    units: Range<usize>,
) {
    let (Some(from), Some(to)) = (x.rows(), q.rows()) else { return };
    let in_row = from.cols / group.max(1);
    let (stride, step) = (scales.stride(0), if scales.shape().len() == 2 { 1 } else { 0 });
    with_float!(x.dtype(), T => {
        for u in units {
            let (r, g) = (u / in_row, u % in_row);
            // SAFETY: the group is inside row r of both tensors, and has a scale.
            unsafe {
                let x = x.as_ptr::<T>().add(r * from.stride + g * group);
                let scale = scales.as_mut_ptr::<f32>().add(r * stride + g * step);
                one::<S, T>(x, group, (q, r * to.stride + g * group), scale, floor);
            }
        }
    })
}

/// One group of `n`, to element `at` of `q` and the elements after it.
///
/// # Safety
/// `S`'s features; `x` valid for `n` elements, which have their place in `q`.
#[inline(always)]
pub unsafe fn one<S: Isa, T: Elem>(
    x: *const T,
    n: usize,
    (q, at): (&ViewMut<'_>, usize),
    scale: *mut f32,
    floor: f32,
) {
    // SAFETY: by contract.
    unsafe {
        let m = magnitude::<S, T>(x, n, floor);
        let largest = largest(q.dtype());
        let factor = largest / m;
        match q.dtype() {
            DType::I8 => {
                let q = q.as_mut_ptr::<i8>().add(at);
                // Then nothing is NaN, and nothing is larger than the largest.
                match m.is_finite() && factor.is_finite() {
                    true => small::<S, T>(x, q, n, factor),
                    false => scaled::<S, T, i8>(x, q, n, factor),
                }
            }
            _ => scaled::<S, T, F8E4M3>(x, q.as_mut_ptr::<F8E4M3>().add(at), n, factor),
        }
        scale.write(m / largest);
    }
}

/// The largest of `floor` and all magnitudes; NaN where any element is.
///
/// # Safety
/// `S`'s features; `x` valid for `n` elements.
#[inline(always)]
unsafe fn magnitude<S: Isa, T: Elem>(x: *const T, n: usize, floor: f32) -> f32 {
    // SAFETY: every offset is below n.
    unsafe {
        let zero = S::splat(0.0);
        // Four of each, so that none waits for the one before. Zero times x is 0, or NaN where x is no finite number.
        let (mut max, mut odd) = ([S::splat(floor); 4], [zero; 4]);
        let whole = n - n % S::W;
        macro_rules! meet {
            ($k:expr, $v:expr) => {
                let v = $v;
                max[$k] = S::max(S::max(v, S::sub(zero, v)), max[$k]);
                odd[$k] = S::fma(v, zero, odd[$k]);
            };
        }
        let mut i = 0;
        while i + 4 * S::W <= whole {
            for k in 0..4 {
                meet!(k, T::load::<S>(x.add(i + k * S::W)));
            }
            i += 4 * S::W;
        }
        while i < whole {
            meet!(0, T::load::<S>(x.add(i)));
            i += S::W;
        }
        if i < n {
            meet!(1, load_tail::<S, T>(x.add(i), n - i, 0.0));
        }
        let max = S::max(S::max(max[0], max[1]), S::max(max[2], max[3]));
        if S::sum_of_four(odd).is_nan() {
            for i in 0..n {
                if (*x.add(i)).to_f32().is_nan() {
                    return f32::NAN;
                }
            }
        }
        S::largest(max)
    }
}

/// [`scaled`], of numbers whose products round to i8.
///
/// # Safety
/// `S`'s features; pointers valid for `n` elements.
#[inline(always)]
unsafe fn small<S: Isa, T: Elem>(x: *const T, q: *mut i8, n: usize, factor: f32) {
    // SAFETY: every offset is below n.
    unsafe {
        let (f, whole) = (S::splat(factor), n - n % S::W);
        for i in (0..whole).step_by(S::W) {
            S::store_small_i8(q.add(i), S::mul(T::load::<S>(x.add(i)), f));
        }
        scaled::<S, T, i8>(x.add(whole), q.add(whole), n - whole, factor);
    }
}

/// # Safety
/// `S`'s features; pointers valid for `n` elements.
#[inline(always)]
unsafe fn scaled<S: Isa, T: Elem, Q: Elem>(x: *const T, q: *mut Q, n: usize, factor: f32) {
    // SAFETY: every offset is below n.
    unsafe {
        let (f, mut i) = (S::splat(factor), 0);
        while i + S::W <= n {
            Q::store::<S>(q.add(i), S::mul(T::load::<S>(x.add(i)), f));
            i += S::W;
        }
        if i < n {
            store_tail::<S, Q>(q.add(i), S::mul(load_tail::<S, T>(x.add(i), n - i, 0.0), f), n - i);
        }
    }
}
