//! AVX2, FMA, F16C.

use super::{Isa, Square};
use std::arch::x86_64::*;

/// 8 lanes.
#[derive(Clone, Copy)]
pub struct Avx2;

// The trait's contract is the safety of every method here: the processor has the features, pointers are
// valid for 8 elements.
impl Isa for Avx2 {
    type V = __m256;
    type I = __m256i;
    type H = __m256i;
    type Eight = Avx2;
    const W: usize = 8;
    const TILE: usize = 6;

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m256 {
        // SAFETY: see above the impl.
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load_f32(p: *const f32) -> __m256 {
        // SAFETY: see above the impl.
        unsafe { _mm256_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store_f32(p: *mut f32, v: __m256) {
        // SAFETY: see above the impl.
        unsafe { _mm256_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> __m256 {
        // SAFETY: see above the impl.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) }
    }
    #[inline(always)]
    unsafe fn store_f16(p: *mut u16, v: __m256) {
        // SAFETY: see above the impl.
        unsafe { _mm_storeu_si128(p.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v)) }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> __m256 {
        // SAFETY: see above the impl.
        unsafe {
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()))))
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(p: *mut u16, v: __m256) {
        // SAFETY: see above the impl.
        unsafe {
            let bits = _mm256_castps_si256(v);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
            // Rounding could carry a NaN's payload into an infinity: set its quiet bit instead.
            let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(v, v));
            let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x0040_0000));
            let all = _mm256_srli_epi32::<16>(_mm256_blendv_epi8(rounded, quiet, nan));
            // Pack within halves, then put the two halves side by side.
            let packed = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(all, all));
            _mm_storeu_si128(p.cast(), _mm256_castsi256_si128(packed));
        }
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const i8) -> __m256 {
        // SAFETY: see above the impl.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p.cast()))) }
    }
    #[inline(always)]
    unsafe fn store_i8(p: *mut i8, v: __m256) {
        // SAFETY: see above the impl.
        unsafe {
            let number = _mm256_and_ps(v, _mm256_cmp_ps::<_CMP_ORD_Q>(v, v));
            let clamped = _mm256_max_ps(_mm256_min_ps(number, _mm256_set1_ps(127.0)), _mm256_set1_ps(-128.0));
            store_bytes(p.cast(), _mm256_cvtps_epi32(clamped));
        }
    }
    #[inline(always)]
    unsafe fn store_small_i8(p: *mut i8, v: __m256) {
        // SAFETY: see above the impl.
        unsafe { store_bytes(p.cast(), _mm256_cvtps_epi32(v)) }
    }
    #[inline(always)]
    unsafe fn load_f8(p: *const u8) -> __m256 {
        // SAFETY: see above the impl.
        unsafe {
            // As f16 with an exponent that is 8 too small, whose conversion takes subnormals without a detour.
            let wide = _mm_cvtepu8_epi16(_mm_loadl_epi64(p.cast()));
            let magnitude = _mm_and_si128(wide, _mm_set1_epi16(0x7F));
            let sign = _mm_slli_epi16::<8>(_mm_andnot_si128(_mm_set1_epi16(0x7F), wide));
            let half = _mm_or_si128(sign, _mm_slli_epi16::<7>(magnitude));
            let value = _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256.0));
            let nan =
                _mm256_castsi256_ps(_mm256_cvtepi16_epi32(_mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7F))));
            _mm256_blendv_ps(value, _mm256_set1_ps(f32::NAN), nan)
        }
    }
    #[inline(always)]
    unsafe fn store_f8(p: *mut u8, v: __m256) {
        // SAFETY: see above the impl.
        unsafe {
            let sign =
                _mm256_and_si256(_mm256_srli_epi32::<24>(_mm256_castps_si256(v)), _mm256_set1_epi32(0x80));
            let abs = _mm256_andnot_ps(_mm256_set1_ps(-0.0), v);
            let size = _mm256_min_ps(abs, _mm256_set1_ps(448.0));
            let bits = _mm256_castps_si256(size);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<20>(bits), _mm256_set1_epi32(1));
            let rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFFF)));
            let normal = _mm256_sub_epi32(_mm256_srli_epi32::<20>(rounded), _mm256_set1_epi32(120 << 3));
            // Beside 2^14 an f32's last bit is 2^-9, the smallest subnormal.
            let shifted = _mm256_castps_si256(_mm256_add_ps(size, _mm256_set1_ps(16384.0)));
            let tiny = _mm256_sub_epi32(shifted, _mm256_castps_si256(_mm256_set1_ps(16384.0)));
            let is_tiny = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_LT_OQ>(size, _mm256_set1_ps(0.015_625)));
            let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(v, v));
            let code = _mm256_blendv_epi8(normal, tiny, is_tiny);
            let code = _mm256_blendv_epi8(code, _mm256_set1_epi32(0x7F), nan);
            // Unsigned codes up to 255: as signed bytes, they are what the saturating pack keeps.
            let signed = _mm256_srai_epi32::<24>(_mm256_slli_epi32::<24>(_mm256_or_si256(code, sign)));
            store_bytes(p, signed);
        }
    }
    #[inline(always)]
    unsafe fn widen_i8(p: *const i8) -> __m256i {
        // SAFETY: see above the impl.
        unsafe { _mm256_cvtepi8_epi16(_mm_loadu_si128(p.cast())) }
    }
    #[inline(always)]
    unsafe fn zeros_i32() -> __m256i {
        // SAFETY: see above the impl.
        unsafe { _mm256_setzero_si256() }
    }
    #[inline(always)]
    unsafe fn dot_i16(acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: see above the impl.
        unsafe { _mm256_add_epi32(acc, _mm256_madd_epi16(a, b)) }
    }
    #[inline(always)]
    unsafe fn sum_i32(v: __m256i) -> i32 {
        // SAFETY: see above the impl.
        unsafe {
            let q = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
            let d = _mm_add_epi32(q, _mm_shuffle_epi32::<0b1110>(q));
            _mm_cvtsi128_si32(_mm_add_epi32(d, _mm_shuffle_epi32::<1>(d)))
        }
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> __m256 {
        // SAFETY: see above the impl.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast()))) }
    }
    #[inline(always)]
    unsafe fn nibbles(p: *const u8) -> (__m256, __m256) {
        // SAFETY: see above the impl.
        unsafe {
            let wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast()));
            let low = _mm256_and_si256(wide, _mm256_set1_epi32(15));
            (_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(_mm256_srli_epi32::<4>(wide)))
        }
    }
    #[inline(always)]
    unsafe fn add_where(v: __m256, bits: u32, amount: f32) -> __m256 {
        // SAFETY: see above the impl.
        unsafe {
            let lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let set = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(bits as i32), lane), lane);
            _mm256_add_ps(v, _mm256_and_ps(_mm256_castsi256_ps(set), _mm256_set1_ps(amount)))
        }
    }
    #[inline(always)]
    unsafe fn half(bits: u16) -> f32 {
        // SAFETY: see above the impl.
        unsafe { _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits)))) }
    }
    #[inline(always)]
    unsafe fn add(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above the impl.
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn sub(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above the impl.
        unsafe { _mm256_sub_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn mul(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above the impl.
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn div(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above the impl.
        unsafe { _mm256_div_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn select_lt(a: __m256, b: __m256, x: __m256, y: __m256) -> __m256 {
        // SAFETY: see above the impl.
        unsafe { _mm256_blendv_ps(y, x, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b)) }
    }
    #[inline(always)]
    unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: see above the impl.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn lanes_above(v: __m256, than: f32) -> u32 {
        // SAFETY: see above the impl.
        unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(v, _mm256_set1_ps(than))) as u32 }
    }
    #[inline(always)]
    unsafe fn max(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above the impl.
        unsafe { _mm256_max_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn min(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above the impl.
        unsafe { _mm256_min_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn reciprocal(a: __m256) -> __m256 {
        // SAFETY: see above the impl.
        // As long as an estimate with a Newton step, and one instruction where that takes four: what limits a loop
        // over exponentials is how many instructions the processor looks ahead.
        unsafe { _mm256_div_ps(_mm256_set1_ps(1.0), a) }
    }
    #[inline(always)]
    unsafe fn round(a: __m256) -> __m256 {
        // SAFETY: see above the impl.
        unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }
    #[inline(always)]
    unsafe fn scale_by_power(a: __m256, n: __m256) -> __m256 {
        // SAFETY: see above the impl.
        unsafe {
            let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent)))
        }
    }
    #[inline(always)]
    unsafe fn sum(v: __m256) -> f32 {
        // SAFETY: see above the impl.
        unsafe {
            let q = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let d = _mm_add_ps(q, _mm_movehl_ps(q, q));
            _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps::<1>(d, d)))
        }
    }
    #[inline(always)]
    unsafe fn sum4([a, b, c, d]: [__m256; 4]) -> [f32; 4] {
        // SAFETY: see above the impl.
        unsafe {
            // Add pairs while interleaving them, so that each 128-bit lane ends as [a, b, c, d].
            let ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            let (ab, cd) = (_mm256_castps_pd(ab), _mm256_castps_pd(cd));
            let low = _mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd));
            let all = _mm256_add_ps(low, _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd)));
            let half = _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps::<1>(all));
            std::mem::transmute::<__m128, [f32; 4]>(half)
        }
    }
    #[inline(always)]
    unsafe fn largest(v: __m256) -> f32 {
        // SAFETY: see above the impl.
        unsafe {
            let q = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let d = _mm_max_ps(q, _mm_movehl_ps(q, q));
            _mm_cvtss_f32(_mm_max_ss(d, _mm_shuffle_ps::<1>(d, d)))
        }
    }
}

