//! Rows of a float or GGUF matrix as f32, or stored in another float type.

use super::blocks::{Sink, dequantize};
use crate::isa::{Elem, Isa, load_tail, store_tail};
use crate::variants::with_float;
use kernels_core::DType;

/// Calls `$body` with `$format` as the constant of a quantised dtype, so that each is compiled for its own.
macro_rules! with_blocks {
    ($dtype:expr, $format:ident => $body:expr) => {
        $crate::quantization::rows::with_blocks!(@ $dtype, $format => $body; Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4K Q5K Q6K)
    };
    (@ $dtype:expr, $format:ident => $body:expr; $($name:ident)*) => {
        match $dtype {
            $( ::kernels_core::DType::$name => {
                const $format: ::kernels_core::DType = ::kernels_core::DType::$name;
                $body
            } )*
            _ => {}
        }
    };
}
pub(crate) use with_blocks;

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
    // SAFETY: passed on; a block's values have their place in the row.
    with_blocks!(dtype, FORMAT => unsafe {
        for i in 0..cols / FORMAT.block_len() {
            let mut store = Store(out.add(i * FORMAT.block_len()));
            dequantize::<S, Store<T>>(FORMAT, block(FORMAT, source, i), &mut store);
        }
    })
}

/// Block `i` of a row.
///
/// # Safety
/// `source` valid for the block.
#[inline(always)]
pub unsafe fn block<'a>(dtype: DType, source: *const u8, i: usize) -> &'a [u8] {
    // SAFETY: passed on.
    unsafe { std::slice::from_raw_parts(source.add(i * dtype.block_bytes()), dtype.block_bytes()) }
}

struct Store<T>(*mut T);

impl<S: Isa, T: Elem> Sink<S> for Store<T> {
    #[inline(always)]
    unsafe fn put(&mut self, at: usize, v: S::V) {
        // SAFETY: passed on.
        unsafe { T::store::<S>(self.0.add(at), v) }
    }
}

/// `n` elements from one float type to another, or the same.
///
/// # Safety
/// `S`'s features; pointers valid for `n` elements, which are not the same memory.
#[inline(always)]
pub unsafe fn convert<S: Isa, A: Elem, B: Elem>(from: *const A, to: *mut B, n: usize) {
    // SAFETY: every offset is below n; of the same type, a number is as large.
    unsafe {
        if A::DTYPE == B::DTYPE {
            return to.copy_from_nonoverlapping(from.cast(), n);
        }
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
