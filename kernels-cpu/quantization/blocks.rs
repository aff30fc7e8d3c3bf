//! GGUF blocks to f32, a block at a time. What the formats mean is in `kernels_ops::quantization::blocks`.
//!
//! Each group of a block becomes bytes 0 to 255 (plain loops over bytes, which the compiler vectorises), and
//! those become `(q - offset) · scale + min`. Products of scale and integer are exact in f32 (in Q6_K rounded),
//! and the minimum's addition rounds once: the result is the exact value, rounded once.

use crate::isa::Isa;
use kernels_core::DType;

/// The values of one block into `out`, which takes `dtype.block_len()` values. Nothing is written for a plain
/// type.
///
/// # Safety
/// `S`'s features; `b` holds `dtype.block_bytes()` bytes, and `out` is valid for the values.
#[inline(always)]
pub unsafe fn dequantize<S: Isa>(dtype: DType, b: &[u8], out: *mut f32) {
    // SAFETY: passed on.
    unsafe {
        match dtype {
            DType::Q4_0 => affine::<S, 32>(&nibbles(b, 2), 8.0, scale(b, 0), 0.0, out),
            DType::Q4_1 => affine::<S, 32>(&nibbles(b, 4), 0.0, scale(b, 0), scale(b, 2), out),
            DType::Q5_0 => affine::<S, 32>(&fives(b, 2), 16.0, scale(b, 0), 0.0, out),
            DType::Q5_1 => affine::<S, 32>(&fives(b, 4), 0.0, scale(b, 0), scale(b, 2), out),
            DType::Q8_0 => q8_0::<S>(b, out),
            DType::Q4K => k_groups::<S>(b, &b[16..144], None, out),
            DType::Q5K => k_groups::<S>(b, &b[48..176], Some(&b[16..48]), out),
            DType::Q6K => q6_k::<S>(b, out),
            _ => {}
        }
    }
}

/// `(q - offset) · scale + min` of `N` bytes, a multiple of 16.
///
/// # Safety
/// `S`'s features; `out` valid for `N` values.
#[inline(always)]
unsafe fn affine<S: Isa, const N: usize>(q: &[u8; N], offset: f32, scale: f32, min: f32, out: *mut f32) {
    // SAFETY: every offset is below N.
    unsafe {
        let (o, d, m) = (S::splat(offset), S::splat(scale), S::splat(min));
        let mut i = 0;
        while i < N {
            S::store_f32(out.add(i), S::fma(S::sub(S::load_u8(q.as_ptr().add(i)), o), d, m));
            i += S::W;
        }
    }
}

#[inline(always)]
fn scale(block: &[u8], at: usize) -> f32 {
    half_to_f32(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// f16 to f32 by integer arithmetic: `half` detects hardware at each call, which costs more than this.
#[inline(always)]
fn half_to_f32(bits: u16) -> f32 {
    let bits = u32::from(bits);
    let (sign, rest) = ((bits & 0x8000) << 16, bits & 0x7FFF);
    // Shift exponent and mantissa into place; the multiplication moves the bias and makes subnormals right.
    let magnitude = match rest >= 0x7C00 {
        true => f32::from_bits(0x7F80_0000 | (rest & 0x3FF) << 13),
        false => f32::from_bits(rest << 13) * f32::from_bits((254 - 15) << 23),
    };
    f32::from_bits(sign | magnitude.to_bits())
}

/// 16 bytes as their low nibbles, then their high ones.
#[inline(always)]
fn nibbles(b: &[u8], at: usize) -> [u8; 32] {
    let (q, mut out) = (&b[at..at + 16], [0; 32]);
    for i in 0..16 {
        out[i] = q[i] & 15;
    }
    for i in 0..16 {
        out[16 + i] = q[i] >> 4;
    }
    out
}

/// 4 bytes of fifth bits, then 16 of nibbles.
#[inline(always)]
fn fives(b: &[u8], at: usize) -> [u8; 32] {
    let mut out = nibbles(b, at + 4);
    for k in 0..4 {
        // Eight bits to eight bytes: copy the byte, keep one bit in each, carry it to the top, and down to 1.
        let spread = u64::from(b[at + k]).wrapping_mul(0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
        let ones = ((spread + 0x7F7F_7F7F_7F7F_7F7F) >> 7) & 0x0101_0101_0101_0101;
        let fifth = (ones << 4).to_le_bytes();
        for i in 0..8 {
            out[8 * k + i] |= fifth[i];
        }
    }
    out
}

/// # Safety
/// As for [`dequantize`].
#[inline(always)]
unsafe fn q8_0<S: Isa>(b: &[u8], out: *mut f32) {
    let (q, mut bytes) = (&b[2..34], [0; 32]);
    for i in 0..32 {
        bytes[i] = q[i] ^ 0x80;
    }
    // SAFETY: passed on.
    unsafe { affine::<S, 32>(&bytes, 128.0, scale(b, 0), 0.0, out) }
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

/// Q4_K, and Q5_K with its high bits: groups of 32, each two of which share 32 nibble bytes.
///
/// # Safety
/// As for [`dequantize`].
#[inline(always)]
unsafe fn k_groups<S: Isa>(b: &[u8], nibbles: &[u8], high: Option<&[u8]>, out: *mut f32) {
    let (d, dmin, s) = (scale(b, 0), scale(b, 2), &b[4..16]);
    for j in 0..8 {
        let (q, mut bytes) = (&nibbles[j / 2 * 32..j / 2 * 32 + 32], [0; 32]);
        let shift = j % 2 * 4;
        for i in 0..32 {
            bytes[i] = q[i] >> shift & 15;
        }
        if let Some(high) = high {
            let high = &high[..32];
            for i in 0..32 {
                bytes[i] |= (high[i] >> j & 1) << 4;
            }
        }
        let (scale, min) = scale_min(s, j);
        // SAFETY: group j is inside the block.
        unsafe { affine::<S, 32>(&bytes, 0.0, d * scale, -(dmin * min), out.add(32 * j)) };
    }
}

/// Halves of 128; in each, four runs of 32 share 64 low-nibble bytes and 32 high-bit bytes; a scale for 16.
///
/// # Safety
/// As for [`dequantize`].
#[inline(always)]
unsafe fn q6_k<S: Isa>(b: &[u8], out: *mut f32) {
    let d = scale(b, 208);
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
            // SAFETY: the run is inside the block.
            unsafe { affine::<S, 16>(bytes, 32.0, scale, 0.0, out.add(128 * part + 32 * run + 16 * k)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels_core::f16;

    #[test]
    fn half_to_f32_is_exact_for_every_value() {
        for bits in 0..=u16::MAX {
            let (got, expected) = (half_to_f32(bits), f16::from_bits(bits).to_f32());
            assert!(got == expected || (got.is_nan() && expected.is_nan()), "{bits:#06x}: {got} {expected}");
        }
    }
}
