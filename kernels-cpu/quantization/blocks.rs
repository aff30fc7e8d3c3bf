//! GGUF blocks as vectors of f32. What the formats mean is in `kernels_ops::quantization::blocks`.
//!
//! The values are `(q - offset) · scale + min`. Products of scale and integer are exact in f32 (in Q6_K
//! rounded), and the minimum's addition rounds once: the result is the exact value, rounded once.

use crate::isa::Isa;
use kernels_core::DType;

/// What becomes of a block's vectors. A trait and not a closure: closures do not inherit target features.
pub trait Sink<S: Isa> {
    /// Elements `at..at + W` of the block.
    ///
    /// # Safety
    /// `S`'s features; the sink has room for the block.
    unsafe fn put(&mut self, at: usize, v: S::V);
}

/// The values of one block. Nothing comes of a plain type.
///
/// # Safety
/// `S`'s features; `b` holds `dtype.block_bytes()` bytes, and the sink has room for the block.
#[inline(always)]
pub unsafe fn dequantize<S: Isa, K: Sink<S>>(dtype: DType, b: &[u8], sink: &mut K) {
    // SAFETY: passed on.
    unsafe {
        match dtype {
            DType::Q4_0 => nibble_block::<S, K>(&b[2..18], 8.0, scale::<S>(b, 0), 0.0, sink),
            DType::Q4_1 => nibble_block::<S, K>(&b[4..20], 0.0, scale::<S>(b, 0), scale::<S>(b, 2), sink),
            DType::Q5_0 => fives::<S, K>(&b[2..22], 16.0, scale::<S>(b, 0), 0.0, sink),
            DType::Q5_1 => fives::<S, K>(&b[4..24], 0.0, scale::<S>(b, 0), scale::<S>(b, 2), sink),
            DType::Q8_0 => q8_0::<S, K>(b, sink),
            DType::Q4K => q4_k::<S, K>(b, sink),
            DType::Q5K => q5_k::<S, K>(b, sink),
            DType::Q6K => q6_k::<S, K>(b, sink),
            _ => {}
        }
    }
}

/// `(q - offset) · scale + min` of `N` bytes, a multiple of 16, as elements from `at` on.
///
/// # Safety
/// As for [`dequantize`].
#[inline(always)]
unsafe fn affine<S: Isa, K: Sink<S>, const N: usize>(
    q: &[u8; N],
    offset: f32,
    scale: f32,
    min: f32,
    at: usize,
    sink: &mut K,
) {
    // SAFETY: every offset is below N.
    unsafe {
        let (o, d, m) = (S::splat(offset), S::splat(scale), S::splat(min));
        let mut i = 0;
        while i < N {
            sink.put(at + i, S::fma(S::sub(S::load_u8(q.as_ptr().add(i)), o), d, m));
            i += S::W;
        }
    }
}

/// 16 bytes: elements 0 to 15 in low nibbles, 16 to 31 in high ones.
///
/// # Safety
/// As for [`dequantize`].
#[inline(always)]
unsafe fn nibble_block<S: Isa, K: Sink<S>>(q: &[u8], offset: f32, scale: f32, min: f32, sink: &mut K) {
    // SAFETY: every offset is below 16.
    unsafe {
        let (o, d, m) = (S::splat(offset), S::splat(scale), S::splat(min));
        let mut i = 0;
        while i < 16 {
            let (low, high) = S::nibbles(q[i..].as_ptr());
            sink.put(i, S::fma(S::sub(low, o), d, m));
            sink.put(16 + i, S::fma(S::sub(high, o), d, m));
            i += S::W;
        }
    }
}

/// # Safety
/// `S`'s features.
#[inline(always)]
unsafe fn scale<S: Isa>(block: &[u8], at: usize) -> f32 {
    // SAFETY: passed on.
    unsafe { S::half(u16::from_le_bytes([block[at], block[at + 1]])) }
}

/// 4 bytes of fifth bits, one for each element in order, and 16 of nibbles as in [`nibble_block`].
///
/// # Safety
/// As for [`dequantize`].
#[inline(always)]
unsafe fn fives<S: Isa, K: Sink<S>>(b: &[u8], offset: f32, scale: f32, min: f32, sink: &mut K) {
    let (fifth, q) = (u32::from_le_bytes([b[0], b[1], b[2], b[3]]), &b[4..20]);
    // SAFETY: every offset is below 16.
    unsafe {
        let (o, d, m) = (S::splat(offset), S::splat(scale), S::splat(min));
        let mut i = 0;
        while i < 16 {
            let (low, high) = S::nibbles(q[i..].as_ptr());
            let (low, high) =
                (S::add_where(low, fifth >> i, 16.0), S::add_where(high, fifth >> (16 + i), 16.0));
            sink.put(i, S::fma(S::sub(low, o), d, m));
            sink.put(16 + i, S::fma(S::sub(high, o), d, m));
            i += S::W;
        }
    }
}

