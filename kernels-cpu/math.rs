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

/// Φ(x), the normal distribution function: 0.5 · erfc(−x / √2), with erfc by a Chebyshev fit of relative error
/// 1.2e-7 (Numerical Recipes, `erfcc`); both tails keep their relative precision.
///
/// # Safety
/// As for [`Isa`].
#[inline(always)]
pub unsafe fn normal_cdf<S: Isa>(x: S::V) -> S::V {
    // SAFETY: passed on.
    unsafe {
        let (zero, one) = (S::splat(0.0), S::splat(1.0));
        let size = S::select_lt(x, zero, S::sub(zero, x), x);
        let z = S::mul(size, S::splat(std::f32::consts::FRAC_1_SQRT_2));
        let t = S::reciprocal(S::fma(z, S::splat(0.5), one));
        let p = ninth_degree::<S>(t, ERFC);
        // Half of e^(p − z²): beyond 14 it is below the smallest normal number.
        let upper = S::mul(S::mul(S::splat(0.5), t), S::exp(S::sub(p, S::mul(z, z))));
        S::select_lt(x, zero, upper, S::sub(one, upper))
    }
}

/// Φ(x) for a product that is stored as `T`.
///
/// # Safety
/// As for [`Isa`].
#[inline(always)]
pub unsafe fn normal_cdf_for<S: Isa, T: Elem>(x: S::V) -> S::V {
    // SAFETY: passed on.
    unsafe {
        match <T as Element>::DTYPE {
            DType::F32 => normal_cdf::<S>(x),
            _ => coarse_normal_cdf::<S>(x),
        }
    }
}

/// Φ(x) within 2⁻¹¹ of itself for |x| up to 9, within 2⁻⁹ up to 12, and farther out below 1e-32 or 1: for results that
/// are rounded to 16 bits.
///
/// Its log odds, ln Φ(x) − ln Φ(−x), are x times an even function, here by degree 9 in |x| (our fit).
///
/// # Safety
/// As for [`Isa`].
#[inline(always)]
pub unsafe fn coarse_normal_cdf<S: Isa>(x: S::V) -> S::V {
    // SAFETY: passed on.
    unsafe {
        // From 12 on the factor is that of 12. Operands in this order keep a NaN.
        let size = S::min(S::splat(12.0), S::max(x, S::sub(S::splat(0.0), x)));
        let s = S::fma(size, S::splat(1.0 / 6.0), S::splat(-1.0));
        let p = ninth_degree::<S>(s, LOG_ODDS);
        S::coarse_sigmoid(S::mul(x, p))
    }
}

/// A polynomial of degree 9 by pairs of coefficients (of x and 1, of x³ and x², ...), in parts that do not wait for each
/// other: of a chain of ten, a processor has too few at once in flight.
///
/// # Safety
/// As for [`Isa`].
#[inline(always)]
unsafe fn ninth_degree<S: Isa>(x: S::V, pairs: [(f32, f32); 5]) -> S::V {
    // SAFETY: passed on.
    unsafe {
        let mut parts = [S::splat(0.0); 5];
        for i in 0..5 {
            parts[i] = S::fma(S::splat(pairs[i].0), x, S::splat(pairs[i].1));
        }
        let square = S::mul(x, x);
        let fourth = S::mul(square, square);
        let (low, high) = (S::fma(parts[1], square, parts[0]), S::fma(parts[3], square, parts[2]));
        S::fma(S::fma(parts[4], fourth, high), fourth, low)
    }
}

/// Of the logarithm of erfc.
const ERFC: [(f32, f32); 5] = [
    (1.000_023_7, -1.265_512_2),
    (0.096_784_18, 0.374_091_96),
    (0.278_868_08, -0.186_288_06),
    (1.488_515_9, -1.135_204),
    (0.170_872_77, -0.822_152_2),
];

/// Of the log odds of Φ.
const LOG_ODDS: [(f32, f32); 5] = [
    (2.701_791_8, 3.456_104_5),
    (-0.172_288_22, 0.228_047_98),
    (-0.193_814_46, 0.122_045_32),
    (-0.104_465_88, 0.305_597_93),
    (0.114_916_28, -0.173_605_08),
];

