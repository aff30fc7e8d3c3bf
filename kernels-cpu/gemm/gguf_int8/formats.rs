//! GGUF blocks as bytes with scales, 256 weights at a time. What the formats mean is in
//! `kernels_ops::quantization::blocks`.

use kernels_core::DType;
use std::arch::x86_64::*;

/// Groups of 32 weights that are taken together: a block of the K formats, eight of the others.
pub const OCTET: usize = 8;

/// A weight is `q · d + m`.
#[derive(Clone, Copy)]
pub struct Scales {
    /// Of the eight groups; of a format with a scale for each 16, of the halves of groups 0 to 3 and 4 to 7.
    pub d: [__m256; 2],
    /// Of the eight groups.
    pub m: __m256,
}

/// A block format. Weights are unsigned with a minimum, or signed without one.
pub trait Format {
    const DTYPE: DType;
    /// The largest magnitude of a byte.
    const LARGEST: i32;
    const SIGNED: bool = false;
    /// Scales are for 16 weights, not 32.
    const HALVES: bool = false;
    /// Bytes of eight groups.
    const BYTES: usize = 256 / Self::DTYPE.block_len() * Self::DTYPE.block_bytes();

    /// # Safety
    /// AVX2 and F16C; `octet` is valid for [`Format::BYTES`].
    unsafe fn scales(octet: *const u8) -> Scales;

    /// The bytes of group `g`.
    ///
    /// # Safety
    /// As for [`Format::scales`]; `g` is below [`OCTET`].
    unsafe fn bytes(octet: *const u8, g: usize) -> __m256i;
}

macro_rules! format {
    ($name:ident, $largest:literal $(, $flag:ident)*; |$s:ident| $scales:expr, |$b:ident, $g:ident| $bytes:expr) => {
        pub struct $name;
        impl Format for $name {
            const DTYPE: DType = DType::$name;
            const LARGEST: i32 = $largest;
            $( const $flag: bool = true; )*
            #[inline(always)]
            unsafe fn scales($s: *const u8) -> Scales {
                // SAFETY: every offset is inside the octet.
                unsafe { $scales }
            }
            #[inline(always)]
            unsafe fn bytes($b: *const u8, $g: usize) -> __m256i {
                // SAFETY: every offset is inside the octet.
                unsafe { $bytes }
            }
        }
    };
}

format!(Q4_0, 15; |s| centred(halves::<18>(s), -8.0), |b, g| nibbles(b.add(18 * g + 2)));
format!(Q4_1, 15; |s| affine(halves::<20>(s), halves::<20>(s.add(2))), |b, g| nibbles(b.add(20 * g + 4)));
format!(Q5_0, 31; |s| centred(halves::<22>(s), -16.0),
    |b, g| _mm256_or_si256(nibbles(b.add(22 * g + 6)), fifths(b.add(22 * g + 2))));
format!(Q5_1, 31; |s| affine(halves::<24>(s), halves::<24>(s.add(2))),
    |b, g| _mm256_or_si256(nibbles(b.add(24 * g + 8)), fifths(b.add(24 * g + 4))));
format!(Q8_0, 128, SIGNED; |s| affine(halves::<34>(s), _mm256_setzero_ps()),
    |b, g| _mm256_loadu_si256(b.add(34 * g + 2).cast()));
format!(Q4K, 15; |s| six_bits(s), |b, g| half_bytes(b.add(16 + 32 * (g / 2)), g % 2));
format!(Q5K, 31; |s| six_bits(s), |b, g| {
    let high = bits_at(_mm256_loadu_si256(b.add(16).cast()), g as i32, 4, 0x10);
    _mm256_or_si256(half_bytes(b.add(48 + 32 * (g / 2)), g % 2), high)
});
format!(Q6K, 32, SIGNED, HALVES; |s| {
    let d = _mm256_set1_ps(half(s.add(208)));
    let of = |at: usize| {
        let scales = _mm_loadl_epi64(s.add(192 + at).cast());
        _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(scales)))
    };
    Scales { d: [of(0), of(8)], m: _mm256_setzero_ps() }
}, |b, g| {
    // Halves of 128; in each, four runs of 32 share 64 low-nibble bytes and 32 bytes of two high bits.
    let (part, run) = (g / 4, g % 4);
    let low = half_bytes(b.add(64 * part + 32 * (run % 2)), run / 2);
    let high = bits_at(_mm256_loadu_si256(b.add(128 + 32 * part).cast()), 2 * run as i32, 4, 0x30);
    _mm256_sub_epi8(_mm256_or_si256(low, high), _mm256_set1_epi8(32))
});

