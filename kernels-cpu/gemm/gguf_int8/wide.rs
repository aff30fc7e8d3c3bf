//! GGUF blocks as AVX-512 takes them: an octet of groups as four vectors of unsigned bytes.

use super::formats::{Format, OCTET, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
use std::arch::x86_64::*;

/// Vectors of an octet.
pub const VECTORS: usize = 4;

/// Halves of groups, four in each vector.
pub type Order = [usize; 4 * VECTORS];

/// A weight is `(q − CENTRE) · d + m`, with an unsigned byte `q`.
pub trait Wide: Format {
    /// 0 where there are minima.
    const CENTRE: u8 = 0;
    /// The halves of groups (16 weights; the first of group 0, its second, ...) as the vectors have them.
    const ORDER: Order;
    /// The second vector has other halves of the first one's groups, and the fourth of the third one's: their products
    /// are added before scales come in.
    const MERGED: bool = true;

    /// Scales of the eight groups, or of their sixteen halves; and minima.
    ///
    /// # Safety
    /// AVX-512 F, BW, DQ and VL, AVX2 and F16C; `octet` is valid for [`Format::BYTES`].
    unsafe fn wide_scales(octet: *const u8) -> (__m512, __m256);

    /// # Safety
    /// As for [`Wide::wide_scales`].
    unsafe fn vectors(octet: *const u8) -> [__m512i; VECTORS];
}

macro_rules! wide {
    ($name:ident, $centre:literal, $order:expr $(, MERGED = $merged:literal)?; |$s:ident| $scales:expr, |$b:ident| $bytes:expr) => {
        impl Wide for $name {
            const CENTRE: u8 = $centre;
            const ORDER: Order = $order;
            $( const MERGED: bool = $merged; )?
            #[inline(always)]
            unsafe fn wide_scales($s: *const u8) -> (__m512, __m256) {
                // SAFETY: every offset is inside the octet.
                unsafe { $scales }
            }
            #[inline(always)]
            unsafe fn vectors($b: *const u8) -> [__m512i; VECTORS] {
                // SAFETY: every offset is inside the octet.
                unsafe { $bytes }
            }
        }
    };
}

/// The vectors by a function of their places: closures do not inherit target features.
macro_rules! each {
    (|$i:ident| $vector:expr) => {{
        let mut all = [_mm512_setzero_si512(); VECTORS];
        for $i in 0..VECTORS {
            all[$i] = $vector;
        }
        all
    }};
}

/// As they come.
const PLAIN: Order = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
/// The first halves of four groups, and their second ones.
const HALVES: Order = [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15];
/// [`HALVES`] of every second group: two groups share their bytes.
const SHARED: Order = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15];

wide!(Q4_0, 8, HALVES; |s| low(halves::<18, 0>(s)), |b| nibbles::<18>(b.add(2)));
wide!(Q4_1, 0, HALVES; |s| (low(halves::<20, 0>(s)).0, halves::<20, 2>(s)), |b| nibbles::<20>(b.add(4)));
wide!(Q5_0, 16, PLAIN, MERGED = false; |s| low(halves::<22, 0>(s)),
    |b| each!(|i| fifths::<22>(both::<22>(b.add(44 * i + 6)), b.add(44 * i + 2))));
wide!(Q5_1, 0, PLAIN, MERGED = false; |s| (low(halves::<24, 0>(s)).0, halves::<24, 2>(s)),
    |b| each!(|i| fifths::<24>(both::<24>(b.add(48 * i + 8)), b.add(48 * i + 4))));