/// cap · tanh(x / cap).
///
/// # Safety
/// As for [`Isa`].
#[inline(always)]
pub unsafe fn softcap<S: Isa>(x: S::V, cap: S::V) -> S::V {
    // SAFETY: passed on.
    unsafe { S::mul(cap, tanh::<S>(S::div(x, cap))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Portable;
    #[cfg(target_arch = "x86_64")]
    use std::arch::x86_64::_mm512_set1_ps;

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
            exp_is_right(|x| unsafe { exp_by_instructions(x) });
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn has_avx512() -> bool {
        // The rest came before these.
        is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
    fn exp_by_instructions(x: f32) -> f32 {
        let mut out = [0f32; 16];
        // SAFETY: the features are there, and a vector has no more numbers.
        unsafe {
            crate::isa::Avx512::store_f32(out.as_mut_ptr(), crate::isa::Avx512::exp(_mm512_set1_ps(x)))
        };
        out[0]
    }

    /// Of the sets that have a shorter way, by their instructions.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
    fn sigmoid_by_instructions(x: f32) -> f32 {
        let mut out = [0f32; 16];
        // SAFETY: the features are there, and a vector has no more numbers.
        unsafe {
            crate::isa::Avx512::store_f32(out.as_mut_ptr(), crate::isa::Avx512::sigmoid(_mm512_set1_ps(x)))
        };
        out[0]
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
            sigmoid_is_right(|x| unsafe { sigmoid_by_instructions(x) });
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
    fn coarse_normal_cdf_by_instructions(x: f32) -> f32 {
        let mut out = [0f32; 16];
        // SAFETY: the features are there, and a vector has no more numbers.
        unsafe {
            let y = coarse_normal_cdf::<crate::isa::Avx512>(_mm512_set1_ps(x));
            crate::isa::Avx512::store_f32(out.as_mut_ptr(), y);
        }
        out[0]
    }

    /// Beside the long way, which is right to 1e-6.
    fn coarse_normal_cdf_is_right(f: impl Fn(f32) -> f32) {
        // SAFETY: as above.
        let long = |x: f32| first(unsafe { normal_cdf::<Portable>([x; 8]) });
        for i in -12_000..=12_000i16 {
            let x = f32::from(i) * 1e-3;
            let bound = if x.abs() <= 9.0 { 2f32.powi(-11) } else { 2f32.powi(-9) };
            assert!((f(x) / long(x) - 1.0).abs() < bound, "{x}: {} and {}", f(x), long(x));
        }
        for x in [12.01, 13.0, 20.0, 100.0, 1e6, 1e30, f32::MAX, f32::INFINITY] {
            assert!((f(x) - 1.0).abs() < 1e-4 && (0.0..1e-32).contains(&f(-x)), "{x}: {} {}", f(x), f(-x));
        }
        assert!(f(f32::INFINITY) == 1.0 && f(f32::NEG_INFINITY) == 0.0 && f(f32::NAN).is_nan());
    }

    #[test]
    fn coarse_normal_cdf_is_right_under_every_set() {
        // SAFETY: as above.
        coarse_normal_cdf_is_right(|x| first(unsafe { coarse_normal_cdf::<Portable>([x; 8]) }));
        #[cfg(target_arch = "x86_64")]
        if has_avx512() {
            // SAFETY: the features are there.
            coarse_normal_cdf_is_right(|x| unsafe { coarse_normal_cdf_by_instructions(x) });
        }
    }

    #[test]
    fn normal_cdf_has_a_median_and_tails() {
        // SAFETY: as above.
        let f = |x: f32| first(unsafe { normal_cdf::<Portable>([x; 8]) });
        // Values of Φ from tables (Abramowitz & Stegun, 26.1 and 26.2).
        for (x, phi) in [(0.0, 0.5), (1.0, 0.841_344_8), (-2.0, 0.022_750_132), (-5.0, 2.866_515_7e-7)] {
            assert!((f(x) / phi - 1.0).abs() < 1e-6, "{x}: {}", f(x));
        }
        assert_eq!((f(f32::INFINITY), f(f32::NEG_INFINITY)), (1.0, 0.0));
        assert!(f(f32::NAN).is_nan());
    }
}