/// # Safety
/// F16C; `p` valid for 2 bytes.
#[inline(always)]
unsafe fn half(p: *const u8) -> f32 {
    // SAFETY: by contract.
    unsafe { _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(p.cast::<u16>().read_unaligned())))) }
}

/// Eight f16, `STEP` bytes apart.
///
/// # Safety
/// F16C; `p` valid for them.
#[inline(always)]
unsafe fn halves<const STEP: usize>(p: *const u8) -> __m256 {
    // SAFETY: by contract.
    unsafe {
        let at = |i: usize| p.add(i * STEP).cast::<i16>().read_unaligned();
        _mm256_cvtph_ps(_mm_set_epi16(at(7), at(6), at(5), at(4), at(3), at(2), at(1), at(0)))
    }
}

/// # Safety
/// AVX.
#[inline(always)]
unsafe fn centred(d: __m256, offset: f32) -> Scales {
    // SAFETY: by contract.
    unsafe { affine(d, _mm256_mul_ps(d, _mm256_set1_ps(offset))) }
}

#[inline(always)]
fn affine(d: __m256, m: __m256) -> Scales {
    Scales { d: [d, d], m }
}

/// Scales and minima of Q4_K and Q5_K: eight pairs of six bits in 12 bytes, after their f16 units.
///
/// # Safety
/// AVX2 and F16C; `b` valid for 16 bytes.
#[inline(always)]
unsafe fn six_bits(b: *const u8) -> Scales {
    // SAFETY: by contract.
    unsafe {
        let word = |i: usize| b.add(4 + 4 * i).cast::<u32>().read_unaligned();
        let (low, mid, high) = (word(0), word(1), word(2));
        // The first four have their six bits together; of the others the lower four are in `high`, the upper two
        // above the first four's.
        let (six, four, two) = (0x3F3F_3F3F, 0x0F0F_0F0F, 0x0303_0303);
        let scales = u64::from(low & six) | u64::from(high & four | (low >> 6 & two) << 4) << 32;
        let minima = u64::from(mid & six) | u64::from(high >> 4 & four | (mid >> 6 & two) << 4) << 32;
        let wide = |bytes: u64| _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bytes as i64)));
        let (d, unit) = (_mm256_set1_ps(half(b)), _mm256_set1_ps(-half(b.add(2))));
        affine(_mm256_mul_ps(d, wide(scales)), _mm256_mul_ps(unit, wide(minima)))
    }
}

/// 16 bytes: low nibbles, then high ones.
///
/// # Safety
/// AVX2; `p` valid for 16 bytes.
#[inline(always)]
unsafe fn nibbles(p: *const u8) -> __m256i {
    // SAFETY: by contract.
    unsafe {
        let bytes = _mm_loadu_si128(p.cast());
        let both = _mm256_set_m128i(_mm_srli_epi16::<4>(bytes), bytes);
        _mm256_and_si256(both, _mm256_set1_epi8(15))
    }
}

/// The low (0) or high (1) nibbles of 32 bytes.
///
/// # Safety
/// AVX2; `p` valid for 32 bytes.
#[inline(always)]
unsafe fn half_bytes(p: *const u8, which: usize) -> __m256i {
    // SAFETY: by contract.
    unsafe { bits_at(_mm256_loadu_si256(p.cast()), 4 * which as i32, 0, 15) }
}

/// Each byte's bits from `from` on moved to `to`, those of `mask` kept.
///
/// # Safety
/// AVX2.
#[inline(always)]
unsafe fn bits_at(bytes: __m256i, from: i32, to: i32, mask: i8) -> __m256i {
    // SAFETY: by contract.
    unsafe {
        // What a shift of 16 bits brings over from the neighbour is outside the mask.
        let moved = match from - to {
            0 => bytes,
            right @ 1.. => _mm256_srl_epi16(bytes, _mm_cvtsi32_si128(right)),
            left => _mm256_sll_epi16(bytes, _mm_cvtsi32_si128(-left)),
        };
        _mm256_and_si256(moved, _mm256_set1_epi8(mask))
    }
}

/// 16 in the bytes whose bit of the 32 at `p` is set.
///
/// # Safety
/// AVX2; `p` valid for 4 bytes.
#[inline(always)]
unsafe fn fifths(p: *const u8) -> __m256i {
    // SAFETY: by contract.
    unsafe {
        let bits = _mm256_set1_epi32(p.cast::<i32>().read_unaligned());
        // Each byte eight times, then one of its bits in each.
        let spread =
            _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
        let mask = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
        let set = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(bits, spread), mask), mask);
        _mm256_and_si256(set, _mm256_set1_epi8(16))
    }
}