wide!(Q8_0, 128, HALVES; |s| low(halves::<34, 0>(s)), |b| {
    let group = |i: usize| _mm256_loadu_si256(b.add(34 * i + 2).cast());
    let two = |i: usize| _mm512_inserti64x4::<1>(_mm512_castsi256_si512(group(i)), group(i + 1));
    let ([a, b], [c, d]) = (quarters(two(0), two(2)), quarters(two(4), two(6)));
    let up = _mm512_set1_epi8(-128);
    [_mm512_xor_si512(a, up), _mm512_xor_si512(b, up), _mm512_xor_si512(c, up), _mm512_xor_si512(d, up)]
});
wide!(Q4K, 0, SHARED; |s| six_bits(s), |b| half_bytes(b.add(16)));
wide!(Q5K, 0, SHARED; |s| six_bits(s), |b| {
    let mut all = half_bytes(b.add(48));
    let bits = |at: usize| _mm512_broadcast_i32x4(_mm_loadu_si128(b.add(at).cast()));
    let bits = [bits(16), bits(32)];
    // Bit i of a byte belongs to group i.
    let one = 0x0101_0101;
    let even = _mm512_setr_epi32(
        one, one, one, one, 4 * one, 4 * one, 4 * one, 4 * one,
        16 * one, 16 * one, 16 * one, 16 * one, 64 * one, 64 * one, 64 * one, 64 * one,
    );
    let odd = _mm512_add_epi8(even, even);
    for (i, groups) in [even, even, odd, odd].into_iter().enumerate() {
        let set = _mm512_test_epi8_mask(bits[i % 2], groups);
        all[i] = _mm512_mask_add_epi8(all[i], set, all[i], _mm512_set1_epi8(16));
    }
    all
});
wide!(Q6K, 32, PLAIN, MERGED = false; |s| {
    let d = _mm512_cvtph_ps(_mm256_set1_epi16(s.add(208).cast::<i16>().read_unaligned()));
    let scales = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(s.add(192).cast())));
    (_mm512_mul_ps(d, scales), _mm256_setzero_ps())
}, |b| each!(|i| {
    // Halves of 128; in each, four runs of 32 share 64 low-nibble bytes and 32 bytes of two high bits.
    let (part, late) = (i / 2, i % 2);
    let all = _mm512_loadu_si512(b.add(64 * part).cast());
    let low = if late == 1 { _mm512_srli_epi16::<4>(all) } else { all };
    let low = _mm512_and_si512(low, _mm512_set1_epi8(15));
    // What turning brings over from a neighbour is outside the mask.
    let turns = if late == 1 { [0, 62] } else { [4, 2] };
    let turns = _mm512_inserti64x4::<1>(_mm512_set1_epi64(turns[0]), _mm256_set1_epi64x(turns[1]));
    let high = _mm512_broadcast_i64x4(_mm256_loadu_si256(b.add(128 + 32 * part).cast()));
    let high = _mm512_and_si512(_mm512_rolv_epi64(high, turns), _mm512_set1_epi8(0x30));
    _mm512_or_si512(low, high)
}));

/// # Safety
/// AVX-512 F.
#[inline(always)]
unsafe fn low(d: __m256) -> (__m512, __m256) {
    // SAFETY: by contract.
    unsafe { (_mm512_castps256_ps512(d), _mm256_setzero_ps()) }
}

/// How the f16 at byte `at` of eight blocks of `step` bytes come out of vectors of 64 bytes.
struct Gather {
    vectors: usize,
    /// Where each vector begins.
    from: [usize; 4],
    /// The words of it that are loaded.
    words: [u32; 4],
    /// What a permutation takes at each place: of what was gathered before (below 32), or of the vector.
    take: [[u16; 32]; 4],
}

impl Gather {
    const fn of(step: usize, at: usize) -> Gather {
        let mut all = Gather { vectors: 0, from: [0; 4], words: [0; 4], take: [[0; 32]; 4] };
        let mut i = 0;
        while i < OCTET {
            let (v, from) = (all.vectors, step * i);
            all.from[v] = from;
            let mut before = 0;
            while before < i {
                all.take[v][before] = before as u16;
                before += 1;
            }
            while i < OCTET && step * i + at < from + 64 {
                let word = (step * i + at - from) / 2;
                all.words[v] |= 1 << word;
                all.take[v][i] = 32 + word as u16;
                i += 1;
            }
            all.vectors += 1;
        }
        all
    }
}

struct At<const STEP: usize, const AT: usize>;

impl<const STEP: usize, const AT: usize> At<STEP, AT> {
    const GATHER: Gather = Gather::of(STEP, AT);
}

/// The f16 at byte `AT` of eight blocks of `STEP` bytes.
///
/// # Safety
/// AVX-512 F, BW and VL, and F16C; `p` valid for the blocks.
#[inline(always)]
unsafe fn halves<const STEP: usize, const AT: usize>(p: *const u8) -> __m256 {
    let Gather { vectors, from, words, take } = const { &At::<STEP, AT>::GATHER };
    // SAFETY: by contract; what is loaded is inside the blocks.
    unsafe {
        let mut all = _mm512_setzero_si512();
        for v in 0..*vectors {
            // Loaded whole, the compiler would put the weights' bytes together from these vectors, by many shuffles.
            let vector = _mm512_maskz_loadu_epi16(words[v], p.add(from[v]).cast());
            all = _mm512_permutex2var_epi16(all, _mm512_loadu_si512(take[v].as_ptr().cast()), vector);
        }
        _mm256_cvtph_ps(_mm512_castsi512_si128(all))
    }
}

/// Low nibbles, then high ones, of 16 bytes and of 16 bytes `STEP` on.
///
/// # Safety
/// AVX-512 F and BW; `p` valid for them.
#[inline(always)]
unsafe fn both<const STEP: usize>(p: *const u8) -> __m512i {
    // SAFETY: by contract.
    unsafe {
        let first = _mm512_broadcast_i32x4(_mm_loadu_si128(p.cast()));
        let both = _mm512_mask_broadcast_i32x4(first, 0xFF00, _mm_loadu_si128(p.add(STEP).cast()));
        let shifts = _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4);
        _mm512_and_si512(_mm512_srlv_epi64(both, shifts), _mm512_set1_epi8(15))
    }
}

