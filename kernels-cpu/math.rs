//! Vector functions.

use crate::isa::{Elem, Isa};
use kernels_core::{DType, Element};

/// eˣ, where an instruction set has nothing shorter ([`Isa::exp`]).
///
/// x = n ln 2 + r with |r| ≤ ln 2 / 2, and a degree-6 polynomial for eʳ (coefficients 1/k!, whose truncation
/// error there is 1.3e-8 relative), in parts that do not wait for each other.
///
/// # Safety
/// As for [`Isa`].
#[inline(always)]
pub unsafe fn exp_by_rounding<S: Isa>(x: S::V) -> S::V {
    // SAFETY: passed on.
    unsafe {
        // Operands in this order keep a NaN.
        let x = S::min(S::splat(89.0), S::max(S::splat(-88.0), x));
        let n = S::round(S::mul(x, S::splat(std::f32::consts::LOG2_E)));
        // ln 2 in two parts: the first has few enough bits that n times it is exact.
        let r = S::fma(n, S::splat(-0.693_359_4), x);
        let r = S::fma(n, S::splat(2.121_944_4e-4), r);
        let square = S::mul(r, r);
        let second = S::fma(r, S::splat(1.0 / 6.0), S::splat(0.5));
        let third = S::fma(r, S::splat(1.0 / 120.0), S::splat(1.0 / 24.0));
        let third = S::fma(square, S::splat(1.0 / 720.0), third);
        // 1 comes last, so that its rounding is the only one that counts.
        let rest = S::fma(square, S::fma(square, third, second), r);
        S::scale_by_power(S::add(S::splat(1.0), rest), n)
    }
}

/// 1 / (1 + e⁻ˣ), where an instruction set has nothing shorter ([`Isa::sigmoid`]).
///
/// # Safety
/// As for [`Isa`].
#[inline(always)]
pub unsafe fn sigmoid_by_exp<S: Isa>(x: S::V) -> S::V {
    // SAFETY: passed on.
    unsafe { S::reciprocal(S::add(S::splat(1.0), S::exp(S::sub(S::splat(0.0), x)))) }
}

/// 1 / (1 + e⁻ˣ) for a product that is stored as `T`.
///
/// # Safety
/// As for [`Isa`].
#[inline(always)]
pub unsafe fn sigmoid_for<S: Isa, T: Elem>(x: S::V) -> S::V {
    // SAFETY: passed on.
    unsafe {
        match <T as Element>::DTYPE {
            DType::F32 => S::sigmoid(x),
            _ => S::coarse_sigmoid(x),
        }
    }
}

/// x / (1 + e⁻ˣ), to be stored as `T`.
///
/// # Safety
/// As for [`Isa`].
#[inline(always)]
pub unsafe fn silu<S: Isa, T: Elem>(x: S::V) -> S::V {
    // SAFETY: passed on.
    unsafe { S::mul(x, sigmoid_for::<S, T>(x)) }
}

/// tanh(x): within 3e-7 of itself (measured over all of f32's range by the test below), odd, ±1 at infinity.
///
/// Below 0.625 an odd polynomial (Cephes' tanhf), above 1 − 2 / (e²ˣ + 1): the quotient of differences would
/// overflow and cancel.
///
/// # Safety
/// As for [`Isa`].
#[inline(always)]
pub unsafe fn tanh<S: Isa>(x: S::V) -> S::V {
    // SAFETY: passed on.
    unsafe {
        let zero = S::splat(0.0);
        let size = S::select_lt(x, zero, S::sub(zero, x), x);
        let square = S::mul(x, x);
        let mut p = S::splat(-5.704_988_7e-3);
        for c in [2.063_908_8e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1] {
            p = S::fma(p, square, S::splat(c));
        }
        // This way the sign of a zero stays.
        let small = S::mul(x, S::fma(p, square, S::splat(1.0)));
        let power = S::exp(S::add(size, size));
        let far = S::sub(S::splat(1.0), S::mul(S::splat(2.0), S::reciprocal(S::add(power, S::splat(1.0)))));
        let far = S::select_lt(x, zero, S::sub(zero, far), far);
        S::select_lt(size, S::splat(0.625), small, far)
    }
}

