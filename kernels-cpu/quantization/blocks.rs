//! GGUF blocks to f32, a block at a time: plain loops that the compiler vectorises inside a function with
//! the right target features. What the formats mean is in `kernels_ops::quantization::blocks`.

use kernels_core::DType;

/// The values of one block. Products of scale and integer are exact in f32 (in Q6_K rounded), and the
/// minimum's addition rounds once: the result is the exact value, rounded once.
///
/// `block` holds `dtype.block_bytes()` bytes, `out` takes `dtype.block_len()` values. Nothing is written for
/// a plain type.
#[inline(always)]
pub fn dequantize(dtype: DType, block: &[u8], out: &mut [f32]) {
    match dtype {
        DType::Q4_0 => q4_0(block, out),
        DType::Q4_1 => q4_1(block, out),
        DType::Q5_0 => q5_0(block, out),
        DType::Q5_1 => q5_1(block, out),
        DType::Q8_0 => q8_0(block, out),
        DType::Q4K => q4_k(block, out),
        DType::Q5K => q5_k(block, out),
        DType::Q6K => q6_k(block, out),
        _ => {}
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

#[inline(always)]
fn q4_0(b: &[u8], out: &mut [f32]) {
    let (d, q, out) = (scale(b, 0), &b[2..18], &mut out[..32]);
    for i in 0..16 {
        out[i] = (i32::from(q[i] & 15) - 8) as f32 * d;
        out[i + 16] = (i32::from(q[i] >> 4) - 8) as f32 * d;
    }
}

#[inline(always)]
fn q4_1(b: &[u8], out: &mut [f32]) {
    let (d, m, q, out) = (scale(b, 0), scale(b, 2), &b[4..20], &mut out[..32]);
    for i in 0..16 {
        out[i] = i32::from(q[i] & 15) as f32 * d + m;
        out[i + 16] = i32::from(q[i] >> 4) as f32 * d + m;
    }
}

#[inline(always)]
fn high_bits(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

#[inline(always)]
fn q5_0(b: &[u8], out: &mut [f32]) {
    let (d, h, q, out) = (scale(b, 0), high_bits(b, 2), &b[6..22], &mut out[..32]);
    for i in 0..16 {
        let (low, high) = ((h >> i & 1) << 4, (h >> (i + 16) & 1) << 4);
        out[i] = ((u32::from(q[i] & 15) | low) as i32 - 16) as f32 * d;
        out[i + 16] = ((u32::from(q[i] >> 4) | high) as i32 - 16) as f32 * d;
    }
}

#[inline(always)]
fn q5_1(b: &[u8], out: &mut [f32]) {
    let (d, m, h, q, out) = (scale(b, 0), scale(b, 2), high_bits(b, 4), &b[8..24], &mut out[..32]);
    for i in 0..16 {
        let (low, high) = ((h >> i & 1) << 4, (h >> (i + 16) & 1) << 4);
        out[i] = (u32::from(q[i] & 15) | low) as i32 as f32 * d + m;
        out[i + 16] = (u32::from(q[i] >> 4) | high) as i32 as f32 * d + m;
    }
}

#[inline(always)]
fn q8_0(b: &[u8], out: &mut [f32]) {
    let (d, q, out) = (scale(b, 0), &b[2..34], &mut out[..32]);
    for i in 0..32 {
        out[i] = i32::from(q[i] as i8) as f32 * d;
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

#[inline(always)]
fn q4_k(b: &[u8], out: &mut [f32]) {
    let (d, dmin, s) = (scale(b, 0), scale(b, 2), &b[4..16]);
    for j in 0..4 {
        let (q, out) = (&b[16 + 32 * j..48 + 32 * j], &mut out[64 * j..64 * j + 64]);
        let ((s1, m1), (s2, m2)) = (scale_min(s, 2 * j), scale_min(s, 2 * j + 1));
        let (d1, m1, d2, m2) = (d * s1, dmin * m1, d * s2, dmin * m2);
        for i in 0..32 {
            out[i] = d1 * i32::from(q[i] & 15) as f32 - m1;
            out[i + 32] = d2 * i32::from(q[i] >> 4) as f32 - m2;
        }
    }
}

#[inline(always)]
fn q5_k(b: &[u8], out: &mut [f32]) {
    let (d, dmin, s, h) = (scale(b, 0), scale(b, 2), &b[4..16], &b[16..48]);
    for j in 0..4 {
        let (q, out) = (&b[48 + 32 * j..80 + 32 * j], &mut out[64 * j..64 * j + 64]);
        let ((s1, m1), (s2, m2)) = (scale_min(s, 2 * j), scale_min(s, 2 * j + 1));
        let (d1, m1, d2, m2) = (d * s1, dmin * m1, d * s2, dmin * m2);
        for i in 0..32 {
            let (low, high) = ((h[i] >> (2 * j) & 1) << 4, (h[i] >> (2 * j + 1) & 1) << 4);
            out[i] = d1 * i32::from((q[i] & 15) | low) as f32 - m1;
            out[i + 32] = d2 * i32::from((q[i] >> 4) | high) as f32 - m2;
        }
    }
}

#[inline(always)]
fn q6_k(b: &[u8], out: &mut [f32]) {
    let d = scale(b, 208);
    for half in 0..2 {
        let (low, high) = (&b[64 * half..64 * half + 64], &b[128 + 32 * half..160 + 32 * half]);
        let (s, out) = (&b[192 + 8 * half..200 + 8 * half], &mut out[128 * half..128 * half + 128]);
        for group in 0..2 {
            let scales = [0, 2, 4, 6].map(|k| d * f32::from(s[group + k] as i8));
            for i in 16 * group..16 * group + 16 {
                let (l, h) = ((low[i], low[i + 32]), high[i]);
                let q = [
                    (l.0 & 15) | (h & 3) << 4,
                    (l.1 & 15) | (h >> 2 & 3) << 4,
                    (l.0 >> 4) | (h >> 4 & 3) << 4,
                    (l.1 >> 4) | (h >> 6) << 4,
                ];
                for k in 0..4 {
                    out[i + 32 * k] = scales[k] * (i32::from(q[k]) - 32) as f32;
                }
            }
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
