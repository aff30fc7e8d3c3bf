//! AVX-512 with the bf16 conversion: one instruction where the base set takes five.

use super::{Avx512, Isa};
use std::arch::x86_64::*;

/// 16 lanes.
#[derive(Clone, Copy)]
pub struct Avx512Bf16;

macro_rules! as_avx512 {
    ($($name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?;)*) => { $(
        #[inline(always)]
        unsafe fn $name($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: passed on.
            unsafe { Avx512::$name($($arg),*) }
        }
    )* };
}

// The trait's contract is the safety of every method here: the processor has the features, pointers are
// valid for 16 elements.
impl Isa for Avx512Bf16 {
    type V = __m512;
    type I = __m512i;
    type H = __m512i;
    type Eight = super::Avx2;
    const W: usize = 16;
    const TILE: usize = 12;
    const PAIRS: bool = true;

    as_avx512! {
        splat(x: f32) -> __m512;
        load_f32(p: *const f32) -> __m512;
        store_f32(p: *mut f32, v: __m512);
        load_f16(p: *const u16) -> __m512;
        store_f16(p: *mut u16, v: __m512);
        load_bf16(p: *const u16) -> __m512;
        even_odd_bf16(pairs: __m512) -> [__m512; 2];
        interleave(halves: [__m512; 2]) -> [__m512; 2];
        load_i8(p: *const i8) -> __m512;
        store_i8(p: *mut i8, v: __m512);
        store_small_i8(p: *mut i8, v: __m512);
        load_f8(p: *const u8) -> __m512;
        store_f8(p: *mut u8, v: __m512);
        widen_i8(p: *const i8) -> __m512i;
        zeros_i32() -> __m512i;
        dot_i16(acc: __m512i, a: __m512i, b: __m512i) -> __m512i;
        sum_i32(v: __m512i) -> i32;
        load_u8(p: *const u8) -> __m512;
        nibbles(p: *const u8) -> (__m512, __m512);
        add_where(v: __m512, bits: u32, amount: f32) -> __m512;
        half(bits: u16) -> f32;
        add(a: __m512, b: __m512) -> __m512;
        sub(a: __m512, b: __m512) -> __m512;
        mul(a: __m512, b: __m512) -> __m512;
        div(a: __m512, b: __m512) -> __m512;
        select_lt(a: __m512, b: __m512, x: __m512, y: __m512) -> __m512;
        fma(a: __m512, b: __m512, c: __m512) -> __m512;
        max(a: __m512, b: __m512) -> __m512;
        min(a: __m512, b: __m512) -> __m512;
        reciprocal(a: __m512) -> __m512;
        sigmoid(x: __m512) -> __m512;
        coarse_sigmoid(x: __m512) -> __m512;
        round(a: __m512) -> __m512;
        scale_by_power(a: __m512, n: __m512) -> __m512;
        sum(v: __m512) -> f32;
        sum4(v: [__m512; 4]) -> [f32; 4];
        largest(v: __m512) -> f32;
        exp(x: __m512) -> __m512;
        lanes_above(v: __m512, than: f32) -> u32;
    }

    #[inline(always)]
    unsafe fn dot_bf16(acc: __m512, a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above the impl; lanes of both types are 32 bits.
        unsafe {
            let pairs = |v: __m512| std::mem::transmute::<__m512, __m512bh>(v);
            _mm512_dpbf16_ps(acc, pairs(a), pairs(b))
        }
    }

    /// Subnormal f32 become zero; bf16 has the same exponents, so these are below 1.2e-38.
    #[inline(always)]
    unsafe fn store_bf16(p: *mut u16, v: __m512) {
        // SAFETY: see above the impl.
        unsafe {
            _mm256_storeu_si256(p.cast(), std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(v)))
        }
    }
}
