//! Products of bytes, 32 at a time: what integer matrix products are written over.

use std::arch::x86_64::*;

/// Sums of products of 32 unsigned with 32 signed bytes.
///
/// # Safety of all methods
/// The processor has the implementation's features.
#[allow(clippy::missing_safety_doc)]
pub trait Bytes: Copy + 'static {
    /// What products are added up in.
    type Sums: Copy;

    /// How many products with unsigned bytes up to `largest`, and signed ones of magnitude up to 127, the sums hold.
    fn room(largest: i32) -> usize;
    unsafe fn none() -> Self::Sums;
    unsafe fn add_products(sums: Self::Sums, unsigned: __m256i, signed: __m256i) -> Self::Sums;
    /// As 8 lanes of i32, lane `i` over bytes `4 i..4 i + 4` of every product.
    unsafe fn wide(sums: Self::Sums) -> __m256i;
}

/// Pairs of products added in 16 bits.
#[derive(Clone, Copy)]
pub struct Pairs;

impl Bytes for Pairs {
    type Sums = __m256i;

    #[inline(always)]
    fn room(largest: i32) -> usize {
        (i32::from(i16::MAX) / (2 * 127 * largest)) as usize
    }
    #[inline(always)]
    unsafe fn none() -> __m256i {
        // SAFETY: passed on.
        unsafe { _mm256_setzero_si256() }
    }
    #[inline(always)]
    unsafe fn add_products(sums: __m256i, unsigned: __m256i, signed: __m256i) -> __m256i {
        // SAFETY: passed on.
        unsafe { _mm256_add_epi16(sums, _mm256_maddubs_epi16(unsigned, signed)) }
    }
    #[inline(always)]
    unsafe fn wide(sums: __m256i) -> __m256i {
        // SAFETY: passed on.
        unsafe { _mm256_madd_epi16(sums, _mm256_set1_epi16(1)) }
    }
}

/// Fours of products added in 32 bits by one instruction of AVX-512 VNNI.
#[derive(Clone, Copy)]
pub struct Vnni;

impl Bytes for Vnni {
    type Sums = __m256i;

    #[inline(always)]
    fn room(_: i32) -> usize {
        usize::MAX
    }
    #[inline(always)]
    unsafe fn none() -> __m256i {
        // SAFETY: passed on.
        unsafe { _mm256_setzero_si256() }
    }
    #[inline(always)]
    unsafe fn add_products(sums: __m256i, unsigned: __m256i, signed: __m256i) -> __m256i {
        // SAFETY: passed on.
        unsafe { _mm256_dpbusd_epi32(sums, unsigned, signed) }
    }
    #[inline(always)]
    unsafe fn wide(sums: __m256i) -> __m256i {
        sums
    }
}
