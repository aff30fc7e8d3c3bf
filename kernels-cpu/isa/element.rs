//! Element types as vectors of f32.

use super::Isa;
use kernels_core::{Element, F8E4M3, bf16, f16};

/// An element that kernels load to f32 and store with one rounding.
///
/// # Safety of all methods
/// As for [`Isa`].
#[allow(clippy::missing_safety_doc)]
pub trait Elem: Element {
    unsafe fn load<S: Isa>(p: *const Self) -> S::V;
    unsafe fn store<S: Isa>(p: *mut Self, v: S::V);
    fn to_f32(self) -> f32;
    fn from_f32(x: f32) -> Self;
}

macro_rules! elem {
    ($t:ty, $load:ident, $store:ident, |$x:ident| $to:expr, |$y:ident| $from:expr) => {
        impl Elem for $t {
            #[inline(always)]
            unsafe fn load<S: Isa>(p: *const Self) -> S::V {
                // SAFETY: passed on.
                unsafe { S::$load(p.cast()) }
            }
            #[inline(always)]
            unsafe fn store<S: Isa>(p: *mut Self, v: S::V) {
                // SAFETY: passed on.
                unsafe { S::$store(p.cast(), v) }
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                let $x = self;
                $to
            }
            #[inline(always)]
            fn from_f32($y: f32) -> Self {
                $from
            }
        }
    };
}
elem!(f32, load_f32, store_f32, |x| x, |y| y);
elem!(f16, load_f16, store_f16, |x| x.to_f32(), |y| f16::from_f32(y));
elem!(i8, load_i8, store_i8, |x| f32::from(x), |y| y.round_ties_even() as i8);
elem!(F8E4M3, load_f8, store_f8, |x| F8E4M3::to_f32(&x), |y| F8E4M3::from_f32(y));
elem!(bf16, load_bf16, store_bf16, |x| x.to_f32(), |y| bf16::from_f32(y));

/// The first `n < W` lanes from memory, the others `fill`.
///
/// # Safety
/// As for [`Isa`], for `n` elements.
#[inline(always)]
pub unsafe fn load_tail<S: Isa, T: Elem>(p: *const T, n: usize, fill: f32) -> S::V {
    let mut lanes = [fill; 16];
    for i in 0..n {
        // SAFETY: i < n.
        lanes[i] = unsafe { *p.add(i) }.to_f32();
    }
    // SAFETY: the array is as long as the widest vector.
    unsafe { S::load_f32(lanes.as_ptr()) }
}

/// The first `n` lanes from memory, at most all of them, the others `fill`.
///
/// # Safety
/// As for [`Isa`], for `n` elements.
#[inline(always)]
pub unsafe fn load_some<S: Isa, T: Elem>(p: *const T, n: usize, fill: f32) -> S::V {
    // SAFETY: by contract.
    unsafe { if n < S::W { load_tail::<S, T>(p, n, fill) } else { T::load::<S>(p) } }
}

/// The first `n < W` lanes to memory.
///
/// # Safety
/// As for [`Isa`], for `n` elements.
#[inline(always)]
pub unsafe fn store_tail<S: Isa, T: Elem>(p: *mut T, v: S::V, n: usize) {
    let mut lanes = [0f32; 16];
    // SAFETY: the array is as long as the widest vector.
    unsafe { S::store_f32(lanes.as_mut_ptr(), v) };
    for i in 0..n {
        // SAFETY: i < n.
        unsafe { p.add(i).write(T::from_f32(lanes[i])) };
    }
}
