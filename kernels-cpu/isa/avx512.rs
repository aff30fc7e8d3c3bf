//! AVX-512 F, BW, DQ, VL.

use super::Isa;
use std::arch::x86_64::*;

/// 16 lanes.
#[derive(Clone, Copy)]
pub struct Avx512;

/// Which 16-bit numbers are the upper halves of 32-bit ones; the upper half of the vector does not matter.
const UPPER_HALVES: __m512i = {
    let (mut which, mut i) = ([0u16; 32], 0);
    while i < 16 {
        which[i] = 2 * i as u16 + 1;
        i += 1;
    }
    // SAFETY: both are 64 bytes of which any are valid.
    unsafe { std::mem::transmute(which) }
};

/// 2^f for f in [0, 1), by a polynomial of degree 5 (error 1e-7).
///
/// # Safety
/// AVX-512 F.
#[inline(always)]
unsafe fn power_of_two(f: __m512) -> __m512 {
    // SAFETY: by contract.
    unsafe {
        // In parts that do not wait for each other: a row is one such chain after another.
        let low = _mm512_fmadd_ps(_mm512_set1_ps(6.931_513e-1), f, _mm512_set1_ps(1.0));
        let middle = _mm512_fmadd_ps(_mm512_set1_ps(5.579_991_5e-2), f, _mm512_set1_ps(2.401_644_5e-1));
        let high = _mm512_fmadd_ps(_mm512_set1_ps(1.867_130_9e-3), f, _mm512_set1_ps(9.017_028e-3));
        let square = _mm512_mul_ps(f, f);
        _mm512_fmadd_ps(_mm512_fmadd_ps(high, square, middle), square, low)
    }
}

