//! Single elements of views, for reference kernels: slow and obvious.

use kernels_core::{DType, View, ViewMut, bf16, f16};

/// The element at offset `at` (in elements from the first), as f64.
///
/// # Safety
/// The view is on the host, of a plain type, and `at` is the offset of one of its elements.
pub unsafe fn at(view: &View<'_>, at: usize) -> f64 {
    // SAFETY: by contract the element is inside the view.
    unsafe {
        match view.dtype() {
            DType::F32 => f64::from(*view.as_ptr::<f32>().add(at)),
            DType::F16 => f64::from(*view.as_ptr::<f16>().add(at)),
            DType::BF16 => f64::from(*view.as_ptr::<bf16>().add(at)),
            DType::I8 => f64::from(*view.as_ptr::<i8>().add(at)),
            DType::U8 => f64::from(*view.as_ptr::<u8>().add(at)),
            DType::I32 => f64::from(*view.as_ptr::<i32>().add(at)),
            DType::U32 => f64::from(*view.as_ptr::<u32>().add(at)),
            DType::I64 => *view.as_ptr::<i64>().add(at) as f64,
            _ => f64::NAN,
        }
    }
}

/// Writes the element at offset `at`, rounding once.
///
/// # Safety
/// As for [`at`], of a float type or i32.
pub unsafe fn put(view: &ViewMut<'_>, at: usize, value: f64) {
    // SAFETY: by contract the element is inside the view, which owns it.
    unsafe {
        match view.dtype() {
            DType::F32 => view.as_mut_ptr::<f32>().add(at).write(value as f32),
            DType::F16 => view.as_mut_ptr::<f16>().add(at).write(f16::from_f64(value)),
            DType::BF16 => view.as_mut_ptr::<bf16>().add(at).write(bf16::from_f64(value)),
            DType::I32 => view.as_mut_ptr::<i32>().add(at).write(value as i32),
            _ => {}
        }
    }
}

/// Entry `i` of a dense index vector (i32, i64 or u32).
///
/// # Safety
/// The view is on the host, dense, of an index type, and longer than `i`.
#[inline(always)]
pub unsafe fn index(view: &View<'_>, i: usize) -> i64 {
    // SAFETY: by contract.
    unsafe {
        match view.dtype() {
            DType::I64 => *view.as_ptr::<i64>().add(i),
            DType::U32 => i64::from(*view.as_ptr::<u32>().add(i)),
            _ => i64::from(*view.as_ptr::<i32>().add(i)),
        }
    }
}

/// `value` as an index below `limit`, if it is one.
#[inline(always)]
pub fn below(value: i64, limit: usize) -> Option<usize> {
    usize::try_from(value).ok().filter(|v| *v < limit)
}
