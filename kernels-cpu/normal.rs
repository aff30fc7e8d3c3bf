//! The normal distribution function Φ, to f32's precision and to that of 16 bits.

use crate::isa::{Elem, Isa};
use kernels_core::{DType, Element};

/// Φ(x), the normal distribution function: 0.5 · erfc(−x / √2), with erfc by a Chebyshev fit of relative error
/// 1.2e-7 (Numerical Recipes, `erfcc`); both tails keep their relative precision.
///
/// # Safety
/// As for [`Isa`].
#[inline(always)]
unsafe fn normal_cdf<S: Isa>(x: S::V) -> S::V {
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
unsafe fn coarse_normal_cdf<S: Isa>(x: S::V) -> S::V {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Portable;
    #[cfg(target_arch = "x86_64")]
    use crate::{
        isa::Avx512,
        math::{by_instructions, has_avx512},
    };

    #[cfg(target_arch = "x86_64")]
    by_instructions!(coarse, |x| coarse_normal_cdf::<Avx512>(x));

    fn first(v: [f32; 8]) -> f32 {
        v[0]
    }

    /// Beside the long way, which is right to 1e-6.
    fn coarse_normal_cdf_is_right(f: impl Fn(f32) -> f32) {
        // SAFETY: the portable set needs no features.
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
            coarse_normal_cdf_is_right(|x| unsafe { coarse(x) });
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
