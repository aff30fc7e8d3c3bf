//! Vector functions.

use crate::isa::{Elem, Isa};
use kernels_core::{DType, Element};

/// eˣ: below 2 ulp where the result is normal, 0 below -104, infinity above 88.73, NaN to NaN.
///
/// x = n ln 2 + r with |r| ≤ ln 2 / 2, and a degree-6 polynomial for eʳ (coefficients 1/k!, whose truncation
/// error there is 1.3e-8 relative).
///
/// # Safety
/// As for [`Isa`].
#[inline(always)]
pub unsafe fn exp<S: Isa>(x: S::V) -> S::V {
    // SAFETY: passed on.
    unsafe {
        // Operands in this order keep a NaN.
        let x = S::min(S::splat(128.0), S::max(S::splat(-150.0), x));
        let n = S::round(S::mul(x, S::splat(std::f32::consts::LOG2_E)));
        // ln 2 in two parts: the first has few enough bits that n times it is exact.
        let r = S::fma(n, S::splat(-0.693_359_4), x);
        let r = S::fma(n, S::splat(2.121_944_4e-4), r);
        let mut p = S::splat(1.0 / 720.0);
        for c in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
            p = S::fma(p, r, S::splat(c));
        }
        S::scale_by_power(p, n)
    }
}

/// 1 / (1 + e⁻ˣ).
///
/// # Safety
/// As for [`Isa`].
#[inline(always)]
pub unsafe fn sigmoid<S: Isa>(x: S::V) -> S::V {
    // SAFETY: passed on.
    unsafe { S::reciprocal(S::add(S::splat(1.0), exp::<S>(S::sub(S::splat(0.0), x)))) }
}

/// x / (1 + e⁻ˣ), to be stored as `T`.
///
/// # Safety
/// As for [`Isa`].
#[inline(always)]
pub unsafe fn silu<S: Isa, T: Elem>(x: S::V) -> S::V {
    // SAFETY: passed on.
    unsafe {
        match <T as Element>::DTYPE {
            DType::F32 => S::mul(x, sigmoid::<S>(x)),
            _ => S::mul(x, S::coarse_sigmoid(x)),
        }
    }
}
