//! Products of bytes, 32 at a time, on AVX2: pairs of products are added in 16 bits.
//!
//! # Safety of all functions
//! AVX2.
#![allow(clippy::missing_safety_doc)]

use std::arch::x86_64::*;

/// How many products with unsigned bytes up to `largest`, and signed ones of magnitude up to 127, sums hold.
#[inline(always)]
pub fn room(largest: i32) -> usize {
    (i32::from(i16::MAX) / (2 * 127 * largest)) as usize
}

#[inline(always)]
pub unsafe fn none() -> __m256i {
    // SAFETY: passed on.
    unsafe { _mm256_setzero_si256() }
}

#[inline(always)]
pub unsafe fn add_products(sums: __m256i, unsigned: __m256i, signed: __m256i) -> __m256i {
    // SAFETY: passed on.
    unsafe { _mm256_add_epi16(sums, _mm256_maddubs_epi16(unsigned, signed)) }
}

/// Sums as 8 lanes of i32, lane `i` over bytes `4 i..4 i + 4` of every product.
#[inline(always)]
pub unsafe fn wide(sums: __m256i) -> __m256i {
    // SAFETY: passed on.
    unsafe { _mm256_madd_epi16(sums, _mm256_set1_epi16(1)) }
}