/// # Safety
/// As for [`dequantize`].
#[inline(always)]
unsafe fn q8_0<S: Isa, K: Sink<S>>(b: &[u8], sink: &mut K) {
    // SAFETY: every offset is below 32.
    unsafe {
        let (q, d, mut i) = (b[2..34].as_ptr().cast::<i8>(), S::splat(scale::<S>(b, 0)), 0);
        while i < 32 {
            sink.put(i, S::mul(S::load_i8(q.add(i)), d));
            i += S::W;
        }
    }
}

/// Scale and minimum of group `j` of 8, six bits each, packed in 12 bytes.
#[inline(always)]
fn scale_min(s: &[u8], j: usize) -> (f32, f32) {
    let (sc, m) = if j < 4 {
        (s[j] & 63, s[j + 4] & 63)
    } else {
        ((s[j + 4] & 15) | (s[j - 4] >> 6) << 4, (s[j + 4] >> 4) | (s[j] >> 6) << 4)
    };
    (f32::from(sc), f32::from(m))
}

/// Groups of 32; each two share 32 bytes, the even one in low nibbles.
///
/// # Safety
/// As for [`dequantize`].
#[inline(always)]
unsafe fn q4_k<S: Isa, K: Sink<S>>(b: &[u8], sink: &mut K) {
    // SAFETY: every offset is below 32.
    unsafe {
        let (d, dmin, s) = (scale::<S>(b, 0), scale::<S>(b, 2), &b[4..16]);
        for j in 0..4 {
            let q = &b[16 + 32 * j..48 + 32 * j];
            let ((s1, m1), (s2, m2)) = (scale_min(s, 2 * j), scale_min(s, 2 * j + 1));
            let (d1, d2) = (S::splat(d * s1), S::splat(d * s2));
            let (m1, m2) = (S::splat(-(dmin * m1)), S::splat(-(dmin * m2)));
            let mut i = 0;
            while i < 32 {
                let (low, high) = S::nibbles(q[i..].as_ptr());
                sink.put(64 * j + i, S::fma(low, d1, m1));
                sink.put(64 * j + 32 + i, S::fma(high, d2, m2));
                i += S::W;
            }
        }
    }
}

/// As Q4_K, with a fifth bit of each element in 32 bytes, a bit a group.
///
/// # Safety
/// As for [`dequantize`].
#[inline(always)]
unsafe fn q5_k<S: Isa, K: Sink<S>>(b: &[u8], sink: &mut K) {
    // SAFETY: passed on.
    unsafe {
        let (d, dmin, s, high) = (scale::<S>(b, 0), scale::<S>(b, 2), &b[4..16], &b[16..48]);
        for j in 0..8 {
            let (q, mut bytes) = (&b[48 + j / 2 * 32..80 + j / 2 * 32], [0; 32]);
            let shift = j % 2 * 4;
            for i in 0..32 {
                bytes[i] = (q[i] >> shift & 15) | (high[i] >> j & 1) << 4;
            }
            let (scale, min) = scale_min(s, j);
            affine::<S, K, 32>(&bytes, 0.0, d * scale, -(dmin * min), 32 * j, sink);
        }
    }
}

/// Halves of 128; in each, four runs of 32 share 64 low-nibble bytes and 32 high-bit bytes; a scale for 16.
///
/// # Safety
/// As for [`dequantize`].
#[inline(always)]
unsafe fn q6_k<S: Isa, K: Sink<S>>(b: &[u8], sink: &mut K) {
    // SAFETY: passed on.
    unsafe {
        let d = scale::<S>(b, 208);
        for run in 0..8 {
            let (part, run) = (run / 4, run % 4);
            let low = &b[64 * part + 32 * (run % 2)..64 * part + 32 * (run % 2) + 32];
            let high = &b[128 + 32 * part..160 + 32 * part];
            let (low_shift, high_shift) = (run / 2 * 4, 2 * run);
            let mut bytes = [0; 32];
            for i in 0..32 {
                bytes[i] = (low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4;
            }
            for (k, bytes) in bytes.as_chunks::<16>().0.iter().enumerate() {
                let scale = d * f32::from(b[192 + 8 * part + 2 * run + k] as i8);
                affine::<S, K, 16>(bytes, 32.0, scale, 0.0, 128 * part + 32 * run + 16 * k, sink);
            }
        }
    }
}