impl Square for Avx2 {
    #[inline(always)]
    unsafe fn transposed(rows: [__m256; 8]) -> [__m256; 8] {
        // SAFETY: see above the first impl.
        unsafe {
            let (mut pairs, mut fours, mut out) = (rows, rows, rows);
            for i in 0..4 {
                pairs[2 * i] = _mm256_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
                pairs[2 * i + 1] = _mm256_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
            }
            // Columns 0 and 4, 1 and 5, 2 and 6, 3 and 7 of rows 0 to 3, then of rows 4 to 7.
            for i in [0, 4] {
                fours[i] = _mm256_shuffle_ps::<0b01_00_01_00>(pairs[i], pairs[i + 2]);
                fours[i + 1] = _mm256_shuffle_ps::<0b11_10_11_10>(pairs[i], pairs[i + 2]);
                fours[i + 2] = _mm256_shuffle_ps::<0b01_00_01_00>(pairs[i + 1], pairs[i + 3]);
                fours[i + 3] = _mm256_shuffle_ps::<0b11_10_11_10>(pairs[i + 1], pairs[i + 3]);
            }
            for i in 0..4 {
                out[i] = _mm256_permute2f128_ps::<0x20>(fours[i], fours[4 + i]);
                out[4 + i] = _mm256_permute2f128_ps::<0x31>(fours[i], fours[4 + i]);
            }
            out
        }
    }
}

/// Eight integers of a byte each, saturated.
///
/// # Safety
/// The processor has AVX2; `p` is valid for 8 bytes.
#[inline(always)]
unsafe fn store_bytes(p: *mut u8, v: __m256i) {
    // SAFETY: by contract.
    unsafe {
        let words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
        _mm_storel_epi64(p.cast(), _mm_packs_epi16(words, words));
    }
}