// The trait's contract is the safety of every method here: the processor has the features, pointers are
// valid for 16 elements.
impl Isa for Avx512 {
    type V = __m512;
    type I = __m512i;
    type H = __m512i;
    type Eight = super::Avx2;
    const W: usize = 16;
    const TILE: usize = 12;
    // Of a Xeon; the other makers' processors have the bf16 instructions, and another set.
    const FOLLOWED: usize = 512;
    const HALVES: bool = true;

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load_f32(p: *const f32) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store_f32(p: *mut f32, v: __m512) {
        // SAFETY: see above the impl.
        unsafe { _mm512_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
    }
    #[inline(always)]
    unsafe fn store_f16(p: *mut u16, v: __m512) {
        // SAFETY: see above the impl.
        unsafe {
            _mm256_storeu_si256(
                p.cast(),
                _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(v),
            )
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> __m512 {
        // SAFETY: see above the impl.
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        }
    }
    #[inline(always)]
    unsafe fn even_odd_bf16(pairs: __m512) -> [__m512; 2] {
        // SAFETY: see above the impl.
        unsafe {
            let words = _mm512_castps_si512(pairs);
            let odd = _mm512_and_si512(words, _mm512_set1_epi32(0xFFFF_0000_u32.cast_signed()));
            [_mm512_castsi512_ps(_mm512_slli_epi32::<16>(words)), _mm512_castsi512_ps(odd)]
        }
    }
    #[inline(always)]
    unsafe fn interleave([even, odd]: [__m512; 2]) -> [__m512; 2] {
        // SAFETY: see above the impl.
        unsafe {
            let (a, b) = (_mm512_unpacklo_ps(even, odd), _mm512_unpackhi_ps(even, odd));
            // Their quarters by turns: 0 and 1 of each, then 2 and 3.
            let first = _mm512_shuffle_f32x4::<0x44>(a, b);
            let second = _mm512_shuffle_f32x4::<0xEE>(a, b);
            [_mm512_shuffle_f32x4::<0xD8>(first, first), _mm512_shuffle_f32x4::<0xD8>(second, second)]
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(p: *mut u16, v: __m512) {
        // SAFETY: see above the impl.
        unsafe {
            let bits = _mm512_castps_si512(v);
            let odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x1_0000));
            let up = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF));
            let rounded = _mm512_mask_add_epi32(up, odd, up, _mm512_set1_epi32(1));
            // Rounding could carry a NaN's payload into an infinity: where v is NaN, v with its quiet bit set instead.
            let both_nans_quiet = _mm512_set1_epi32(0x22);
            let all = _mm512_fixupimm_ps::<0>(_mm512_castsi512_ps(rounded), v, both_nans_quiet);
            let upper = _mm512_permutexvar_epi16(UPPER_HALVES, _mm512_castps_si512(all));
            _mm256_storeu_si256(p.cast(), _mm512_castsi512_si256(upper));
        }
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const i8) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p.cast()))) }
    }
    #[inline(always)]
    unsafe fn store_i8(p: *mut i8, v: __m512) {
        // SAFETY: see above the impl.
        unsafe {
            let number = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_ORD_Q>(v, v), v);
            let clamped = _mm512_max_ps(_mm512_min_ps(number, _mm512_set1_ps(127.0)), _mm512_set1_ps(-128.0));
            _mm_storeu_si128(p.cast(), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(clamped)));
        }
    }
    #[inline(always)]
    unsafe fn store_small_i8(p: *mut i8, v: __m512) {
        // SAFETY: see above the impl.
        unsafe { _mm_storeu_si128(p.cast(), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v))) }
    }
    #[inline(always)]
    unsafe fn load_f8(p: *const u8) -> __m512 {
        // SAFETY: see above the impl.
        unsafe {
            // As f16 with an exponent that is 8 too small, whose conversion takes subnormals without a detour.
            let wide = _mm256_cvtepu8_epi16(_mm_loadu_si128(p.cast()));
            let magnitude = _mm256_and_si256(wide, _mm256_set1_epi16(0x7F));
            let sign = _mm256_slli_epi16::<8>(_mm256_andnot_si256(_mm256_set1_epi16(0x7F), wide));
            let half = _mm256_or_si256(sign, _mm256_slli_epi16::<7>(magnitude));
            let value = _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(256.0));
            let nan = _mm256_cmpeq_epi16_mask(magnitude, _mm256_set1_epi16(0x7F));
            _mm512_mask_mov_ps(value, nan, _mm512_set1_ps(f32::NAN))
        }
    }
    #[inline(always)]
    unsafe fn store_f8(p: *mut u8, v: __m512) {
        // SAFETY: see above the impl.
        unsafe {
            let all = _mm512_castps_si512(v);
            let sign = _mm512_and_si512(_mm512_srli_epi32::<24>(all), _mm512_set1_epi32(0x80));
            let size = _mm512_min_ps(_mm512_abs_ps(v), _mm512_set1_ps(448.0));
            let bits = _mm512_castps_si512(size);
            let odd = _mm512_and_si512(_mm512_srli_epi32::<20>(bits), _mm512_set1_epi32(1));
            let rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFFF)));
            let normal = _mm512_sub_epi32(_mm512_srli_epi32::<20>(rounded), _mm512_set1_epi32(120 << 3));
            // Beside 2^14 an f32's last bit is 2^-9, the smallest subnormal.
            let shifted = _mm512_castps_si512(_mm512_add_ps(size, _mm512_set1_ps(16384.0)));
            let tiny = _mm512_sub_epi32(shifted, _mm512_castps_si512(_mm512_set1_ps(16384.0)));
            let is_tiny = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(size, _mm512_set1_ps(0.015_625));
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(v, v);
            let code = _mm512_mask_mov_epi32(normal, is_tiny, tiny);
            let code = _mm512_mask_mov_epi32(code, nan, _mm512_set1_epi32(0x7F));
            _mm_storeu_si128(p.cast(), _mm512_cvtepi32_epi8(_mm512_or_si512(code, sign)));
        }
    }
    #[inline(always)]
    unsafe fn widen_i8(p: *const i8) -> __m512i {
        // SAFETY: see above the impl.
        unsafe { _mm512_cvtepi8_epi16(_mm256_loadu_si256(p.cast())) }
    }
    #[inline(always)]
    unsafe fn zeros_i32() -> __m512i {
        // SAFETY: see above the impl.
        unsafe { _mm512_setzero_si512() }
    }
    #[inline(always)]
    unsafe fn dot_i16(acc: __m512i, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: see above the impl.
        unsafe { _mm512_add_epi32(acc, _mm512_madd_epi16(a, b)) }
    }
    #[inline(always)]
    unsafe fn sum_i32(v: __m512i) -> i32 {
        // SAFETY: see above the impl.
        unsafe { _mm512_reduce_add_epi32(v) }
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast()))) }
    }
    #[inline(always)]
    unsafe fn nibbles(p: *const u8) -> (__m512, __m512) {
        // SAFETY: see above the impl.
        unsafe {
            let wide = _mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast()));
            let low = _mm512_and_si512(wide, _mm512_set1_epi32(15));
            (_mm512_cvtepi32_ps(low), _mm512_cvtepi32_ps(_mm512_srli_epi32::<4>(wide)))
        }
    }
    #[inline(always)]
    unsafe fn add_where(v: __m512, bits: u32, amount: f32) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_mask_add_ps(v, bits as u16, v, _mm512_set1_ps(amount)) }
    }
    #[inline(always)]
    unsafe fn half(bits: u16) -> f32 {
        // SAFETY: see above the impl.
        unsafe { _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits)))) }
    }
    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn sub(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn div(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn select_lt(a: __m512, b: __m512, x: __m512, y: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), x) }
    }
    #[inline(always)]
    unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn lanes_above(v: __m512, than: f32) -> u32 {
        // SAFETY: see above the impl.
        unsafe { _mm512_cmp_ps_mask::<_CMP_GT_OQ>(v, _mm512_set1_ps(than)).into() }
    }
    #[inline(always)]
    unsafe fn exp(x: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe {
            // Operands in this order keep a NaN.
            let x = _mm512_min_ps(_mm512_set1_ps(89.0), x);
            let n = Self::round(_mm512_mul_ps(x, _mm512_set1_ps(std::f32::consts::LOG2_E)));
            let r = _mm512_fmadd_ps(n, _mm512_set1_ps(-0.693_359_4), x);
            let r = _mm512_fmadd_ps(n, _mm512_set1_ps(2.121_944_4e-4), r);
            // e^r to 1.05e-7 of itself, in parts that do not wait for each other.
            let square = _mm512_mul_ps(r, r);
            let second = _mm512_fmadd_ps(r, _mm512_set1_ps(0.166_671_16), _mm512_set1_ps(0.499_992_3));
            let third = _mm512_fmadd_ps(r, _mm512_set1_ps(0.008_312_502), _mm512_set1_ps(0.041_890_33));
            let rest = _mm512_fmadd_ps(square, _mm512_fmadd_ps(square, third, second), r);
            Self::scale_by_power(_mm512_add_ps(_mm512_set1_ps(1.0), rest), n)
        }
    }
    #[inline(always)]
    unsafe fn max(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn min(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_min_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn reciprocal(a: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe {
            // One Newton step on an estimate of 14 bits. For an infinity its correction is NaN, which `max` drops.
            let r = _mm512_rcp14_ps(a);
            let correction =
                _mm512_max_ps(_mm512_fnmadd_ps(a, r, _mm512_set1_ps(1.0)), _mm512_set1_ps(-0.01));
            _mm512_fmadd_ps(r, correction, r)
        }
    }
    #[inline(always)]
    unsafe fn sigmoid(x: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe {
            // e⁻ˣ = 2^n · 2^f. Where x is infinite, or so large that f has no bits, n alone counts: f is brought to ±1.
            let log2_e = _mm512_set1_ps(-std::f32::consts::LOG2_E);
            let n = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(_mm512_mul_ps(
                x, log2_e,
            ));
            let f = _mm512_fmsub_ps(x, log2_e, n);
            // The smaller of two absolute values, with the first one's sign.
            let f = _mm512_range_ps::<0b0010>(f, _mm512_set1_ps(1.0));
            Self::reciprocal(_mm512_add_ps(_mm512_scalef_ps(power_of_two(f), n), _mm512_set1_ps(1.0)))
        }
    }
    #[inline(always)]
    unsafe fn coarse_sigmoid(x: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe {
            // e⁻ˣ = 2^t = 2^⌊t⌋ · 2^f. The two instructions for ⌊t⌋ and f treat infinities as a limit does, so nothing is
            // clamped.
            let t = _mm512_mul_ps(x, _mm512_set1_ps(-std::f32::consts::LOG2_E));
            let f = _mm512_reduce_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(t);
            _mm512_rcp14_ps(_mm512_add_ps(_mm512_scalef_ps(power_of_two(f), t), _mm512_set1_ps(1.0)))
        }
    }
    #[inline(always)]
    unsafe fn round(a: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }
    #[inline(always)]
    unsafe fn scale_by_power(a: __m512, n: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe {
            // The instruction would go on through the subnormals, and what stands for −∞ must give 0. A NaN stays.
            let above = _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(n, _mm512_set1_ps(-127.0));
            _mm512_maskz_scalef_ps(above, a, n)
        }
    }
    #[inline(always)]
    unsafe fn sum(v: __m512) -> f32 {
        // SAFETY: see above the impl.
        unsafe { _mm512_reduce_add_ps(v) }
    }
    #[inline(always)]
    unsafe fn sum4([a, b, c, d]: [__m512; 4]) -> [f32; 4] {
        // SAFETY: see above the impl.
        unsafe {
            // Add pairs while interleaving them, so that each 128-bit lane ends as [a, b, c, d].
            let ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
            let cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
            let (ab, cd) = (_mm512_castps_pd(ab), _mm512_castps_pd(cd));
            let low = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
            let all = _mm512_add_ps(low, _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd)));
            let half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps::<1>(all));
            let quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps::<1>(half));
            std::mem::transmute::<__m128, [f32; 4]>(quarter)
        }
    }
    #[inline(always)]
    unsafe fn largest(v: __m512) -> f32 {
        // SAFETY: see above the impl.
        unsafe { _mm512_reduce_max_ps(v) }
    }
}
