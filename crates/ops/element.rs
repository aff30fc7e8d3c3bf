//! Single elements of views, for reference kernels: slow and obvious.

use kernels_core::{DType, F8E4M3, Layout, View, ViewMut, bf16, f16};

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
            DType::F8E4M3 => (*view.as_ptr::<F8E4M3>().add(at)).to_f64(),
            DType::I8 => f64::from(*view.as_ptr::<i8>().add(at)),
            DType::U8 => f64::from(*view.as_ptr::<u8>().add(at)),
            DType::I32 => f64::from(*view.as_ptr::<i32>().add(at)),
            DType::U32 => f64::from(*view.as_ptr::<u32>().add(at)),
            DType::I64 => *view.as_ptr::<i64>().add(at) as f64,
            _ => f64::NAN,
        }
    }
}

/// Writes the element at offset `at`, rounding once, to even between two integers; 8-bit types saturate, and
/// NaN as an integer is 0.
///
/// # Safety
/// As for [`at`].
pub unsafe fn put(view: &ViewMut<'_>, at: usize, value: f64) {
    // SAFETY: by contract the element is inside the view, which owns it.
    unsafe {
        match view.dtype() {
            DType::F32 => view.as_mut_ptr::<f32>().add(at).write(value as f32),
            DType::F16 => view.as_mut_ptr::<f16>().add(at).write(f16::from_f32(to_odd(value))),
            DType::BF16 => view.as_mut_ptr::<bf16>().add(at).write(bf16::from_f32(to_odd(value))),
            DType::F8E4M3 => view.as_mut_ptr::<F8E4M3>().add(at).write(F8E4M3::from_f64(value)),
            DType::I8 => view.as_mut_ptr::<i8>().add(at).write(value.round_ties_even() as i8),
            DType::U8 => view.as_mut_ptr::<u8>().add(at).write(value.round_ties_even() as u8),
            DType::I32 => view.as_mut_ptr::<i32>().add(at).write(value as i32),
            DType::I64 => view.as_mut_ptr::<i64>().add(at).write(value as i64),
            DType::U32 => view.as_mut_ptr::<u32>().add(at).write(value as u32),
            _ => {}
        }
    }
}

/// As f32, rounded to odd where it is not exact: what is rounded to 16 bits from that is rounded once. (`half`'s
/// own conversions from f64 look at its first 32 bits only, and miss ties by that.)
fn to_odd(value: f64) -> f32 {
    let near = value as f32;
    let exact = f64::from(near);
    if exact == value || value.is_nan() || near.is_infinite() || near.to_bits() & 1 == 1 {
        return near;
    }
    // Nearest was even: the other neighbour of the value is odd.
    let away = (exact < value) == (value > 0.0);
    f32::from_bits(if away { near.to_bits() + 1 } else { near.to_bits() - 1 })
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

/// The offsets of each element in layouts of one shape, in row-major order.
pub fn offsets<const N: usize>(layouts: [&Layout; N]) -> impl Iterator<Item = [usize; N]> {
    let (layouts, count) = (layouts.map(|l| *l), layouts[0].elements());
    (0..count).map(move |mut i| {
        let mut at = [0; N];
        for axis in (0..layouts[0].rank()).rev() {
            let dim = layouts[0].shape()[axis];
            let along = i % dim;
            i /= dim;
            at.iter_mut().zip(&layouts).for_each(|(at, l)| *at += along * l.strides()[axis]);
        }
        at
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bits_are_rounded_once_and_ties_to_even() {
        // Between 0x3D5C and 0x3D5D in bf16, a hair above and below the tie, and the tie itself.
        let (low, high) = (f64::from(bf16::from_bits(0x3D5C)), f64::from(bf16::from_bits(0x3D5D)));
        let tie = (low + high) / 2.0;
        for (value, expected) in [(tie, 0x3D5C), (tie * (1.0 + 1e-15), 0x3D5D), (tie * (1.0 - 1e-15), 0x3D5C)]
        {
            assert_eq!(bf16::from_f32(to_odd(value)).to_bits(), expected);
            assert_eq!(bf16::from_f32(to_odd(-value)).to_bits(), expected | 0x8000);
        }
        let (low, high) = (f64::from(f16::from_bits(0x2AE1)), f64::from(f16::from_bits(0x2AE2)));
        let tie = (low + high) / 2.0;
        for (value, expected) in [(tie, 0x2AE2), (tie * (1.0 + 1e-15), 0x2AE2), (tie * (1.0 - 1e-15), 0x2AE1)]
        {
            assert_eq!(f16::from_f32(to_odd(value)).to_bits(), expected);
        }
        assert!(
            to_odd(f64::NAN).is_nan()
                && to_odd(1e300).is_infinite()
                && to_odd(-0.0).to_bits() == (-0.0f32).to_bits()
        );
    }
}