/// Low nibbles of four times 16 bytes, `STEP` apart, and the high ones; and of the next four.
///
/// # Safety
/// AVX-512 F and BW; `p` valid for them.
#[inline(always)]
unsafe fn nibbles<const STEP: usize>(p: *const u8) -> [__m512i; VECTORS] {
    // SAFETY: by contract.
    unsafe {
        let group = |i: usize| _mm_loadu_si128(p.add(i * STEP).cast());
        let mut all = [_mm512_setzero_si512(); VECTORS];
        for i in [0, 4] {
            let mut four = _mm512_broadcast_i32x4(group(i));
            four = _mm512_mask_broadcast_i32x4(four, 0x00F0, group(i + 1));
            four = _mm512_mask_broadcast_i32x4(four, 0x0F00, group(i + 2));
            four = _mm512_mask_broadcast_i32x4(four, 0xF000, group(i + 3));
            (all[i / 2], all[i / 2 + 1]) = split(four);
        }
        all
    }
}

/// Low nibbles, and high ones.
///
/// # Safety
/// AVX-512 F and BW.
#[inline(always)]
unsafe fn split(bytes: __m512i) -> (__m512i, __m512i) {
    // SAFETY: by contract.
    unsafe {
        let mask = _mm512_set1_epi8(15);
        (_mm512_and_si512(bytes, mask), _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), mask))
    }
}

/// Of eight quarters the first, third... and the others.
///
/// # Safety
/// AVX-512 F.
#[inline(always)]
unsafe fn quarters(a: __m512i, b: __m512i) -> [__m512i; 2] {
    // SAFETY: by contract.
    unsafe { [_mm512_shuffle_i64x2::<0x88>(a, b), _mm512_shuffle_i64x2::<0xDD>(a, b)] }
}

/// `low`, and 16 where a bit is set of the 32 at `p` and the 32 `STEP` on.
///
/// # Safety
/// AVX-512 F and BW; `p` valid for them.
#[inline(always)]
unsafe fn fifths<const STEP: usize>(low: __m512i, p: *const u8) -> __m512i {
    // SAFETY: by contract.
    unsafe {
        let bits = |at: usize| u64::from(p.add(at).cast::<u32>().read_unaligned());
        _mm512_mask_add_epi8(low, bits(0) | bits(STEP) << 32, low, _mm512_set1_epi8(16))
    }
}

/// Low nibbles of the even quarters of 128 bytes, of the odd ones, and high nibbles likewise.
///
/// # Safety
/// AVX-512 F and BW; `p` valid for them.
#[inline(always)]
unsafe fn half_bytes(p: *const u8) -> [__m512i; VECTORS] {
    // SAFETY: by contract.
    unsafe {
        let [even, odd] = quarters(_mm512_loadu_si512(p.cast()), _mm512_loadu_si512(p.add(64).cast()));
        let ((a, c), (b, d)) = (split(even), split(odd));
        [a, b, c, d]
    }
}

/// Scales and minima of Q4_K and Q5_K: eight pairs of six bits in 12 bytes, after their f16 units.
///
/// # Safety
/// AVX-512 F, BW, DQ and VL, and F16C; `b` valid for 16 bytes.
#[inline(always)]
unsafe fn six_bits(b: *const u8) -> (__m512, __m256) {
    // SAFETY: by contract.
    unsafe {
        let all = _mm_loadu_si128(b.cast());
        // Words: the first four scales, minima, and lower four bits of the other four of each (scales in low nibbles),
        // whose upper two bits lie above the first four's.
        let (first, second, third, none) = (0x0706_0504, 0x0B0A_0908, 0x0F0E_0D0C, -1);
        let lower = _mm_shuffle_epi8(all, _mm_setr_epi32(first, third, second, third));
        let lower = _mm_srlv_epi32(lower, _mm_setr_epi32(0, 0, 0, 4));
        let (six, four) = (0x3F3F_3F3F, 0x0F0F_0F0F);
        let lower = _mm_and_si128(lower, _mm_setr_epi32(six, four, six, four));
        let upper = _mm_srli_epi32::<2>(_mm_shuffle_epi8(all, _mm_setr_epi32(none, first, none, second)));
        let upper = _mm_and_si128(upper, _mm_setr_epi32(0, 0x3030_3030, 0, 0x3030_3030));
        let numbers = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_or_si128(lower, upper)));
        // The unit of minima counts negative.
        let units = _mm_xor_ps(_mm_cvtph_ps(all), _mm_setr_ps(0.0, -0.0, 0.0, 0.0));
        let places = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
        let d = _mm512_mul_ps(numbers, _mm512_permutexvar_ps(places, _mm512_castps128_ps512(units)));
        (d, _mm512_extractf32x8_ps::<1>(d))
    }
}