/// cap · tanh(x / cap).
///
/// # Safety
/// As for [`Isa`].
#[inline(always)]
pub unsafe fn softcap<S: Isa>(x: S::V, cap: S::V) -> S::V {
    // SAFETY: passed on.
    unsafe { S::mul(cap, tanh::<S>(S::div(x, cap))) }
}

/// A function of one number by the instructions of AVX-512, which [`has_avx512`] must say are there.
#[cfg(all(test, target_arch = "x86_64"))]
macro_rules! by_instructions {
    ($name:ident, |$x:ident| $of:expr) => {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
        fn $name(x: f32) -> f32 {
            let mut out = [0f32; 16];
            // SAFETY: the features are there, and a vector has no more numbers.
            unsafe {
                let $x = ::std::arch::x86_64::_mm512_set1_ps(x);
                <$crate::isa::Avx512 as $crate::isa::Isa>::store_f32(out.as_mut_ptr(), $of);
            }
            out[0]
        }
    };
}
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) use by_instructions;

#[cfg(all(test, target_arch = "x86_64"))]
pub fn has_avx512() -> bool {
    // The rest came before these.
    is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "x86_64")]
    use crate::isa::Avx512;
    use crate::isa::Portable;

    /// Largest distance from `exact`, as a share of it, over numbers of every size.
    fn worst(f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64, largest: f32) -> f64 {
        let mut worst = 0f64;
        for bits in (0..0x7F80_0000u32).step_by(4099) {
            for x in [f32::from_bits(bits), -f32::from_bits(bits)] {
                let e = exact(f64::from(x));
                if x.abs() <= largest && e.abs() > 1e-36 {
                    worst = worst.max(((f64::from(f(x)) - e) / e).abs());
                }
            }
        }
        worst
    }

    #[cfg(target_arch = "x86_64")]
    by_instructions!(exp, |x| Avx512::exp(x));
    #[cfg(target_arch = "x86_64")]
    by_instructions!(sigmoid, |x| Avx512::sigmoid(x));

    fn first(v: [f32; 8]) -> f32 {
        v[0]
    }

    #[test]
    fn tanh_is_right_at_every_size() {
        // SAFETY: the portable set needs no features.
        let f = |x: f32| first(unsafe { tanh::<Portable>([x; 8]) });
        assert!(worst(f, f64::tanh, f32::MAX) < 3e-7);
        assert_eq!((f(f32::INFINITY), f(f32::NEG_INFINITY)), (1.0, -1.0));
        assert!(f(f32::NAN).is_nan() && f(-0.0).to_bits() == (-0.0f32).to_bits());
    }

    fn exp_is_right(f: impl Fn(f32) -> f32) {
        assert!(worst(&f, f64::exp, 87.6) < 2.4e-7);
        for x in [88.73, 100.0, 1e6, f32::MAX, f32::INFINITY] {
            assert_eq!((f(x), f(-x)), (f32::INFINITY, 0.0), "{x}");
        }
        assert!(f(f32::NAN).is_nan() && f(0.0) == 1.0);
    }

    #[test]
    fn exp_is_right_where_it_is_normal() {
        // SAFETY: as above.
        exp_is_right(|x| first(unsafe { Portable::exp([x; 8]) }));
        #[cfg(target_arch = "x86_64")]
        if has_avx512() {
            // SAFETY: the features are there.
            exp_is_right(|x| unsafe { exp(x) });
        }
    }

    fn sigmoid_is_right(f: impl Fn(f32) -> f32) {
        let exact = |x: f64| 1.0 / (1.0 + (-x).exp());
        assert!(worst(&f, exact, 16.0) < 5e-7);
        assert!(worst(&f, exact, 87.0) < 2e-6);
        for x in [100.0, 1e6, f32::MAX, f32::INFINITY] {
            assert_eq!((f(x), f(-x)), (1.0, 0.0), "{x}");
        }
        assert!(f(f32::NAN).is_nan());
    }

    #[test]
    fn sigmoid_is_right_under_every_set() {
        // SAFETY: as above.
        sigmoid_is_right(|x| first(unsafe { Portable::sigmoid([x; 8]) }));
        #[cfg(target_arch = "x86_64")]
        if has_avx512() {
            // SAFETY: the features are there.
            sigmoid_is_right(|x| unsafe { sigmoid(x) });
        }
    }
}
