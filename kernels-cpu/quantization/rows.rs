//! Rows of a float or GGUF matrix as f32, or stored in another float type.

use super::blocks::dequantize;
use crate::isa::{Elem, Isa, load_tail, store_tail};
use crate::variants::with_float;
use kernels_core::{DType, Element};

/// The longest block.
const LONGEST: usize = 256;

/// `cols` elements from `source`, whole blocks, to `out`.
///
/// # Safety
/// `S`'s features; `source` valid for the blocks, `out` for `cols` elements.
#[inline(always)]
pub unsafe fn expand<S: Isa, T: Elem>(dtype: DType, source: *const u8, cols: usize, out: *mut T) {
    if !dtype.is_quantised() {
        // SAFETY: passed on.
        return with_float!(dtype, W => unsafe { convert::<S, W, T>(source.cast(), out, cols) });
    }
    // One arm a format, so that each loop is compiled for its own.
    macro_rules! each {
        ($($format:ident),*) => {
            match dtype { $( DType::$format => unsafe { all::<S, T>(DType::$format, source, cols, out) }, )* _ => {} }
        };
    }
    // SAFETY: passed on.
    each!(Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4K, Q5K, Q6K)
}

/// # Safety
/// As for [`expand`], of a quantised type.
#[inline(always)]
unsafe fn all<S: Isa, T: Elem>(dtype: DType, source: *const u8, cols: usize, out: *mut T) {
    let (len, bytes) = (dtype.block_len(), dtype.block_bytes());
    for i in 0..cols / len {
        // SAFETY: block i is inside the row, and so are its values.
        unsafe {
            let block = std::slice::from_raw_parts(source.add(i * bytes), bytes);
            if <T as Element>::DTYPE == DType::F32 {
                dequantize::<S>(dtype, block, out.add(i * len).cast());
                continue;
            }
            let mut values = [0f32; LONGEST];
            dequantize::<S>(dtype, block, values.as_mut_ptr());
            convert::<S, f32, T>(values.as_ptr(), out.add(i * len), len);
        }
    }
}

/// `n` elements from one float type to another.
///
/// # Safety
/// `S`'s features; pointers valid for `n` elements.
#[inline(always)]
pub unsafe fn convert<S: Isa, A: Elem, B: Elem>(from: *const A, to: *mut B, n: usize) {
    // SAFETY: every offset is below n.
    unsafe {
        let mut i = 0;
        while i + S::W <= n {
            B::store::<S>(to.add(i), A::load::<S>(from.add(i)));
            i += S::W;
        }
        if i < n {
            store_tail::<S, B>(to.add(i), load_tail::<S, A>(from.add(i), n - i, 0.0), n - i);
        }
    }
}

/// Bytes from one row to the next, for a stride in elements.
pub fn row_bytes(dtype: DType, stride: usize) -> usize {
    stride / dtype.block_len() * dtype.block_bytes()
}
