//! A step of a row as tiles take it.

use crate::isa::amx::{Floats, Integers, Product};
use crate::isa::lowest;
use kernels_core::{Element, F8E4M3, bf16};
use std::arch::x86_64::*;

/// Numbers that tiles of `P` multiply, themselves or exactly widened.
///
/// # Safety of all methods
/// AVX-512 F and BW; `p` valid for the numbers.
#[allow(clippy::missing_safety_doc)]
pub trait Source<P: Product>: Element {
    /// [`Product::NUMBERS`] from `p` on.
    unsafe fn line(p: *const Self) -> __m512i;
    /// The first `count` of them, and zeros.
    unsafe fn tail(p: *const Self, count: usize) -> __m512i;
}

impl Source<Floats> for bf16 {
    #[inline(always)]
    unsafe fn line(p: *const Self) -> __m512i {
        // SAFETY: by contract.
        unsafe { _mm512_loadu_si512(p.cast()) }
    }
    #[inline(always)]
    unsafe fn tail(p: *const Self, count: usize) -> __m512i {
        // SAFETY: by contract; what is masked out is not touched.
        unsafe { _mm512_maskz_loadu_epi16(lowest(count) as u32, p.cast()) }
    }
}

impl Source<Integers> for i8 {
    #[inline(always)]
    unsafe fn line(p: *const Self) -> __m512i {
        // SAFETY: by contract.
        unsafe { _mm512_loadu_si512(p.cast()) }
    }
    #[inline(always)]
    unsafe fn tail(p: *const Self, count: usize) -> __m512i {
        // SAFETY: by contract; what is masked out is not touched.
        unsafe { _mm512_maskz_loadu_epi8(lowest(count), p) }
    }
}

/// The bf16 of each f8_e4m3 without its sign: every one is a bf16.
static WIDE: [u16; 128] = {
    let (mut all, mut code) = ([0; 128], 0);
    while code < 128 {
        let (exponent, mantissa) = (code as u16 >> 3, code as u16 & 7);
        all[code] = match (code, exponent) {
            (127, _) => 0x7FC0,
            (_, 0) => ((mantissa as f32 / 512.0).to_bits() >> 16) as u16,
            _ => (exponent + 120) << 7 | mantissa << 4,
        };
        code += 1;
    }
    all
};

impl Source<Floats> for F8E4M3 {
    #[inline(always)]
    unsafe fn line(p: *const Self) -> __m512i {
        // SAFETY: by contract; the table has four vectors.
        unsafe {
            let quarter = |i: usize| _mm512_loadu_si512(WIDE.as_ptr().add(32 * i).cast());
            let codes = _mm512_cvtepu8_epi16(_mm256_loadu_si256(p.cast()));
            // The instruction takes six bits of an index.
            let low = _mm512_permutex2var_epi16(quarter(0), codes, quarter(1));
            let high = _mm512_permutex2var_epi16(quarter(2), codes, quarter(3));
            let is_high = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(64));
            let sign = _mm512_slli_epi16::<8>(_mm512_and_si512(codes, _mm512_set1_epi16(128)));
            _mm512_or_si512(_mm512_mask_blend_epi16(is_high, low, high), sign)
        }
    }
    #[inline(always)]
    unsafe fn tail(p: *const Self, count: usize) -> __m512i {
        let mut codes = [F8E4M3::from_bits(0); 32];
        // SAFETY: by contract; the array holds a line.
        unsafe {
            codes.as_mut_ptr().copy_from_nonoverlapping(p, count);
            Self::line(codes.as_ptr())
        }
    }
}
