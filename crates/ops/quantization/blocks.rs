//! The GGUF block formats, one element at a time: what the formats mean, in f64.
//!
//! Formats as ggml defines them (ggml-common.h, `dequantize_row_*`). Blocks of 32: Q4_0 (d, 16 nibble bytes),
//! Q4_1 (d, m, 16), Q5_0 (d, 4 high-bit bytes, 16), Q5_1 (d, m, 4, 16), Q8_0 (d, 32 i8). Blocks of 256: Q4_K
//! and Q5_K (d, dmin, 12 bytes of 6-bit scales and minima, [32 high-bit bytes,] 128 nibble bytes), Q6_K (128
//! low-nibble bytes, 64 high-bit bytes, 16 i8 scales, d).

use kernels_core::{DType, View, bf16, f16};

/// Byte offsets of a block's f16 scales.
pub fn scale_offsets(dtype: DType) -> &'static [usize] {
    match dtype {
        DType::Q4_0 | DType::Q5_0 | DType::Q8_0 => &[0],
        DType::Q4_1 | DType::Q5_1 | DType::Q4K | DType::Q5K => &[0, 2],
        DType::Q6K => &[208],
        _ => &[],
    }
}

/// Element `i` of a block (of a plain float type: of one element).
pub fn value(dtype: DType, b: &[u8], i: usize) -> f64 {
    let half = |at: usize| f64::from(f16::from_le_bytes([b[at], b[at + 1]]));
    // Blocks of 32 keep elements 0..16 in low nibbles and 16..32 in high ones.
    let nibble = |at: usize| if i < 16 { b[at + i] & 15 } else { b[at + i - 16] >> 4 };
    let fifth = |at: usize| (b[at + i / 8] >> (i % 8) & 1) << 4;
    match dtype {
        DType::F32 => f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
        DType::F16 => half(0),
        DType::BF16 => f64::from(bf16::from_le_bytes([b[0], b[1]])),
        DType::Q4_0 => (f64::from(nibble(2)) - 8.0) * half(0),
        DType::Q4_1 => f64::from(nibble(4)) * half(0) + half(2),
        DType::Q5_0 => (f64::from(nibble(6) | fifth(2)) - 16.0) * half(0),
        DType::Q5_1 => f64::from(nibble(8) | fifth(4)) * half(0) + half(2),
        DType::Q8_0 => f64::from(b[2 + i] as i8) * half(0),
        DType::Q4K | DType::Q5K => {
            // Groups of 32; each two share 32 bytes, the even one in low nibbles.
            let (group, j) = (i / 32, i % 32);
            let (scale, min) = scale_and_min(&b[4..16], group);
            let (nibbles, high) =
                if dtype == DType::Q4K { (&b[16..], 0) } else { (&b[48..], b[16 + j] >> group & 1) };
            let byte = nibbles[group / 2 * 32 + j];
            let q = (if group % 2 == 0 { byte & 15 } else { byte >> 4 }) | high << 4;
            half(0) * scale * f64::from(q) - half(2) * min
        }
        DType::Q6K => {
            // Halves of 128; in each, four runs of 32 share 64 low-nibble bytes and 32 high-bit bytes.
            let (part, run, j) = (i / 128, i % 128 / 32, i % 32);
            let low = b[64 * part + 32 * (run % 2) + j];
            let low = if run < 2 { low & 15 } else { low >> 4 };
            let high = b[128 + 32 * part + j] >> (2 * run) & 3;
            let scale = f64::from(b[192 + 8 * part + 2 * run + j / 16] as i8);
            half(208) * scale * (f64::from(low | high << 4) - 32.0)
        }
        _ => f64::NAN,
    }
}

/// Scale and minimum of group `j` of 8, six bits each in 12 bytes: the first four whole, the others with
/// their top two bits above those.
fn scale_and_min(s: &[u8], j: usize) -> (f64, f64) {
    let (scale, min) = if j < 4 {
        (s[j] & 63, s[j + 4] & 63)
    } else {
        (s[j + 4] & 15 | (s[j - 4] >> 6) << 4, s[j + 4] >> 4 | (s[j] >> 6) << 4)
    };
    (f64::from(scale), f64::from(min))
}

/// Element `(row, col)` of a matrix of any float or GGUF type.
///
/// # Safety
/// The view is on the host, has whole blocks in rows of `stride` elements, and the element is inside it.
pub unsafe fn element(view: &View<'_>, stride: usize, row: usize, col: usize) -> f64 {
    let (dtype, len, bytes) = (view.dtype(), view.dtype().block_len(), view.dtype().block_bytes());
    // SAFETY: by contract the block is inside the view.
    let block = unsafe {
        std::slice::from_raw_parts(view.as_ptr::<u8>().add((row * stride + col) / len * bytes), bytes)
    };
    value(dtype, block, col % len)
}
